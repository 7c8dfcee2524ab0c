# Whichever allocation fails: exit status 1 and one line, or (none failed) the whole answer. Never a part of it.
floodmark numbers 70000 -t fp16 -t e4m3 >whole
n=0 code=1
until [ $code -eq 0 ] || [ $n -eq 500 ]; do
    n=$((n + 1))
    FLOODMARK_FAULT=alloc:$n floodmark numbers 70000 -t fp16 -t e4m3 >now 2>why
    code=$?
    case $code in
    0) cmp now whole && echo "the whole answer" ;;
    1) [ ! -s now ] && [ "$(wc -l <why)" -eq 1 ] || echo "allocation $n: $(cat why)" ;;
    *) echo "allocation $n: exit status $code" ;;
    esac
done
[ $n -gt 5 ] && echo "after some failures"
