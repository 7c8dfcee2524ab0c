# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
echo old >out.gguf
floodmark quantize in.safetensors out.gguf -f q4_0
echo $?
floodmark quantize in.safetensors in.safetensors -f int4 --force
echo $?
floodmark quantize in.safetensors out.gguf -f q4_0 --force --all
echo $?
floodmark quantize in.safetensors new.gguf -f q4_k_m
echo $?
floodmark quantize nothing.safetensors new.gguf -f q4_0
echo $?
floodmark quantize in.safetensors nowhere/new.gguf -f q4_0
echo $?
cat out.gguf
