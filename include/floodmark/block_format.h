// The block formats of GGUF: rows of fp32 cut into blocks of 1, 32, 64 or 256 values that share a scale.
//
// A block format is a row of one table: name, ggml's type number, values and bytes a block. Encoding takes whole rows
// (a row is a multiple of the block), decoding takes any number of whole blocks. Both are pure: the same bytes on every
// machine, compiler, instruction set and cut into calls, so a caller may give rows to as many threads as it likes.
//
// What the bytes are worth (checked against ggml's own bytes: tests/golden/quant_blocks):
//   exact    f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 mxfp4 nvfp4, without importance weights: the bytes of ggml's own encoder
//            (q4_0: of ggml compiled without fused multiply-add).
//   quality  q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs, and every format under importance weights: our own search for the
//            smallest (weighted) squared error. The bytes differ from ggml's, whose own depend on its compiler; any
//            reader of the format decodes them.
// Decoding is bit-exact with ggml for every format and defined for any bytes whatever: every pattern is a valid block.
//
// Source of the layouts: the GGUF specification and ggml's ggml-common.h; each layout is stated at its struct below.
#ifndef FLOODMARK_BLOCK_FORMAT_H
#define FLOODMARK_BLOCK_FORMAT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// name, ggml's type number, values a block, bytes a block, exact (see above)
#define FM_BLOCK_LIST(X)                   \
    X(F16, f16, 1, 1, 2, true)             \
    X(BF16, bf16, 30, 1, 2, true)          \
    X(Q8_0, q8_0, 8, 32, 34, true)         \
    X(Q4_0, q4_0, 2, 32, 18, true)         \
    X(Q4_1, q4_1, 3, 32, 20, true)         \
    X(Q5_0, q5_0, 6, 32, 22, true)         \
    X(Q5_1, q5_1, 7, 32, 24, true)         \
    X(Q2_K, q2_k, 10, 256, 84, false)      \
    X(Q3_K, q3_k, 11, 256, 110, false)     \
    X(Q4_K, q4_k, 12, 256, 144, false)     \
    X(Q5_K, q5_k, 13, 256, 176, false)     \
    X(Q6_K, q6_k, 14, 256, 210, false)     \
    X(IQ4_NL, iq4_nl, 20, 32, 18, false)   \
    X(IQ4_XS, iq4_xs, 23, 256, 136, false) \
    X(MXFP4, mxfp4, 39, 32, 17, true)      \
    X(NVFP4, nvfp4, 40, 64, 36, true)

#define FM_BLOCK_ENUM(NAME, name, ggml, elems, bytes, exact) FM_BLOCK_##NAME,
typedef enum { FM_BLOCK_LIST(FM_BLOCK_ENUM) FM_BLOCK_N } fm_block_type;
#undef FM_BLOCK_ENUM

typedef struct {
    const char *name;     // lower case, as the command line and the report say it: "q4_k"
    fm_block_type type;   // its index in the table
    uint32_t ggml_type;   // GGUF's tensor type number
    uint32_t block_elems; // values a block; a row must be a multiple
    uint32_t block_bytes; // bytes a block
    bool exact;           // encoding without weights gives ggml's bytes
} fm_block_format;

// The row of a type (NULL outside the enum), of a name ("q4_k"; also "fp16"; NULL when unknown), of a GGUF type number
// (NULL when not a block format of this table; F32 is not one). Static storage. Threads: any.
const fm_block_format *fm_block_format_of(fm_block_type type);
const fm_block_format *fm_block_format_by_name(const char *name);
const fm_block_format *fm_block_format_by_ggml_type(uint32_t ggml_type);

// 8 * bytes / values: 4.5 for q4_k.
double fm_block_bits_per_weight(const fm_block_format *f);

// Bytes that n_elems values take. n_elems must be a multiple of the block; FM_ERR_VALUE when it is not,
// FM_ERR_OVERFLOW when the result does not fit.
FM_MUST_USE fm_status fm_block_bytes(const fm_block_format *f, uint64_t n_elems, uint64_t *bytes, fm_err *err);

// What a caller must know about values that cannot be encoded. Starts zeroed (`fm_block_faults f = {0}`); every call
// of fm_block_encode adds its rows, in order, so `first_*` count values since the struct was zeroed. Always cheap.
typedef struct {
    uint64_t n_elems;          // values seen
    uint64_t n_non_finite;     // NaN and infinite inputs
    uint64_t first_non_finite; // index of the first one; meaningful when n_non_finite > 0
    uint64_t n_overflow;       // blocks with finite inputs whose scale does not fit its type (f16: values past 65504).
                               // Most decode to infinity or NaN; some (q6_k, q3_k, nvfp4) to plausible garbage.
    uint64_t first_overflow;   // index of the first value of the first such block; meaningful when n_overflow > 0
} fm_block_faults;

