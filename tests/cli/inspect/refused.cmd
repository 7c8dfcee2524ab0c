cat >config.json <<'J'
{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 3, "vocab_size": 96, "intermediate_size": 80}
J
floodmark inspect config.json
