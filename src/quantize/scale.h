// From a range to the scale as it is stored. Private.
#ifndef FM_QUANTIZE_SCALE_H
#define FM_QUANTIZE_SCALE_H
#include "floodmark/calibrate.h"
#include "quantize/grid.h"

// The scale and zero point for a group whose values lie in [lo, hi].
fm_group_scale fm_scale_of_range(const fm_scheme *s, const fm_grid_desc *g, float lo, float hi, float global);

// How many candidates a search looks at (1: none), and the i-th.
int fm_scale_candidates(const fm_scheme *s);
fm_group_scale fm_scale_candidate(const fm_scheme *s, const fm_grid_desc *g, float lo, float hi, float global, int i);

// fm_calibrate_group (calibrate.h) for many groups of one scheme: the grid is described and the weights are checked once.
fm_status fm_check_weights(const fm_scheme *s, const float *weights, fm_err *err) FM_MUST_USE;
fm_status fm_calibrate_described(const fm_scheme *s, const fm_grid_desc *g, const float *x, uint64_t rows,
                                 uint64_t cols, uint64_t stride, const float *weights, float global,
                                 fm_group_scale *out, fm_err *err) FM_MUST_USE;
#endif
