floodmark compare --synthetic outlier -f int8
floodmark compare --synthetic skewed -f int4
