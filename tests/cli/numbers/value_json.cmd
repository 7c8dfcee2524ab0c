floodmark numbers -1.5 inf 0.1 -t fp16 -t int8 --json
