// Number formats: one table that says what each type is, and the exact conversion of single values.
//
// A *code* is the integer that a format stores: its low `bits` bits, in a uint32_t (fp64 alone does not fit and is
// handled as a C double). tf32 codes are fp32 patterns whose low 13 bits are zero, the form in which GPUs keep them.
// Codes of 8 bits or fewer take one byte each in an array; convert.h packs two nibbles or four 6-bit codes together.
//
// Sources: IEEE 754-2019 (binary16/32/64, rounding attributes 4.3.1 and 4.3.2); bfloat16 as the upper half of
// binary32; OCP 8-bit Floating Point Specification 1.0 (E4M3, E5M2); OCP Microscaling Formats 1.0 (E2M3, E3M2, E2M1,
// E8M0, INT8); the "fnuz" variants as LLVM's APFloat describes them (no infinity, no negative zero, NaN 0x80, bias one
// higher); tf32 as in NVIDIA's PTX manual (cvt.rna/rz/rn.tf32.f32).
// Thread-safety: every function here is pure.
#ifndef FLOODMARK_NUMBER_H
#define FLOODMARK_NUMBER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "floodmark/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// enum value, name. The rest of the row is in the table that fm_number_info gives.
#define FM_NUMBER_LIST(X)              \
    X(FM_FP64, "fp64")                 \
    X(FM_FP32, "fp32")                 \
    X(FM_TF32, "tf32")                 \
    X(FM_FP16, "fp16")                 \
    X(FM_BF16, "bf16")                 \
    X(FM_FP8_E4M3, "fp8_e4m3")         \
    X(FM_FP8_E4M3FNUZ, "fp8_e4m3fnuz") \
    X(FM_FP8_E5M2, "fp8_e5m2")         \
    X(FM_FP8_E5M2FNUZ, "fp8_e5m2fnuz") \
    X(FM_FP6_E2M3, "fp6_e2m3")         \
    X(FM_FP6_E3M2, "fp6_e3m2")         \
    X(FM_FP4_E2M1, "fp4_e2m1")         \
    X(FM_E8M0, "e8m0")                 \
    X(FM_INT8, "int8")                 \
    X(FM_INT4, "int4")

#define FM_NUMBER_ENUM(value, name) value,
typedef enum { FM_NUMBER_LIST(FM_NUMBER_ENUM) FM_N_NUMBERS } fm_number;
#undef FM_NUMBER_ENUM

// What becomes of a value that rounds past the largest finite one when saturation is not asked for, and of infinity.
typedef enum {
    FM_OVERFLOW_INFINITY,
    FM_OVERFLOW_NAN,      // the format has NaN but no infinity
    FM_OVERFLOW_SATURATE, // the format has neither
} fm_overflow;

// What becomes of NaN.
typedef enum {
    FM_NAN_QUIET,    // quiet NaN, sign and the payload bits that fit are kept
    FM_NAN_SIGNED,   // the format's NaN, sign kept
    FM_NAN_SINGLE,   // the format's only NaN
    FM_NAN_NEG_ZERO, // the format has none: minus zero; NaN with its sign set: plus zero (as ml_dtypes does)
    FM_NAN_ZERO,     // integers: zero
} fm_nan_rule;

typedef struct {
    fm_number type;
    const char *name;                                // lower case, unique
    const char *aliases;                             // other names, separated by one space; "" for none
    const char *layout;                              // in words: "1 sign, 5 exponent, 10 fraction"
    const char *source;                              // the specification
    uint8_t bits;                                    // of a code: 64, 32, 19, 16, 8, 6 or 4
    uint8_t storage_bytes;                           // of one code in an array that is not packed: 8, 4, 2 or 1
    uint8_t sign_bits, exponent_bits, fraction_bits; // integers: 1, 0, bits - 1
    int16_t bias;                                    // of the exponent; integers: 0
    bool is_integer, has_infinity, has_nan, has_neg_zero;
    fm_overflow overflow;
    fm_nan_rule nan;
    uint32_t max_code;    // of the largest finite value; fp64: 0 (it does not fit)
    uint32_t nan_code;    // the NaN written for a NaN without payload; formats without NaN: 0
    uint32_t inf_code;    // of +infinity; formats without it: 0
    double max_finite;    // largest finite value
    double lowest;        // most negative finite value; 0x1p-127 for e8m0, which has no sign
    double min_normal;    // smallest positive normal value; integers: 1
    double min_subnormal; // smallest positive value; equal to min_normal when there are no subnormals
    double epsilon;       // distance from 1 to the next larger value
} fm_number_format;

