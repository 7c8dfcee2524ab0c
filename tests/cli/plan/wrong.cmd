# What is wrong is named, with the nearest right one; exit 2, and no file is left.
try() {
    floodmark plan "$@"
    echo "$?: $*"
}
exec 2>&1
try
try gpt2
try gpt2 --on
try gpt2 gpt2-xl --on A100-80GB
try gpt2 --on 8xA100
try gpt2 --on 8xA100-80G
try gpt2 --on 0xA100-80GB
try gpt2 --on 99999999999999999999xA100-80GB
try gpt2 --on A100-80GB --seqq 4
try gpt2 --on A100-80GB --seq nan
try gpt2 --on A100-80GB --seq 0
try gpt2 --on A100-80GB --seq -1
try gpt2 --on A100-80GB --seq 99999999999999999999
try gpt2 --on A100-80GB --seq 1025
try gpt2 --on A100-80GB --engine fdsp2
try gpt2 --on A100-80GB --engine zero3
try gpt2 --on A100-80GB --engine ddp --how policy
try gpt2 --on 8xA100-80GB --engine single
try gpt2 --on 8xA100-80GB --tp 3
try gpt2 --on 8xA100-80GB --tp 8
try gpt2 --on 8xA100-80GB --replicate 3
try gpt2 --on A100-80GB --precision bf17
try gpt2 --on A100-80GB --lora-rank 8
try gpt2 --on A100-80GB --units TB
try gpt2 --on A100-80GB --emit peaks
try gpt2 --on A100-80GB --why parametres
try gpt2 --on A100-80GB --json=yes
try 70B --on A100-80GB --batch 1000000000 --seq 1000000000
try gpt2 --on 8xA100-80GB --wrap separate
