# A name or folder that is nearly right: what was meant is said, and nothing is ignored in silence.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.down_proj.weight":{"dtype":"F16","shape":[64,64],"data_offsets":[0,8192]}}'
head -c 8192 /dev/zero >>in.safetensors
floodmark quantize in.safetensors out.safetensors -f int4 --keep '*downproj*=int8' --keep '*.down_proj.*=fp32' --dry-run | tail -n 1
floodmark compare in.safetensors --tensor a.downproj.weight
echo $?
mkdir described && echo '{"model_type": "llama"}' >described/config.json
floodmark quantize described out.safetensors -f int4
echo $?
floodmark plan in.safetensors --on A100-80GB
echo $?
