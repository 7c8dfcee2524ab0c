# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
# Whatever fails, and whenever: one line on stderr, exit 1, the old file untouched, nothing else left behind.
echo old >old
for args in "o.safetensors -f int4 --scheme asym" "o.gguf -f q4_0"; do
    set -- $args
    for kind in alloc open read write sync rename; do
        step=1
        [ $kind = alloc ] && step=23 # the allocations one by one take minutes; a stride lands in every phase
        for ((n = 1; n < 4000; n += step)); do
            rm -rf work && mkdir work && cd work
            cp ../old "$1"
            FLOODMARK_FAULT=$kind:$n floodmark quantize ../in.safetensors "$@" --keep 'huge=f32' --force --threads 1 >/dev/null 2>../err
            code=$?
            if [ $code -eq 0 ]; then
                cd ..
                break
            fi
            # once the new file has its name, only the sync of its directory is left to fail
            { cmp -s "$1" ../old || grep -q 'written and in place' ../err; } && [ $code -eq 1 ] &&
                [ "$(wc -l <../err)" -eq 1 ] && [ "$(ls -A)" = "$1" ] ||
                echo "$args: $kind $n: exit $code, left $(ls -A | tr '\n' ' '), $(cat ../err)"
            cd ..
        done
        [ $n -gt 1 ] && echo "$args: $kind ok"
    done
done
rm -rf work err old in.safetensors
