# No file of the input is replaced, --force or not: not a shard, not its index, not under another name for it.
st() { # st FILE HEADER: the header with its length before it
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.weight":{"dtype":"F16","shape":[64,64],"data_offsets":[0,8192]},"b.weight":{"dtype":"F16","shape":[64,64],"data_offsets":[8192,16384]}}'
seq 10000 | head -c 16384 >>in.safetensors
mkdir model
floodmark quantize in.safetensors model/model.safetensors -f bf16 --shard-size 8KB >/dev/null || exit
cat model/* | cksum >before
ln -s model/model-00001-of-00002.safetensors link.safetensors
ln model/model-00002-of-00002.safetensors hard.safetensors
for args in "model model/model-00001-of-00002.safetensors" "model link.safetensors" "model hard.safetensors" \
    "model model/model.safetensors" "model model/../model/model.safetensors --shard-size 1GB" \
    "model/model-00001-of-00002.safetensors model/model.safetensors --shard-size 4KB" \
    "model out.safetensors --report model/model.safetensors.index.json"; do
    floodmark quantize $args -f int8 --force
    echo "$? : $args" >&2
done
cat model/* | cksum | cmp - before && ls
# Another name next to it is none of theirs.
floodmark quantize model model/small.safetensors -f int8 --shard-size 5KB 2>&1 | tail -1
