floodmark inspect 70B
