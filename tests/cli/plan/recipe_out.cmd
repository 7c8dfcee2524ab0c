# A resolved recipe, read back, is the same recipe.
floodmark plan HuggingFaceTB/SmolLM2-135M --on 8xA100-80GB --accumulate 2 --recipe-out a.yaml >one
floodmark plan --recipe a.yaml --recipe-out b.json >two
floodmark plan --recipe b.json --recipe-out c.yaml >three
cmp one two && cmp one three && sed 's/ #.*//' a.yaml >a && sed 's/ #.*//' c.yaml >c && cmp a c && cat a.yaml
