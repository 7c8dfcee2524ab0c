# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
floodmark quantize in.safetensors out.gguf -f q8_0 --all --rescue --threads 1 | tail -4
floodmark quantize in.safetensors kept.gguf -f q8_0 --all --non-finite keep --threads 1 | tail -4
floodmark quantize in.safetensors half.safetensors -f fp16 --all | tail -4
floodmark quantize in.safetensors cast.safetensors -f fp8_e4m3 --scale none --all | tail -4
