# Whatever was typed, a message is one line of UTF-8 without control characters.
exec 2>&1
bad=$(printf 'a\033[31m\377\302\205b')
floodmark "$bad"
floodmark inspect "$bad"
floodmark plan gpt2 --on "$bad"
floodmark plan gpt2 --on A100-80GB --engine "$bad"
floodmark plan gpt2 --on A100-80GB --why "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxé"
floodmark plan gpt2 --on A100-80GB --clip 0x10
mkdir empty
floodmark inspect empty
# Nobody takes the text, or no file may grow.
for c in "inspect --help" "plan --help" "quantize --help" "compare --help" "--help"; do
    floodmark $c >/dev/full
    echo "$?: $c"
done
{
    ulimit -f 0
    floodmark plan gpt2 --on A100-80GB --json --svg a.svg
    echo "$?: a file past the limit"
} 2>&1 | cat
