floodmark numbers -r sr --seed 7 -t bf16 -t fp8_e5m2 1.001 1.001
