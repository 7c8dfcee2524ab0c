floodmark inspect --units TB gpt2
