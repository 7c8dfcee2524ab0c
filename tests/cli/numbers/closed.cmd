# A full or closed standard output is a failure, not a silence.
floodmark numbers >/dev/full
echo $?
