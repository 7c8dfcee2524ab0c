# Rows that are not whole blocks cannot lie as compressed-tensors has them: those who load the file elsewhere are told.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.weight":{"dtype":"F16","shape":[32,128],"data_offsets":[0,8192]},"b.weight":{"dtype":"F16","shape":[64,80],"data_offsets":[8192,18432]}}'
seq 10000 | head -c 18432 >>in.safetensors
for args in "-f int4" "-f int4 -g block:16" "-f nf4" "-f int8 -g column --dry-run" "-f bf16"; do
    echo "$args:"
    floodmark quantize in.safetensors o.safetensors --force $args 2>/dev/null | tail -4
done
