floodmark inspect
