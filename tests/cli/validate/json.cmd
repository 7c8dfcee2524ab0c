# Figures are finite, also when nothing is asked; rows carry their terms.
cat >c.csv <<'C'
id,model,on,phase,bytes,trust,engine,clip
a,openai-community--gpt2,1x1xA100-80GB,clip,5,exact,single,no
b,openai-community--gpt2,1x1xA100-80GB,rum,5,exact,single,no
c,openai-community--gpt2,1x1xA100-80GB,init,5,exact,zero1,no
d,no-such-model-anywhere,1x1xA100-80GB,init,5,exact,single,no
e,openai-community--gpt2,1x1xNothing,init,5,exact,single,no
f,openai-community--gpt2,1x1xA100-80GB,,5,exact,single,no
C
floodmark validate c.csv --json
cat >d.csv <<'C'
id,model,layers,on,phase,bytes,trust,param
a,openai-community--gpt2,1,1x1xA100-80GB,init,1,exact,fp32
b,openai-community--gpt2,1,1x1xA100-80GB,host,0,exact,fp32
C
floodmark validate d.csv --json --rows --where layers=1
