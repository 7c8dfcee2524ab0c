# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
# The same bytes whatever the threads and the instruction set; one line of sums for all layouts.
for args in "int4" "int4 --scheme asym -c mse" "int8 -g tensor -c percentile" "int3 -g column" "fp8_e4m3 -g tile:4x64" "mxfp6" "nvfp4 --all" "nf4 --scale double" "fp4" "int8 -g row -c kl" "bf16"; do
    floodmark quantize in.safetensors out.safetensors -f $args --force --threads 1 >report.txt 2>/dev/null || echo failed
    for t in 1 2; do
        for cpu in scalar avx2 avx512; do
            FLOODMARK_CPU=$cpu floodmark quantize in.safetensors again.safetensors -f $args --force --threads $t >again.txt 2>/dev/null
            cmp out.safetensors again.safetensors
            sed s/again/out/ again.txt | cmp report.txt -
        done
    done
    echo "$(sha256sum <out.safetensors | cut -c1-16) $args"
done
