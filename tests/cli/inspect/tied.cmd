floodmark inspect --units GiB openai-community/gpt2