// What encoding cost. Starts zeroed, added to in order. All sums are fp64 in the order of the values, over tiles of
// rows: the same on every machine for the same calls. Costs three decodes a call; leave NULL when not needed.
// Values whose input or decoded value is not finite are left out of the sums and counted in n_unmeasured.
typedef struct {
    uint64_t n_elems;
    uint64_t n_unmeasured;
    double sum_sq;      // of the inputs
    double sum_sq_err;  // of decoded - input
    double max_abs_err; // greatest |decoded - input|
    double max_abs;     // greatest |input|
    uint64_t n_zeroed;  // inputs other than zero that decode to zero
    uint64_t n_clipped; // inputs past the block's smallest or greatest expressible value by more than half a step
} fm_block_error;

// Adds `more`, which was measured on the values that follow, to `sum`. For callers that cut a tensor among threads:
// merge in the tensor's order.
void fm_block_faults_merge(fm_block_faults *sum, const fm_block_faults *more);
void fm_block_error_merge(fm_block_error *sum, const fm_block_error *more);

// Encodes rows of fp32.
//   x        [n_rows, n_per_row], contiguous; borrowed
//   weights  [n_per_row] importance of each column (>= 0, finite), or NULL: then the plain squared error is minimised.
//            Used by all formats except f16, bf16, q8_0, mxfp4 and nvfp4, which have nothing to choose.
//   blocks   [n_rows, n_per_row / block_elems * block_bytes]; any alignment; may not overlap x
//   faults   added to; may be NULL.     error  added to; may be NULL
// Errors: FM_ERR_VALUE when n_per_row is not a multiple of the block. Values never fail, they are counted in faults:
//   exact    bytes are ggml's whatever the values (a cast that C leaves undefined does as x86 does).
//   quality  a scale past fp16 is held at 65504; NaN is encoded as 0, magnitudes past 2^30 as 2^30.
// Threads: any; rows are independent.
FM_MUST_USE fm_status fm_block_encode(const fm_block_format *f, uint64_t n_rows, uint64_t n_per_row, const float *x,
                                      const float *weights, void *blocks, fm_block_faults *faults,
                                      fm_block_error *error, fm_err *err);

// Decodes n_elems values (a multiple of the block, else FM_ERR_VALUE) from blocks at any alignment. Any bytes are
// accepted. fp32 arithmetic in the order that ggml's dequantize_row_* uses: bit-exact with it.
FM_MUST_USE fm_status fm_block_decode(const fm_block_format *f, uint64_t n_elems, const void *blocks, float *out,
                                      fm_err *err);

// "scalar", "avx2" or "avx512": the kernels in use for this format. Static storage.
const char *fm_block_kernel(const fm_block_format *f);

// ---- Layouts -------------------------------------------------------------------------------------------------------
// All are byte arrays, little endian inside, alignment 1. `d`, `m`, `dmin` are fp16. In the formulas q is the unsigned
// code, i the value's place in its block. Unless said otherwise nibble j of byte pairs holds value j (low) and j + half
// of the group (high).

// q8_0, 8.5 bits a weight: x = d * q, q signed.
typedef struct {
    uint8_t d[2];
    int8_t qs[32];
} fm_block_q8_0;

// q4_0, 4.5 bits a weight: x = d * (q - 8). Byte j: low nibble value j, high nibble value j + 16.
typedef struct {
    uint8_t d[2];
    uint8_t qs[16];
} fm_block_q4_0;

// q4_1, 5 bits a weight: x = d * q + m. Nibbles as in q4_0.
typedef struct {
    uint8_t d[2];
    uint8_t m[2];
    uint8_t qs[16];
} fm_block_q4_1;

// q5_0, 5.5 bits a weight: x = d * (q - 16). qs the low four bits as in q4_0; bit i of the 32-bit qh is bit 4 of value i.
typedef struct {
    uint8_t d[2];
    uint8_t qh[4];
    uint8_t qs[16];
} fm_block_q5_0;

// q5_1, 6 bits a weight: x = d * q + m. Codes as in q5_0.
typedef struct {
    uint8_t d[2];
    uint8_t m[2];
    uint8_t qh[4];
    uint8_t qs[16];
} fm_block_q5_1;

// q2_k, 2.625 bits a weight: 16 groups of 16; group g: x = (d * sc) * q - (dmin * mn), scales[g] = sc | mn << 4.
// Bits 2k..2k+1 of qs[32*h + l] are value 128*h + 32*k + l, l < 32.
typedef struct {
    uint8_t scales[16];
    uint8_t qs[64];
    uint8_t d[2];
    uint8_t dmin[2];
} fm_block_q2_k;

