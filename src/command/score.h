// How far predictions are from the truth: the statistics of `validate`.
#ifndef FM_COMMAND_SCORE_H
#define FM_COMMAND_SCORE_H
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

// One row's prediction. `phase`, `engine` and `model` are owned by the score.
typedef struct {
    uint64_t predicted, bytes;
} fm_score_row;

typedef struct {
    size_t n;
    double median_ape, p95_ape, max_ape, bias; // fractions; 0 when n is 0
} fm_score;

// ape = |predicted - bytes| / max(bytes, 512), bias the mean of (predicted - bytes) / max(bytes, 512); p95 by nearest
// rank, the median of an even number the mean of the middle two. Every number is finite.
double fm_score_ape(uint64_t predicted, uint64_t bytes);
double fm_score_signed(uint64_t predicted, uint64_t bytes);

// Scores rows[pick[0..n)]; `pick` may be NULL for all of 0..n.
fm_status fm_score_rows(const fm_score_row *rows, const size_t *pick, size_t n, fm_score *out, fm_err *err) FM_MUST_USE;
#endif
