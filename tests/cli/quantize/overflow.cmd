# What a format's scales cannot hold is said: by a stop that names the value, or by a count.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"a.weight":{"dtype":"F32","shape":[64,64],"data_offsets":[0,16384]}}'
for ((i = 0; i < 4096; i++)); do
    case $i in
    1234) printf '\303\265\157\177' ;; # 3.19e38
    *) printf '\0\0\200\77' ;;
    esac
done >>in.safetensors
for format in q8_0 q4_0 q5_1; do
    floodmark quantize in.safetensors o.gguf -f $format
    echo $? >&2
done
for args in mxfp4 "int8 --scale fp16" "int8 -g column --scale fp16" "int4 -g tensor --scale bf16" fp16; do
    echo "$args:" >&2
    floodmark quantize in.safetensors o.safetensors --force -f $args >/dev/null || echo failed
done
floodmark compare in.safetensors --tensor a.weight -f mxfp4 -f q8_0
floodmark compare in.safetensors --tensor a.weight -f q8_0 --json | grep overflowed
