# Machines of one's own at the edges of what a number or a name can be.
exec 2>&1
try() {
    echo "$1" >m.json
    floodmark plan SmolLM2-135M --on ./m.json --seq 64 --json >out
    echo "$?: $1"
    grep -E '"(verdict|spare_bytes)"' out || true
}
try '{"gpu": {"memory_bytes": 18446744073709551615}}'
try '{"gpu": {"memory_bytes": 1}}'
try '{"gpu": {"memory_bytes": 0}}'
try '{"gpus_per_node": 2, "gpu": {"memory_bytes": 18446744073709551615}}'
try '{"gpu": {"like": "H100-80GB", "name": "a\u001b[31m"}}'
try '{"gpu": {"like": "H100-80GB", "flops": {"bf17": 1}}}'
try '{"nodes": 1.5, "gpu": "H100-80GB"}'
