floodmark inspect --json HuggingFaceTB/SmolLM2-135M --layers 1
