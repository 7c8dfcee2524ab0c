floodmark inspect llama-3.1-8b
