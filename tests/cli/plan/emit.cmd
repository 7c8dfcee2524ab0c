# The program and the timeline; every buffer that is made is freed or alive at the end.
floodmark plan gpt2 --layers 1 --on A100-80GB --precision bf16 --emit program | head -n 4
floodmark plan gpt2 --layers 1 --on A100-80GB --precision bf16 --emit timeline | head -n 4
floodmark plan gpt2 --layers 1 --on A100-80GB --precision bf16 --emit timeline | cut -f 2 | tail -n +2 | uniq
# The highest level of the timeline is the peak of the report.
floodmark plan gpt2 --layers 2 --on A100-80GB --emit timeline | awk -F '\t' '$3 > m { m = $3 } END { print m }' >peak
floodmark plan gpt2 --layers 2 --on A100-80GB --json | grep -c "\"peak_bytes\": $(cat peak),\$"
