for words in seventy "''" 1e999 '1.5x' '-t f99 1' '-r up 1' '--seed x 1' '--frobnicate' '-q' '-t'; do
    eval "floodmark numbers $words"
    echo "$words: $?"
done
