# An importance of nothing but zeros says nothing: the weights are not all written as zero.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.weight":{"dtype":"F16","shape":[64,64],"data_offsets":[0,8192]}}'
seq 10000 | head -c 8192 >>in.safetensors
old() { # old FILE VALUE: llama-imatrix's older form, one entry of 64 values
    printf '\1\0\0\0\10\0\0\0a.weight\1\0\0\0\100\0\0\0' >"$1"
    for ((i = 0; i < 64; i++)); do printf "$2" >>"$1"; done
}
old zeros.dat '\0\0\0\0'
old ones.dat '\0\0\200\77'
for format in q4_0 q8_0 iq4_nl; do
    for x in zeros ones; do
        floodmark quantize in.safetensors $x.gguf --force -f $format --imatrix $x.dat 2>/dev/null | grep SQNR | tail -1
    done
    cmp zeros.gguf ones.gguf && echo same
done
stats='{"__metadata__":{"floodmark.activations":"1"},"a.weight.mean_square":{"dtype":"F32","shape":[64],"data_offsets":[0,256]}}'
st zeros.safetensors "$stats"
head -c 256 /dev/zero >>zeros.safetensors
floodmark quantize in.safetensors int4.safetensors -f int4 --activations zeros.safetensors 2>/dev/null | grep SQNR | tail -1
