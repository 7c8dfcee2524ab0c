// Grids as the kernels want them, and the dispatch on their kind. Private.
#ifndef FM_QUANTIZE_GRID_H
#define FM_QUANTIZE_GRID_H
#include "floodmark/scheme.h"
#include "quantize/kernels.h"

// A grid's description under a scheme (symmetry decides the codes of integers). Points into static tables.
fm_grid_desc fm_grid_describe(const fm_scheme *s);

// A run of values with one scale. Scale 0 encodes everything as zero.
void fm_grid_encode(const fm_grid_desc *g, size_t n, const float *x, float scale, int32_t zero, uint8_t *codes);
void fm_grid_decode(const fm_grid_desc *g, size_t n, const uint8_t *codes, float scale, int32_t zero, float *out);
double fm_grid_error(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale, int32_t zero);
// The same in pieces, each a multiple of FM_QUANTIZE_LANES values but the last: lanes [FM_QUANTIZE_LANES] from zero, to the
// bit what fm_grid_error says of the whole.
void fm_grid_error_add(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale, int32_t zero,
                       double *lanes);
double fm_grid_error_total(const double *lanes);

// The dynamic8 table [256], ascending.
const float *fm_dynamic8_values(void);
#endif
