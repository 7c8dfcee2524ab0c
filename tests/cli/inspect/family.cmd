echo '{"model_type": "mamba2", "hidden_size": 64}' >config.json
floodmark inspect .
