floodmark plan google/gemma-2-2b --on A100-80GB --attention sdpa | sed -n "/^warning/p"
floodmark plan google/gemma-2-2b --on A100-80GB --json | grep -A2 '"attention": {'
