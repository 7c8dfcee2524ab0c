floodmark inspect --layers 2 gemma-2-2b --all
