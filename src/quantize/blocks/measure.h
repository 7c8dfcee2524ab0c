// What encoding a tile did to its values. Private.
#ifndef FM_QUANTIZE_BLOCKS_MEASURE_H
#define FM_QUANTIZE_BLOCKS_MEASURE_H
#include "quantize/blocks/kernels.h"

// Counts what of x[n_blocks * block_elems] could not be expressed in its blocks, and where it began.
void fm_block_find_faults(const fm_block_format *f, fm_block_magnitude *largest, size_t n_blocks, const float *x,
                          const uint8_t *blocks, fm_block_faults *faults);

// Decodes the blocks and adds up what was lost.
void fm_block_measure(const fm_block_format *f, fm_block_decoder *decode, size_t n_blocks, const float *x,
                      const uint8_t *blocks, fm_block_error *error);
#endif
