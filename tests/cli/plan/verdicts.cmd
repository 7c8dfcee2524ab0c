# The exit status is the answer.
floodmark plan gpt2 --on A100-80GB >/dev/null
echo "fits: $?"
floodmark plan 70B --on A100-80GB >/dev/null
echo "does not fit: $?"
floodmark plan 70B --on A100-80GB --json | grep -E '"(verdict|peak_phase)"'
floodmark plan gpt2 --on A100-80GB --json | grep '"verdict"'
