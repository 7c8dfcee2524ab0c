# Names are foreign text: each keeps its line in a table and its row in CSV, and none steers the terminal.
st() {
    local n=${#2}
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
}
tensors=
at=0
for name in 'a\nb' 'c\rd' '\u001b[31mred' 'q\"uo,te' '../up' 'é中' '%s%n' "<x>&'"; do
    tensors+=",\"$name\":{\"dtype\":\"F16\",\"shape\":[64,64],\"data_offsets\":[$at,$((at += 8192))]}"
done
LC_ALL=C
st in.safetensors "{${tensors#,}}"
seq 100000 | head -c $at >>in.safetensors
floodmark quantize in.safetensors o.safetensors -f int8 --report r.csv --report r.svg --json >r.json
floodmark quantize in.safetensors o.safetensors -f int8 --force
cut -d, -f1-5 r.csv | od -An -c | head -30
grep -c '[[:cntrl:]]' r.json r.svg
grep '"name"' r.json
