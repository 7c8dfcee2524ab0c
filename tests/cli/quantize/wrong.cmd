for args in "" "a" "a b" "a b.bin -f int4" "a b.safetensors" "a b.safetensors -f int9" "a b.gguf -f int4" "a b.safetensors -f q4_k" \
    "a b.gguf -f q4_k -g row" "a b.gguf -f q4_k --scale none" "a b.safetensors -f bf16 --scale fp16" "a b.safetensors -f int4 --scheme odd" \
    "a b.safetensors -f int4 -g block:0" "a b.safetensors -f int4 -g tile:4" "a b.safetensors -f int4 --scale e8m0:up" "a b.safetensors -f int4 -c percentile:40" \
    "a b.safetensors -f fp8_e4m3 --scheme asym" "a b.safetensors -f nf4 -g column" "a b.safetensors -f int4 -c kl" "a b.safetensors -f int4 --scale none" \
    "a b.safetensors -f mxfp8 --scale none" "a b.safetensors -f nvfp4 --scale none" \
    "a b.safetensors -f int4 -c weighted" "a b.safetensors -f int4 --imatrix i --activations j" "a b.safetensors -f bf16 --imatrix i" "a b.safetensors -f int4 --keep x" \
    "a b.safetensors -f int4 --keep x=q4_0" "a b.safetensors -f int4 --non-finite maybe" "a b.safetensors -f int4 -t 0" "a b.gguf -f q4_0 --shard-size 5GB" \
    "a b.safetensors -f int4 --report r.txt" "a a.gguf -f q4_0 --sparse"; do
    floodmark quantize $args
    echo "$? : $args"
done
