floodmark numbers 70000
