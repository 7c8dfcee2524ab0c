floodmark numbers --saturate -r rz 70000 -inf
