# What is behind a number adds up to it.
floodmark plan gpt2 --layers 2 --on A100-80GB --why parameters --json |
    awk -F '[:,]' '/total_bytes/ { s += $2 } END { print s }'
floodmark plan gpt2 --layers 2 --on A100-80GB --json | sed -n '/"at_peak"/,/}/p' | grep '"parameters"'
floodmark plan gpt2 --layers 2 --on A100-80GB --why parameters
