# The state arithmetic that the project grew from: 70B in fp16 with fp32 moments, alone and on 8 GPUs; 1.5B with fp32
# master weights.
floodmark plan 70B --param fp16 --state fp32 --on H100-80GB --units GB | grep -E 'States|warning|DOES'
floodmark plan 70B --param fp16 --state fp32 --on 8xH100-80GB --units GB | grep States
floodmark plan 1.5B --param fp16 --master fp32 --on A100-80GB --units GB | grep -E 'States|warning'
floodmark plan 70B --precision fp16 --state fp32 --on 8xH100-80GB --json | sed -n '/"states"/,/}/p'
floodmark plan 1.5B --param fp16 --master fp32 --on A100-80GB --json | sed -n '/"states"/,/}/p'
