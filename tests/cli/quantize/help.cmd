floodmark quantize --help
