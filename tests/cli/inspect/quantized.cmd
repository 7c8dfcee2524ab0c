# Packed codes are elements of a file, not parameters of a model.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.weight":{"dtype":"F16","shape":[64,64],"data_offsets":[0,8192]}}'
head -c 8192 /dev/zero >>in.safetensors
for format in int4 fp8_e4m3 nf4 int3; do
    floodmark quantize in.safetensors $format.safetensors -f $format --force >/dev/null
    floodmark inspect $format.safetensors | sed -n 1,4p
done
floodmark quantize in.safetensors tile.safetensors -f int4 -g tile:8x8 >/dev/null
floodmark inspect tile.safetensors | sed -n 1,4p
floodmark inspect in.safetensors | sed -n 1,4p
