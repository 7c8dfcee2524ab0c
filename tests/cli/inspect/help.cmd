floodmark inspect --help
