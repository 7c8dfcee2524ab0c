// Conversions of arrays at memory speed. Results are bit-equal to number.h's single-value functions on every
// instruction set (scalar, AVX2, AVX-512: one kernel table, chosen at the first call, FLOODMARK_CPU overrides).
//
// Arrays hold one code per element in the storage type of its format: fp64 double, fp32 float, tf32 uint32_t patterns,
// fp16/bf16 uint16_t, everything else uint8_t (4- and 6-bit codes in the low bits, the rest zero; int8/int4 in two's
// complement). in and out may not overlap, need no alignment beyond their element's, and n may be 0.
// Large outputs are written past the cache. Thread-safety: all functions may be called from any thread.
// The floating-point environment must be the default one (round to nearest); flush-to-zero modes do not matter.
#ifndef FLOODMARK_CONVERT_H
#define FLOODMARK_CONVERT_H
#include "floodmark/number.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a conversion did to its inputs. Every element is counted at most once. Counts add up over calls.
typedef struct {
    uint64_t nan;        // NaN inputs
    uint64_t infinite;   // infinite inputs
    uint64_t overflowed; // finite inputs that became infinity or NaN (e8m0: negative and zero inputs, too)
    uint64_t saturated;  // finite inputs past the largest finite value's rounding range that became that value
    uint64_t zeroed;     // nonzero finite inputs that became zero
} fm_convert_counts;

// Encodes x[0..n) into out. counts may be NULL; else the five figures are added to it (costs little: tiles that hold
// nothing to count are recognised by their extremes). how may be NULL for {0}.
// type FM_FP32 copies; FM_FP64 widens.
// At memory speed: nearest even to every type but e8m0, and all roundings of tf32. Stochastic to the floating types of 16
// bits and fewer: half a nanosecond an element and more. The rest goes through the definition, tens of nanoseconds.
void fm_encode_f32(fm_number type, const fm_encoding *how, size_t n, const float *x, void *out,
                   fm_convert_counts *counts);

// Decodes n codes into x. FM_FP64 rounds to nearest even.
void fm_decode_f32(fm_number type, size_t n, const void *codes, float *x);

// Any type to any type through tiles in cache; rounds once (fp64 goes to odd-rounded fp32 first, which leaves the
// second rounding exact: Boldo & Melquiond, IEEE TC 57(4), 2008). Same type: a copy.
void fm_convert(fm_number from, fm_number to, const fm_encoding *how, size_t n, const void *in, void *out,
                fm_convert_counts *counts);

// The two most used, typed, with the house rule: nearest even, overflow to infinity, no counting.
void fm_f16_from_f32(size_t n, const float *x, uint16_t *out);
void fm_bf16_from_f32(size_t n, const float *x, uint16_t *out);
void fm_f32_from_f16(size_t n, const uint16_t *codes, float *x);
void fm_f32_from_bf16(size_t n, const uint16_t *codes, float *x);

// Order of two 4-bit codes in a byte. ggml, compressed-tensors and MXFP4 files put the first value low; bitsandbytes
// puts it high.
typedef enum { FM_NIBBLE_LOW_FIRST, FM_NIBBLE_HIGH_FIRST } fm_nibble_order;

// Packs n 4-bit codes (one a byte, upper bits ignored) into fm_packed_bytes(4, n) bytes and back. The free half of an
// odd array's last byte is zero. unpack gives the raw nibble 0..15; unpack_i4 sign-extends it to int8_t -8..7.
void fm_nibbles_pack(fm_nibble_order order, size_t n, const uint8_t *codes, uint8_t *out);
void fm_nibbles_unpack(fm_nibble_order order, size_t n, const uint8_t *packed, uint8_t *codes);
void fm_nibbles_unpack_i4(fm_nibble_order order, size_t n, const uint8_t *packed, int8_t *values);

// Packs 6-bit codes, four in three bytes, the first in the lowest bits (a little-endian bit stream; safetensors' F6
// types). The free bits at the end are zero.
void fm_sixes_pack(size_t n, const uint8_t *codes, uint8_t *out);
void fm_sixes_unpack(size_t n, const uint8_t *packed, uint8_t *codes);

// Bytes that n codes of `bits` bits (4, 6, 8, 16, 32, 64) take when packed. FM_ERR_OVERFLOW is impossible for n that
// exist in memory; the result saturates at UINT64_MAX otherwise.
uint64_t fm_packed_bytes(unsigned bits, uint64_t n);

// Fills out[0..n) with fm_random_u32(seed, first + i).
void fm_random_fill_u32(uint64_t seed, uint64_t first, size_t n, uint32_t *out);

// The largest magnitude's bit pattern in *max_bits (0x7f800000 and up: infinity or NaN present) and the smallest
// nonzero magnitude's in *min_bits (UINT32_MAX: none). One pass at read bandwidth.
void fm_extent_f32(size_t n, const float *x, uint32_t *max_bits, uint32_t *min_bits);

// The name of the kernel row in use: "scalar", "avx2", "avx512". Static storage.
const char *fm_number_kernel(void);

#ifdef __cplusplus
}
#endif
#endif
