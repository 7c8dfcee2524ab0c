floodmark numbers --json --type int4 --type e4m3
