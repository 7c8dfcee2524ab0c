# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
floodmark quantize in.safetensors out.safetensors -f int4 -g tensor --all --keep "huge=fp32" --report r.csv --report r.svg
cat r.csv
grep -c polyline r.svg
head -c 60 r.svg
