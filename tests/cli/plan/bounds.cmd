# Counts far past what anyone trains: folded away, or refused in words, never recorded one by one.
m=SmolLM2-135M
ask() { timeout 20 floodmark plan $m --on 8xH100-80GB --seq 64 "$@" 2>&1 | sed -n '1p;s/^  "peak_bytes": .*/&/p'; echo "-- ${PIPESTATUS[0]}: $*"; }
ask --json --layers 4 --accumulate 1000000000
ask --json --layers 4 --accumulate 3
ask --json --engine fsdp1 --wrap root --accumulate 1000000000
ask --json --engine fsdp1 --wrap root --accumulate 3
ask --json --prefetch 1000000000
ask --json --prefetch 30
ask --layers 50000
ask --full --accumulate 1000000
ask --why activations --layers 9000
