floodmark numbers
