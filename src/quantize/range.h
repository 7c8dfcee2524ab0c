// The ways to a range that need more than the extremes: order statistics and the entropy search. Private.
#ifndef FM_QUANTIZE_RANGE_H
#define FM_QUANTIZE_RANGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "quantize/scale.h"

// Finds the value of one rank among values seen four times over: each pass fixes 8 more bits of its key.
typedef struct {
    uint64_t rank;
    uint32_t prefix;
    uint64_t count[256];
} fm_select;

// The order statistics that a percentile needs: ranks k and k+1 of |x| (symmetric: 2 selects) or of x at both ends (4).
enum { FM_SELECT_PASSES = 4, FM_SELECTS_SYMMETRIC = 2, FM_SELECTS_ASYMMETRIC = 4 };
void fm_selects_init(const fm_scheme *s, uint64_t n, fm_select *selects);
void fm_selects_feed(const fm_scheme *s, fm_select *selects, int pass, size_t n, const float *x);
void fm_selects_next(const fm_scheme *s, fm_select *selects, int pass);
// After the last pass: the range.
void fm_selects_range(const fm_scheme *s, uint64_t n, const fm_select *selects, float *lo, float *hi);

// Entropy calibration: counts of |x| in bins of [0, a].
enum { FM_KL_BINS = 2048, FM_KL_FIRST = 128, FM_KL_STEP = 16 };
void fm_kl_feed(uint64_t *bins, float a, size_t n, const float *x);
float fm_kl_threshold(const fm_scheme *s, const fm_grid_desc *g, const uint64_t *bins, float a);
#endif
