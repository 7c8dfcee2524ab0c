#include "command/score.h"
#include <stdlib.h>
#include "base/alloc.h"

// One allocation of the smallest size: below it a share of the truth says nothing.
static double scale(uint64_t bytes)
{
    return bytes > 512 ? (double)bytes : 512.0;
}

double fm_score_signed(uint64_t predicted, uint64_t bytes)
{
    double difference = predicted >= bytes ? (double)(predicted - bytes) : -(double)(bytes - predicted);
    return difference / scale(bytes);
}

double fm_score_ape(uint64_t predicted, uint64_t bytes)
{
    double s = fm_score_signed(predicted, bytes);
    return s < 0 ? -s : s;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

fm_status fm_score_rows(const fm_score_row *rows, const size_t *pick, size_t n, fm_score *out, fm_err *err)
{
    fm_score score = {.n = n};
    if (n) {
        double *ape = fm_alloc_array(n, sizeof *ape), sum = 0;
        if (!ape)
            return fm_fail_memory(err, "the score");
        for (size_t i = 0; i < n; i++) {
            const fm_score_row *row = &rows[pick ? pick[i] : i];
            ape[i] = fm_score_ape(row->predicted, row->bytes);
            sum += fm_score_signed(row->predicted, row->bytes);
        }
        qsort(ape, n, sizeof *ape, ascending);
        score.median_ape = (ape[(n - 1) / 2] + ape[n / 2]) / 2;
        score.p95_ape = ape[(95 * n + 99) / 100 - 1]; // nearest rank: ceil(0.95 n)
        score.max_ape = ape[n - 1];
        score.bias = sum / (double)n;
        fm_free(ape);
    }
    *out = score;
    return FM_OK;
}
