mkdir tiny && cd tiny
cat >config.json <<'J'
{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96,
 "intermediate_size": 80, "torch_dtype": "bfloat16"}
J
floodmark inspect . | head -n 3
