# Names that are not UTF-8, a name cut in a letter, a pipe for a file: reports stay readable, nothing waits.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
st in.safetensors '{"layers.0.<a&b>\uffff":{"dtype":"F16","shape":[64,64],"data_offsets":[0,8192]}}'
seq 10000 | head -c 8192 >>in.safetensors
cp in.safetensors $'\xff\xc3.safetensors'
folder=x$(printf 'é%.0s' {1..120})
mkdir -p "$folder/$folder"
cp in.safetensors "$folder/$folder"
for in in $'\xff\xc3.safetensors' "$folder/$folder/in.safetensors"; do
    floodmark quantize "$in" o.safetensors --force -f int8 --report r.svg --json 2>/dev/null | iconv -f utf-8 -t utf-8 | grep -c '"input"'
    iconv -f utf-8 -t utf-8 r.svg | grep -o '<text[^>]*>[^<]*</text>' | cut -c1-90 | grep -E 'signal|&lt;|é'
done
mkfifo pipe
for in in pipe /dev/null; do
    floodmark quantize $in o.safetensors -f int8
    echo $? >&2
done
