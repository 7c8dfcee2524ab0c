# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
floodmark quantize in.safetensors out.gguf -f q4_0 --non-finite stop --keep "huge=f32" --keep "t*=q8_0" --threads 2
echo "exit $?"
sha256sum out.gguf
for t in 1 2; do
    for cpu in scalar avx2 avx512; do
        FLOODMARK_CPU=$cpu floodmark quantize in.safetensors again.gguf -f q4_0 --force --keep "huge=f32" --keep "t*=q8_0" --threads $t >/dev/null 2>&1
        cmp out.gguf again.gguf
    done
done

# The searched formats: only that nothing of it matters to them either.
floodmark quantize in.safetensors k.gguf -f q4_k --keep "huge=f32" --threads 1 >/dev/null 2>&1
for t in 1 2; do
    for cpu in scalar avx2 avx512; do
        FLOODMARK_CPU=$cpu floodmark quantize in.safetensors again.gguf -f q4_k --force --keep "huge=f32" --threads $t >/dev/null 2>&1
        cmp k.gguf again.gguf
    done
done
