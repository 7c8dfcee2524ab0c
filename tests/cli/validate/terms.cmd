# What makes a figure adds up to it, also where blocks were folded: init's level too.
{
    echo id,model,on,phase,bytes,trust
    echo i,TinyLlama-1.1B,8xA100-80GB,init,550149120,exact
    echo r,TinyLlama-1.1B,8xA100-80GB,run,1,exact
    echo h,TinyLlama-1.1B,8xA100-80GB,host,1,exact
} >rows.csv
floodmark validate rows.csv --rows --json >out.json || exit 1
awk -F'[:,]' '/"predicted"/ { want = $2 } /"terms"/ { sum = 0; inside = 1; next }
    inside && /}/ { inside = 0; print sum - want " apart of " want } inside { sum += $2 }' out.json
