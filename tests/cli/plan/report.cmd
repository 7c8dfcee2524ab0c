# The report, whole; a recipe file with flags over it; the timeline of another width stays in its place.
cat >r.yaml <<'R'
# a small run
engine: single
precision: bf16
seq: 512
batch: 2
checkpoint: full
clip: 1.0
R
floodmark plan openai-community/gpt2 --on A100-40GB --recipe r.yaml --batch 4
