# needs: shared
# Part of the exact cases: one line of figures for each group.
floodmark validate "$FLOODMARK_SHARED/cases/steps.csv" --where 'model=TinyLlama--TinyLlama-1.1B,engine=single'
