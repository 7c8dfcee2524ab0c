# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
for args in "int4 -g row" "int4 -g row -c mse" "int4 -g row --activations $CASES/activations.safetensors" "mxfp4 --activations $CASES/activations.safetensors"; do
    floodmark quantize in.safetensors out.safetensors -f $args --force 2>/dev/null | grep -E '^(student|mixed_rows) ' | tr -s ' '
done
floodmark quantize in.safetensors out.gguf -f q4_k --activations "$CASES/activations.safetensors" 2>/dev/null | grep -c 'no importance known'
floodmark quantize in.safetensors new.safetensors -f int4 --activations in.safetensors
echo $?
