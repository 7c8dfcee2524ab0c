# needs: shared
# Rows cut into pieces, here at 64 values as otherwise at two million, give the bytes and the report of whole rows.
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
for args in "int8 -g tensor" "int8 -g tensor --scheme asym -c mse" "int3 -g row" "int8 -g row -c percentile" "int8 -g row -c kl" "int4 -g row --scheme asym" "int8 -g row -c mse" "int8 -g column" "int3 -g column --scheme asym -c mse" "int4 -g block:96" "int5 -g block:33 --scheme asym" "fp8_e4m3 -g tile:3x100" "mxfp6" "nvfp4" "nf4 --scale double" "fp8_e4m3 --scale none"; do
    floodmark quantize in.safetensors out.safetensors --all -f $args --force --threads 1 >report.txt 2>/dev/null || echo failed
    for t in 1 2; do
        FLOODMARK_WIDE_ROW=64 floodmark quantize in.safetensors again.safetensors --all -f $args --force --threads $t >again.txt 2>/dev/null
        cmp out.safetensors again.safetensors && sed s/again/out/ again.txt | cmp report.txt - || echo "differs: $args"
    done
    echo "$args"
done
# A group that one thread cannot hold is refused by name; rows of any width are not.
head='{"wide.weight":{"dtype":"BF16","shape":[1024,40000],"data_offsets":[0,81920000]}}'
printf '\121\0\0\0\0\0\0\0%s' "$head" >wide.safetensors
truncate -s 81920089 wide.safetensors
floodmark quantize wide.safetensors w.safetensors -f int4 -g tile:256x40000 --threads 1
ls w.safetensors 2>/dev/null
sed 's/1024,40000/2,20480000/' wide.safetensors >row.safetensors
floodmark quantize row.safetensors w.safetensors -f int2 -g row --threads 2 >/dev/null 2>&1 && echo written
