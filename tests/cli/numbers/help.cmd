floodmark numbers --help
