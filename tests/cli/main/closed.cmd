# A closed, full or vanished standard output: exit 1, and one line or (for a reader that went away) none.
floodmark --help >&-
echo "closed: $?"
floodmark --help >/dev/full
echo "full: $?"
floodmark plan gpt2 --on A100-80GB --json >/dev/full
echo "full: $?"
floodmark plan --help >&-
echo "closed: $?"
(
    sleep 0.2
    floodmark plan --help
    echo "gone: $?" >&2
) | true
floodmark plan gpt2 --on A100-80GB --json 2>&- <&- | head -n 1
