// The kernels of the block formats, one set per instruction set. Private.
#ifndef FM_QUANTIZE_BLOCKS_KERNELS_H
#define FM_QUANTIZE_BLOCKS_KERNELS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/cpu.h"
#include "floodmark/block_format.h"

// n_blocks blocks from `blocks` (any alignment) to y[n_blocks * block_elems].
typedef void fm_block_decoder(size_t n_blocks, const uint8_t *restrict blocks, float *restrict y);

// n_blocks blocks of one row. w: the importance of each value of the row, or NULL.
typedef void fm_block_encoder(size_t n_blocks, const float *restrict x, const float *restrict w,
                              uint8_t *restrict blocks);

// The greatest magnitude of n values, as the bits of a float.
typedef uint32_t fm_block_magnitude(size_t n, const float *x);

typedef struct {
    fm_block_encoder *encode;
    fm_block_encoder *encode_weighted; // when weights are given; may equal encode and ignore them
    fm_block_decoder *decode;
    fm_block_magnitude *largest;
} fm_block_kernels;

// The kernels of a type at a level that this build has and this machine runs; false otherwise. Tests compare the levels.
bool fm_block_kernels_at(fm_cpu_level level, fm_block_type type, fm_block_kernels *out);

// Tables of one level. An empty place in `exact` or `search` means that the format has no such encoder; in a level
// above scalar, that the one below is used.
typedef struct {
    fm_block_encoder *const *exact, *const *search;
    fm_block_decoder *const *decode;
    fm_block_magnitude *largest;
} fm_block_level;

fm_block_magnitude fm_block_largest_scalar, fm_block_largest_avx2, fm_block_largest_avx512;

extern fm_block_decoder *const fm_block_decoders_scalar[FM_BLOCK_N], *const fm_block_decoders_avx2[FM_BLOCK_N],
                                                                         *const fm_block_decoders_avx512[FM_BLOCK_N];
extern fm_block_encoder *const fm_block_exact_scalar[FM_BLOCK_N], *const fm_block_exact_avx2[FM_BLOCK_N],
                                                                      *const fm_block_exact_avx512[FM_BLOCK_N];
extern fm_block_encoder *const fm_block_search_scalar[FM_BLOCK_N], *const fm_block_search_avx2[FM_BLOCK_N],
                                                                       *const fm_block_search_avx512[FM_BLOCK_N];
#endif
