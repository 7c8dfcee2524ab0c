floodmark numbers nan -0.0 0x1p-150
