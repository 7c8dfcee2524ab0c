# Files that are not there or not what they should be: exit 1, no output left behind.
try() {
    floodmark plan "$@"
    echo "$?: $*"
}
exec 2>&1
try nothing.json --on A100-80GB
try gpt2 --on nothing.json
try gpt2 --on A100-80GB --recipe nothing.yaml
printf 'seq: 1\nengien: ddp\n' >r.yaml
try gpt2 --on A100-80GB --recipe r.yaml --svg out.svg --recipe-out out.yaml
printf '{"gpu": "A100-40G"}' >m.json
try gpt2 --on m.json
printf '[1' >r.json
try gpt2 --on A100-80GB --recipe r.json
try gpt2 --on A100-80GB --svg no/such/folder/out.svg
try gpt2 --on A100-80GB --recipe-out /dev/full/x
