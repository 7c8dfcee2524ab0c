floodmark validate --help
