exec 2>&1
try() {
    floodmark validate "$@"
    echo "$?: $*"
}
try
try a.csv b.csv
try nothing.csv
try nothing.csv --row
try nothing.csv --where
try nothing.csv --where phase
try nothing.csv --where fase=run
printf 'id,model,phase,bytes\na,b,run\n' >short.csv
try short.csv
printf 'id,model,phase,bytes,seqq\n' >unknown.csv
try unknown.csv
printf 'id,model,phase,bytes\n"a,b,run,1\n' >open.csv
try open.csv
printf 'id,model,phase,bytes\n' >none.csv
try none.csv
