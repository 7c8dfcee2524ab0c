// Quantizing matrices by a scheme, in memory or piece by piece. Pure: the same bytes with every compiler, instruction
// set and cut into pieces.
//
// Codes are one a byte here, as the grid numbers them: symmetric integers as int8_t, asymmetric ones as uint8_t, floats
// and tables as their code. pack_* below turn them into what files hold.
// Decoding is (code - zero) * scale for integers, value(code) * scale for floats and tables, in fp32.
#ifndef FLOODMARK_QUANTIZE_H
#define FLOODMARK_QUANTIZE_H
#include "floodmark/calibrate.h"

#ifdef __cplusplus
extern "C" {
#endif

// Scales of the whole tensor besides those of its groups.
typedef struct {
    float global;  // nvfp4: by its convention; else 1
    float offset;  // double: the mean that was taken off
    float *scale2; // double: [ceil(n_groups / 256)], owned by the caller; else NULL
} fm_tensor_scale;

// nvfp4's global scale for a largest magnitude (0: 1).
float fm_nvfp4_global(const fm_scheme *s, float absmax);

// Finds the scales of all groups of a piece. rows: a multiple of block_rows unless it is the last piece (block, row,
// tile); all rows (tensor, column). flat: rows must be 1 and cols a multiple of the block unless last.
//   x [rows, cols] with `stride`; weights [cols] or NULL; scales [groups of the piece].
// double: fills raw_scale only; fm_scales_double does the rest.
// FM_ERR_VALUE, FM_ERR_NO_MEMORY.
fm_status fm_quantize_calibrate(const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t stride, const float *x,
                                const float *weights, float global, fm_group_scale *scales, fm_err *err) FM_MUST_USE;

// Double quantization, in pieces of whole blocks of 256 scales: first the sum of all (fm_scales_sum adds to *sum block by
// block: fp64 within a block in order, then block after block), from it the offset fm_scales_mean(sum, n), then code and
// scale of each and scale2 [ceil(n/256)] of the piece. The mean is rounded to fp32 (bitsandbytes takes torch's fp32 mean,
// an ulp apart at times). Codes are the nearest of the dynamic8 table; a block without magnitude takes code 0, as there.
void fm_scales_sum(uint64_t n, const fm_group_scale *scales, double *sum);
float fm_scales_mean(double sum, uint64_t n);
void fm_scales_double(uint64_t n, fm_group_scale *scales, float offset, float *scale2);

// Encodes a piece whose scales are known. column: scales [cols], tensor: [1], else those of the piece.
// Table grids divide by raw_scale (bitsandbytes packs before it double-quantizes), others by scale.
void fm_quantize_encode(const fm_scheme *s, uint64_t rows, uint64_t cols, uint64_t stride, const float *x,
                        const fm_group_scale *scales, uint8_t *codes);

// Decodes a piece into out [rows, cols].
void fm_quantize_decode(const fm_scheme *s, uint64_t rows, uint64_t cols, const uint8_t *codes,
                        const fm_group_scale *scales, float *out);

// The whole matrix at once: codes [rows*cols], scales [groups]; *t is filled (scale2 from the caller when double).
// FM_ERR_VALUE when a value is not finite (its index in err->offset), FM_ERR_NO_MEMORY, FM_ERR_UNSUPPORTED.
fm_status fm_quantize_matrix(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x, const float *weights,
                             uint8_t *codes, fm_group_scale *scales, fm_tensor_scale *t, fm_err *err) FM_MUST_USE;

// Index of the first NaN or infinity, or n.
uint64_t fm_first_non_finite(uint64_t n, const float *x);

// The 2^bits values of a float or table grid, by code. FM_ERR_VALUE for integers. values [256].
fm_status fm_grid_values(fm_grid grid, float *values, fm_err *err) FM_MUST_USE;

// Packs n codes of `bits` bits (1 to 8) as one little-endian bit stream, the first code in the lowest bits; the rest of
// the last byte is zero. out: ceil(n*bits/8) bytes. `offset` is added to each code (modulo 2^bits): 2^(bits-1) turns
// two's complement into compressed-tensors' unsigned codes.
void fm_pack_bits(unsigned bits, uint64_t n, const uint8_t *codes, unsigned offset, uint8_t *out);
// The reverse; codes have their upper bits zero, then `offset` is added modulo 256.
void fm_unpack_bits(unsigned bits, uint64_t n, const uint8_t *packed, unsigned offset, uint8_t *codes);

// "scalar", "avx2", "avx512": the kernels in use. Static storage.
const char *fm_quantize_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
