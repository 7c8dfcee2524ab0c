# Whichever allocation fails: exit status 1 and one line, or (none failed) the whole answer. Never a part of it.
floodmark numbers 70000 -t fp16 -t e4m3 >../whole
n=0 code=1
until [ $code -eq 0 ] || [ $n -eq 500 ]; do
    n=$((n + 1))
    FLOODMARK_FAULT=alloc:$n floodmark numbers 70000 -t fp16 -t e4m3 >../out 2>../err
    code=$?
    case $code in
    0) cmp ../out ../whole && echo "the whole answer" ;;
    1) [ ! -s ../out ] && [ "$(wc -l <../err)" -eq 1 ] || echo "allocation $n: $(cat ../err)" ;;
    *) echo "allocation $n: exit status $code" ;;
    esac
done
[ $n -gt 5 ] && echo "after some failures"
