# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
floodmark compare in.safetensors --tensor student -f int8 -f int4 -f fp8_e4m3 -f mxfp4 -f nvfp4 -f nf4 -f q8_0 -f q4_0
floodmark compare in.safetensors --tensor row100 -f q8_0 --json
echo $?
floodmark compare in.safetensors --tensor nothing
echo $?
floodmark compare --synthetic odd
echo $?
floodmark compare
echo $?
