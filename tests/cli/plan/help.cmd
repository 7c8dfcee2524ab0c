floodmark plan --help
