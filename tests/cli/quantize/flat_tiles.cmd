# Blocks of values that are no multiple of the input's blocks, across tiles: as from the same values in fp32.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.weight":{"dtype":"F16","shape":[1024,768],"data_offsets":[0,1572864]}}'
seq 1000000 | head -c 1572864 >>in.safetensors
floodmark quantize in.safetensors q.gguf -f q4_k >/dev/null 2>&1 && floodmark quantize q.gguf f.gguf -f fp32 >/dev/null || exit
for args in "-f int4 -g flat:48" "-f int3 -g flat:7" "-f nf4 -g flat:100" "-f nf4 --scale double" "-f int8 -g flat:1000 --scale double"; do
    for threads in 1 2; do
        floodmark quantize q.gguf q$threads.safetensors $args --threads $threads --force >/dev/null 2>&1
    done
    floodmark quantize f.gguf f.safetensors $args --force >/dev/null 2>&1
    cmp q1.safetensors f.safetensors && cmp q1.safetensors q2.safetensors && echo "same: $args"
done
