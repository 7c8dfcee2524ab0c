# needs: shared
cp "$FLOODMARK_SHARED/golden/quant/inputs.safetensors" in.safetensors
floodmark compare in.safetensors --tensor student
floodmark compare in.safetensors --tensor row100 -f q8_0 --json
echo $?
floodmark compare in.safetensors --tensor nothing
echo $?
floodmark compare --synthetic odd
echo $?
floodmark compare
echo $?