// The row of a type. Static storage; never NULL for a value of the enumeration.
const fm_number_format *fm_number_info(fm_number type);

// Finds a type by name or alias, case ignored. FM_ERR_NOT_FOUND with a message that lists the names.
fm_status fm_number_find(const char *name, fm_number *out, fm_err *err) FM_MUST_USE;

// How a value is rounded onto the grid. All work on the magnitude, so they are symmetric in the sign.
#define FM_ROUNDING_LIST(X)                                              \
    X(FM_ROUND_NEAREST_EVEN, "rne", "to nearest, ties to the even code") \
    X(FM_ROUND_NEAREST_AWAY, "rna", "to nearest, ties away from zero")   \
    X(FM_ROUND_ZERO, "rz", "towards zero")                               \
    X(FM_ROUND_AWAY, "ra", "away from zero")                             \
    X(FM_ROUND_STOCHASTIC, "sr", "up or down by chance, right on average")

#define FM_ROUNDING_ENUM(value, name, words) value,
typedef enum { FM_ROUNDING_LIST(FM_ROUNDING_ENUM) FM_N_ROUNDINGS } fm_rounding;
#undef FM_ROUNDING_ENUM

// E8M0 holds powers of two, so that its roundings have names of their own: nearest (1.5 x 2^k goes up: both
// FM_ROUND_NEAREST_*), floor (FM_ROUND_ZERO), ceil (FM_ROUND_AWAY). Zero, negative values and NaN become 0xff. Nearest
// overflows to 0xff (saturating: 0xfe), floor and ceil stay within 0..0xfe for finite values; infinity is 0xff unless
// saturating. Values under 2^-127 become code 0. Between 2^-127 and 2^-126, where fp32 is subnormal, nearest gives 2^-126,
// as ml_dtypes and PyTorch do.
#define FM_E8M0_NEAREST FM_ROUND_NEAREST_EVEN
#define FM_E8M0_FLOOR FM_ROUND_ZERO
#define FM_E8M0_CEIL FM_ROUND_AWAY

const char *fm_rounding_name(fm_rounding r); // "rne"; static storage
// By name ("rne", "rna", "rz", "ra", "sr"; also "nearest", "floor", "ceil", "stochastic"). FM_ERR_NOT_FOUND.
fm_status fm_rounding_find(const char *name, fm_rounding *out, fm_err *err) FM_MUST_USE;

// How to encode. {0} is the house rule: nearest even, overflow as the format says.
typedef struct {
    fm_rounding rounding;
    bool saturate;    // finite values past the largest, and infinities, become the largest finite value
    uint64_t seed;    // stochastic only: word fm_random_u32(seed, counter + i) decides element i
    uint64_t counter; // stochastic only: index of the first element
} fm_encoding;

// Encodes one value. This is the definition that every array kernel reproduces bit for bit.
// Rounds once: fp64 input does not pass through fp32 (fm_number_encode_f64). type must not be FM_FP64.
// Integers round with the named rounding, clamp to [lowest, max_finite] (saturating or not), and come back as the low
// `bits` bits of the two's complement.
// Stochastic: with f in [0,1) the position between the two neighbours on the grid, floored to 32 binary places, the
// magnitude goes up when f + r/2^32 >= 1, r the random word. A value on the grid never moves. Past the largest finite
// value a second grid step is assumed (for the overflow rule), as in nearest rounding.
uint32_t fm_number_encode(fm_number type, float x, const fm_encoding *how);
uint32_t fm_number_encode_f64(fm_number type, double x, const fm_encoding *how);

// The exact value of a code (bits above the format's are ignored). NaN codes give a quiet NaN with the code's sign and,
// left-aligned, its payload; bf16, tf32 and fp32 codes are fp32 patterns and come back as they are. Not for FM_FP64.
float fm_number_decode(fm_number type, uint32_t code);

// Counter-based random word: Philox4x32-10 (Salmon et al., SC11), key = seed (low word first), counter block =
// {index/4 low, index/4 high, 0, 0}, word index%4 of the result. Independent of call order and thread.
uint32_t fm_random_u32(uint64_t seed, uint64_t index);

#ifdef __cplusplus
}
#endif
#endif