// q3_k, 3.4375 bits a weight: 16 groups of 16; x = (d * (sc - 32)) * (q - 4). qs the low two bits as in q2_k; bit
// 4*h + k of hmask[l] is bit 2 of value 128*h + 32*k + l. Scales of 6 bits: low four in scales[0..8) (nibble g / 8 of
// byte g % 8), high two of group g in bits 2*(g / 4).. of scales[8 + g % 4].
typedef struct {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint8_t d[2];
} fm_block_q3_k;

// q4_k, 4.5 bits a weight: 8 groups of 32; x = (d * sc) * q - (dmin * mn). qs[32*p + l]: low nibble value 64*p + l,
// high nibble value 64*p + 32 + l. Scales of 6 bits: sc of groups 0-3 in scales[0..4) bits 0-5, mn in scales[4..8) bits
// 0-5; groups 4-7: scales[8 + g - 4] = low nibble of sc | low nibble of mn << 4, their top two bits in bits 6-7 of
// scales[g - 4] (sc) and scales[g] (mn).
typedef struct {
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12];
    uint8_t qs[128];
} fm_block_q4_k;

// q5_k, 5.5 bits a weight: as q4_k, with bit g of qh[l] the fifth bit of value 32*g + l.
typedef struct {
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} fm_block_q5_k;

// q6_k, 6.5625 bits a weight: 16 groups of 16; x = (d * sc) * (q - 32), sc signed. For each half h, l < 32:
// ql[64*h + l] low nibble value 128*h + l, high + 64; ql[64*h + 32 + l] low nibble + 32, high + 96; bits 2k of
// qh[32*h + l] are the top two of value 128*h + 32*k + l.
typedef struct {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint8_t d[2];
} fm_block_q6_k;

// iq4_nl, 4.5 bits a weight: x = d * table[q], table -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113.
typedef struct {
    uint8_t d[2];
    uint8_t qs[16];
} fm_block_iq4_nl;

// iq4_xs, 4.25 bits a weight: 8 groups of 32, each packed as iq4_nl; x = (d * (sc - 32)) * table[q]. Scales of 6 bits:
// low four in nibble g % 2 of scales_l[g / 2], high two in bits 2g of the 16-bit scales_h.
typedef struct {
    uint8_t d[2];
    uint8_t scales_h[2];
    uint8_t scales_l[4];
    uint8_t qs[128];
} fm_block_iq4_xs;

// mxfp4, 4.25 bits a weight: x = 2^(e - 128) * (2 * e2m1[q]), e2m1 0 .5 1 1.5 2 3 4 6 and negatives. e is E8M0; ggml
// reads 255, NaN in the OCP format, as 2^127. Nibbles as in q4_0.
typedef struct {
    uint8_t e;
    uint8_t qs[16];
} fm_block_mxfp4;

// nvfp4, 4.5 bits a weight: 4 groups of 16; x = (d[g] / 2) * (2 * e2m1[q]), d an unsigned E4M3. qs[8*g + j]: low nibble
// value 16*g + j, high nibble 16*g + 8 + j. No tensor scale in the block (GGUF keeps one beside the tensor).
typedef struct {
    uint8_t d[4];
    uint8_t qs[32];
} fm_block_nvfp4;

_Static_assert(sizeof(fm_block_q8_0) == 34, "q8_0 block is 34 bytes");
_Static_assert(sizeof(fm_block_q4_0) == 18, "q4_0 block is 18 bytes");
_Static_assert(sizeof(fm_block_q4_1) == 20, "q4_1 block is 20 bytes");
_Static_assert(sizeof(fm_block_q5_0) == 22, "q5_0 block is 22 bytes");
_Static_assert(sizeof(fm_block_q5_1) == 24, "q5_1 block is 24 bytes");
_Static_assert(sizeof(fm_block_q2_k) == 84, "q2_k block is 84 bytes");
_Static_assert(sizeof(fm_block_q3_k) == 110, "q3_k block is 110 bytes");
_Static_assert(sizeof(fm_block_q4_k) == 144, "q4_k block is 144 bytes");
_Static_assert(sizeof(fm_block_q5_k) == 176, "q5_k block is 176 bytes");
_Static_assert(sizeof(fm_block_q6_k) == 210, "q6_k block is 210 bytes");
_Static_assert(sizeof(fm_block_iq4_nl) == 18, "iq4_nl block is 18 bytes");
_Static_assert(sizeof(fm_block_iq4_xs) == 136, "iq4_xs block is 136 bytes");
_Static_assert(sizeof(fm_block_mxfp4) == 17, "mxfp4 block is 17 bytes");
_Static_assert(sizeof(fm_block_nvfp4) == 36, "nvfp4 block is 36 bytes");

#ifdef __cplusplus
}
#endif
#endif
