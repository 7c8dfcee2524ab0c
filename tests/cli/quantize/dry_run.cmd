# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
floodmark quantize in.safetensors out.gguf -f q6_k --dry-run --json
