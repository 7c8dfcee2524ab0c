floodmark inspect Llama-3.1-9B
