# What holds codes and scales is not taken for weights: their values are not those of the model.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.weight":{"dtype":"F16","shape":[64,64],"data_offsets":[0,8192]}}'
seq 10000 | head -c 8192 >>in.safetensors
for format in int4 fp8_e4m3 mxfp4 nf4 "int8 -g column"; do
    floodmark quantize in.safetensors q.safetensors --force -f $format >/dev/null 2>&1
    for to in bf16.safetensors q8_0.gguf; do
        floodmark quantize q.safetensors o.$to -f ${to%.*}
        echo "$? : $format to ${to%.*}" >&2
    done
done
st deepseek.safetensors '{"a.weight":{"dtype":"F8_E4M3","shape":[64,64],"data_offsets":[0,4096]},"a.weight_scale_inv":{"dtype":"F32","shape":[1,1],"data_offsets":[4096,4100]}}'
seq 10000 | head -c 4100 >>deepseek.safetensors
floodmark quantize deepseek.safetensors o.safetensors -f bf16
echo $? >&2
# A plain cast has no scales: it can be widened.
floodmark quantize in.safetensors q.safetensors --force -f fp8_e4m3 --scale none >/dev/null &&
    floodmark quantize q.safetensors o.safetensors -f bf16
ls
