// The rows of the kernel table: one set of loops an instruction set. Private to this room; callers use convert.h.
#ifndef FM_NUMBER_KERNELS_H
#define FM_NUMBER_KERNELS_H
#include "base/cpu.h"
#include "floodmark/convert.h"

// A floating format of 8 bits or fewer, made ready for the loops. Magnitudes are fp32 bit patterns.
typedef struct {
    uint32_t fraction_bits;
    uint32_t min_exponent; // biased fp32 exponent of the smallest normal value
    uint32_t clamp;        // magnitudes above are cut to this one: the largest finite value when saturating, else the
                           // next grid point, whose code is the overflow code
    uint32_t nan_code;     // xored with the sign
    uint32_t sign_code;    // sign bit of the code
    uint32_t sign_shift;   // 31 - its position
    uint32_t no_neg_zero;  // all ones for "fnuz": zero and NaN carry no sign
    // decoding
    uint32_t special;     // smallest magnitude code that is infinity or NaN; 0x100: none
    uint32_t nan_above;   // magnitude codes above are NaN; 0x100: none
    uint32_t lone_nan;    // the "fnuz" NaN code; 0x100: none
    float subnormal_step; // value of magnitude code 1
} fm_small;

void fm_small_init(fm_small *s, const fm_number_format *f, bool saturate);

// A format of 16 bits or fewer for stochastic rounding.
typedef struct {
    uint32_t fraction_bits, min_exponent;
    uint32_t overflow_code;                 // codes at or above become this one
    uint32_t nan_code, quiet_payload_shift; // nan_code | sign; with the payload's top bits (32: none)
    uint32_t sign_code, sign_shift, no_neg_zero;
} fm_dither;

// Histogram of what a deterministic conversion does, from magnitudes alone.
typedef struct {
    uint64_t nan, infinite_or_nan, at_least_over, at_most_zero, zero;
} fm_tally;

// `past_cache`: the output is large and will not be read soon; write it with non-temporal stores. The caller ends with
// finish_stores, which orders them before what follows.
typedef struct {
    const char *name;
    void (*finish_stores)(void);
    void (*f16_from_f32)(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache);
    void (*bf16_from_f32)(size_t n, const float *x, uint16_t *out, bool saturate, bool past_cache);
    void (*small_from_f32)(const fm_small *s, size_t n, const float *x, uint8_t *out, bool past_cache);
    void (*tf32_from_f32)(size_t n, const float *x, uint32_t *out, fm_rounding rounding, bool saturate);
    // Two's complement in the bits of `mask`, clamped, nearest even.
    void (*int_from_f32)(size_t n, const float *x, uint8_t *out, float lowest, float largest, uint32_t mask);
    void (*f32_from_f16)(size_t n, const uint16_t *codes, float *x, bool past_cache);
    void (*f32_from_bf16)(size_t n, const uint16_t *codes, float *x, bool past_cache);
    void (*f32_from_small)(const fm_small *s, size_t n, const uint8_t *codes, float *x, bool past_cache);
    // One random word an element.
    void (*dither16)(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint16_t *out);
    void (*dither8)(const fm_dither *d, size_t n, const float *x, const uint32_t *random, uint8_t *out);
    // n words from word 4 * block on; n a multiple of 4.
    void (*random_blocks)(uint64_t seed, uint64_t block, size_t n, uint32_t *out);
    // Folds into *max_bits and *min_less_1 (smallest of magnitude - 1, zero wrapping to UINT32_MAX).
    void (*extent)(size_t n, const float *x, uint32_t *max_bits, uint32_t *min_less_1);
    // n < 2^32.
    void (*tally)(size_t n, const float *x, uint32_t over, uint32_t zero, fm_tally *t);
    // How many magnitudes are nonzero and at most `zero`; n < 2^32.
    uint32_t (*count_tiny)(size_t n, const float *x, uint32_t zero);
    void (*f32_from_f64)(size_t n, const double *x, float *out);     // nearest even
    void (*f32_from_f64_odd)(size_t n, const double *x, float *out); // to odd, for a second rounding
} fm_number_kernels;

extern const fm_number_kernels fm_number_kernels_scalar;
#if defined(__x86_64__)
extern const fm_number_kernels fm_number_kernels_avx2, fm_number_kernels_avx512;
#endif

// The row in use, and a named one for tests (NULL when this machine cannot run it).
const fm_number_kernels *fm_number_kernels_chosen(void);
const fm_number_kernels *fm_number_kernels_at(fm_cpu_level level);
#endif
