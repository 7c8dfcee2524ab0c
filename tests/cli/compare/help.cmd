floodmark compare --help
