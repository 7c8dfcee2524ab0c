#include <string.h>
#include <strings.h>

#include "floodmark/number.h"

// The one table of types. Every figure of a type with 16 bits or fewer is checked against the decoded codes by
// tests/number/number_test.c, so a wrong row does not survive.
// clang-format off
static const fm_number_format formats[FM_N_NUMBERS] = {
    [FM_FP64] = {.type = FM_FP64, .name = "fp64", .aliases = "f64 float64 double",
        .layout = "1 sign, 11 exponent, 52 fraction", .source = "IEEE 754 binary64",
        .bits = 64, .storage_bytes = 8, .sign_bits = 1, .exponent_bits = 11, .fraction_bits = 52, .bias = 1023,
        .has_infinity = true, .has_nan = true, .has_neg_zero = true, .overflow = FM_OVERFLOW_INFINITY, .nan = FM_NAN_QUIET,
        .max_finite = 0x1.fffffffffffffp1023, .lowest = -0x1.fffffffffffffp1023,
        .min_normal = 0x1p-1022, .min_subnormal = 0x1p-1074, .epsilon = 0x1p-52},
    [FM_FP32] = {.type = FM_FP32, .name = "fp32", .aliases = "f32 float32 float single",
        .layout = "1 sign, 8 exponent, 23 fraction", .source = "IEEE 754 binary32",
        .bits = 32, .storage_bytes = 4, .sign_bits = 1, .exponent_bits = 8, .fraction_bits = 23, .bias = 127,
        .has_infinity = true, .has_nan = true, .has_neg_zero = true, .overflow = FM_OVERFLOW_INFINITY, .nan = FM_NAN_QUIET,
        .max_code = 0x7f7fffff, .nan_code = 0x7fc00000, .inf_code = 0x7f800000,
        .max_finite = 0x1.fffffep127, .lowest = -0x1.fffffep127,
        .min_normal = 0x1p-126, .min_subnormal = 0x1p-149, .epsilon = 0x1p-23},
    [FM_TF32] = {.type = FM_TF32, .name = "tf32", .aliases = "tensorfloat32",
        .layout = "1 sign, 8 exponent, 10 fraction (kept in 32 bits)", .source = "NVIDIA PTX ISA, cvt.tf32",
        .bits = 19, .storage_bytes = 4, .sign_bits = 1, .exponent_bits = 8, .fraction_bits = 10, .bias = 127,
        .has_infinity = true, .has_nan = true, .has_neg_zero = true, .overflow = FM_OVERFLOW_INFINITY, .nan = FM_NAN_QUIET,
        .max_code = 0x7f7fe000, .nan_code = 0x7fc00000, .inf_code = 0x7f800000,
        .max_finite = 0x1.ffcp127, .lowest = -0x1.ffcp127,
        .min_normal = 0x1p-126, .min_subnormal = 0x1p-136, .epsilon = 0x1p-10},
    [FM_FP16] = {.type = FM_FP16, .name = "fp16", .aliases = "f16 float16 half",
        .layout = "1 sign, 5 exponent, 10 fraction", .source = "IEEE 754 binary16",
        .bits = 16, .storage_bytes = 2, .sign_bits = 1, .exponent_bits = 5, .fraction_bits = 10, .bias = 15,
        .has_infinity = true, .has_nan = true, .has_neg_zero = true, .overflow = FM_OVERFLOW_INFINITY, .nan = FM_NAN_QUIET,
        .max_code = 0x7bff, .nan_code = 0x7e00, .inf_code = 0x7c00,
        .max_finite = 65504, .lowest = -65504,
        .min_normal = 0x1p-14, .min_subnormal = 0x1p-24, .epsilon = 0x1p-10},
    [FM_BF16] = {.type = FM_BF16, .name = "bf16", .aliases = "bfloat16",
        .layout = "1 sign, 8 exponent, 7 fraction", .source = "upper half of binary32",
        .bits = 16, .storage_bytes = 2, .sign_bits = 1, .exponent_bits = 8, .fraction_bits = 7, .bias = 127,
        .has_infinity = true, .has_nan = true, .has_neg_zero = true, .overflow = FM_OVERFLOW_INFINITY, .nan = FM_NAN_QUIET,
        .max_code = 0x7f7f, .nan_code = 0x7fc0, .inf_code = 0x7f80,
        .max_finite = 0x1.fep127, .lowest = -0x1.fep127,
        .min_normal = 0x1p-126, .min_subnormal = 0x1p-133, .epsilon = 0x1p-7},
    [FM_FP8_E4M3] = {.type = FM_FP8_E4M3, .name = "fp8_e4m3", .aliases = "e4m3 e4m3fn f8_e4m3 fp8_e4m3fn float8_e4m3fn",
        .layout = "1 sign, 4 exponent, 3 fraction", .source = "OCP OFP8 1.0 E4M3",
        .bits = 8, .storage_bytes = 1, .sign_bits = 1, .exponent_bits = 4, .fraction_bits = 3, .bias = 7,
        .has_nan = true, .has_neg_zero = true, .overflow = FM_OVERFLOW_NAN, .nan = FM_NAN_SIGNED,
        .max_code = 0x7e, .nan_code = 0x7f,
        .max_finite = 448, .lowest = -448,
        .min_normal = 0x1p-6, .min_subnormal = 0x1p-9, .epsilon = 0x1p-3},
    [FM_FP8_E4M3FNUZ] = {.type = FM_FP8_E4M3FNUZ, .name = "fp8_e4m3fnuz", .aliases = "e4m3fnuz f8_e4m3fnuz float8_e4m3fnuz",
        .layout = "1 sign, 4 exponent, 3 fraction; no -0", .source = "LLVM APFloat Float8E4M3FNUZ",
        .bits = 8, .storage_bytes = 1, .sign_bits = 1, .exponent_bits = 4, .fraction_bits = 3, .bias = 8,
        .has_nan = true, .overflow = FM_OVERFLOW_NAN, .nan = FM_NAN_SINGLE,
        .max_code = 0x7f, .nan_code = 0x80,
        .max_finite = 240, .lowest = -240,
        .min_normal = 0x1p-7, .min_subnormal = 0x1p-10, .epsilon = 0x1p-3},
    [FM_FP8_E5M2] = {.type = FM_FP8_E5M2, .name = "fp8_e5m2", .aliases = "e5m2 f8_e5m2 float8_e5m2",
        .layout = "1 sign, 5 exponent, 2 fraction", .source = "OCP OFP8 1.0 E5M2",
        .bits = 8, .storage_bytes = 1, .sign_bits = 1, .exponent_bits = 5, .fraction_bits = 2, .bias = 15,
        .has_infinity = true, .has_nan = true, .has_neg_zero = true, .overflow = FM_OVERFLOW_INFINITY, .nan = FM_NAN_SIGNED,
        .max_code = 0x7b, .nan_code = 0x7e, .inf_code = 0x7c,
        .max_finite = 57344, .lowest = -57344,
        .min_normal = 0x1p-14, .min_subnormal = 0x1p-16, .epsilon = 0x1p-2},
    [FM_FP8_E5M2FNUZ] = {.type = FM_FP8_E5M2FNUZ, .name = "fp8_e5m2fnuz", .aliases = "e5m2fnuz f8_e5m2fnuz float8_e5m2fnuz",
        .layout = "1 sign, 5 exponent, 2 fraction; no -0", .source = "LLVM APFloat Float8E5M2FNUZ",
        .bits = 8, .storage_bytes = 1, .sign_bits = 1, .exponent_bits = 5, .fraction_bits = 2, .bias = 16,
        .has_nan = true, .overflow = FM_OVERFLOW_NAN, .nan = FM_NAN_SINGLE,
        .max_code = 0x7f, .nan_code = 0x80,
        .max_finite = 57344, .lowest = -57344,
        .min_normal = 0x1p-15, .min_subnormal = 0x1p-17, .epsilon = 0x1p-2},
    [FM_FP6_E2M3] = {.type = FM_FP6_E2M3, .name = "fp6_e2m3", .aliases = "e2m3 e2m3fn f6_e2m3 float6_e2m3fn",
        .layout = "1 sign, 2 exponent, 3 fraction", .source = "OCP Microscaling 1.0 FP6",
        .bits = 6, .storage_bytes = 1, .sign_bits = 1, .exponent_bits = 2, .fraction_bits = 3, .bias = 1,
        .has_neg_zero = true, .overflow = FM_OVERFLOW_SATURATE, .nan = FM_NAN_NEG_ZERO,
        .max_code = 0x1f,
        .max_finite = 7.5, .lowest = -7.5,
        .min_normal = 1, .min_subnormal = 0x1p-3, .epsilon = 0x1p-3},
    [FM_FP6_E3M2] = {.type = FM_FP6_E3M2, .name = "fp6_e3m2", .aliases = "e3m2 e3m2fn f6_e3m2 float6_e3m2fn",
        .layout = "1 sign, 3 exponent, 2 fraction", .source = "OCP Microscaling 1.0 FP6",
        .bits = 6, .storage_bytes = 1, .sign_bits = 1, .exponent_bits = 3, .fraction_bits = 2, .bias = 3,
        .has_neg_zero = true, .overflow = FM_OVERFLOW_SATURATE, .nan = FM_NAN_NEG_ZERO,
        .max_code = 0x1f,
        .max_finite = 28, .lowest = -28,
        .min_normal = 0x1p-2, .min_subnormal = 0x1p-4, .epsilon = 0x1p-2},
    [FM_FP4_E2M1] = {.type = FM_FP4_E2M1, .name = "fp4_e2m1", .aliases = "e2m1 e2m1fn f4 f4_e2m1 float4_e2m1fn",
        .layout = "1 sign, 2 exponent, 1 fraction", .source = "OCP Microscaling 1.0 FP4",
        .bits = 4, .storage_bytes = 1, .sign_bits = 1, .exponent_bits = 2, .fraction_bits = 1, .bias = 1,
        .has_neg_zero = true, .overflow = FM_OVERFLOW_SATURATE, .nan = FM_NAN_NEG_ZERO,
        .max_code = 0x7,
        .max_finite = 6, .lowest = -6,
        .min_normal = 1, .min_subnormal = 0x1p-1, .epsilon = 0x1p-1},
    [FM_E8M0] = {.type = FM_E8M0, .name = "e8m0", .aliases = "e8m0fnu f8_e8m0 float8_e8m0fnu",
        .layout = "8 exponent: a power of two, no sign, no zero", .source = "OCP Microscaling 1.0 E8M0",
        .bits = 8, .storage_bytes = 1, .exponent_bits = 8, .bias = 127,
        .has_nan = true, .overflow = FM_OVERFLOW_NAN, .nan = FM_NAN_SINGLE,
        .max_code = 0xfe, .nan_code = 0xff,
        .max_finite = 0x1p127, .lowest = 0x1p-127,
        .min_normal = 0x1p-127, .min_subnormal = 0x1p-127, .epsilon = 1},
    [FM_INT8] = {.type = FM_INT8, .name = "int8", .aliases = "i8",
        .layout = "two's complement", .source = "OCP Microscaling 1.0 INT8, without its 1/64",
        .bits = 8, .storage_bytes = 1, .sign_bits = 1, .fraction_bits = 7,
        .is_integer = true, .overflow = FM_OVERFLOW_SATURATE, .nan = FM_NAN_ZERO,
        .max_code = 0x7f,
        .max_finite = 127, .lowest = -128,
        .min_normal = 1, .min_subnormal = 1, .epsilon = 1},
    [FM_INT4] = {.type = FM_INT4, .name = "int4", .aliases = "i4",
        .layout = "two's complement; packed low or high nibble first", .source = "by convention",
        .bits = 4, .storage_bytes = 1, .sign_bits = 1, .fraction_bits = 3,
        .is_integer = true, .overflow = FM_OVERFLOW_SATURATE, .nan = FM_NAN_ZERO,
        .max_code = 0x7,
        .max_finite = 7, .lowest = -8,
        .min_normal = 1, .min_subnormal = 1, .epsilon = 1},
};
// clang-format on

const fm_number_format *fm_number_info(fm_number type)
{
    return &formats[(unsigned)type < FM_N_NUMBERS ? type : FM_FP32];
}

// Whether `name` is one of the words of `list` (separated by single spaces).
static bool is_word_of(const char *name, const char *list)
{
    size_t n = strlen(name);
    for (const char *word = list; *word;) {
        size_t length = strcspn(word, " ");
        if (length == n && !strncasecmp(word, name, n))
            return true;
        word += length + (word[length] == ' ');
    }
    return false;
}

fm_status fm_number_find(const char *name, fm_number *out, fm_err *err)
{
    for (unsigned i = 0; i < FM_N_NUMBERS; i++) {
        if (!strcasecmp(name, formats[i].name) || is_word_of(name, formats[i].aliases)) {
            *out = formats[i].type;
            return FM_OK;
        }
    }
#define NAME(value, text) " " text
    return fm_fail(err, FM_ERR_NOT_FOUND, "unknown number type \"%s\"; known:" FM_NUMBER_LIST(NAME), name);
#undef NAME
}

#define ROW(value, text, words) [value] = text,
static const char *const rounding_names[FM_N_ROUNDINGS] = {FM_ROUNDING_LIST(ROW)};
#undef ROW

const char *fm_rounding_name(fm_rounding r)
{
    return (unsigned)r < FM_N_ROUNDINGS ? rounding_names[r] : "?";
}

fm_status fm_rounding_find(const char *name, fm_rounding *out, fm_err *err)
{
    static const struct {
        const char *name;
        fm_rounding rounding;
    } other_names[] = {{"nearest", FM_ROUND_NEAREST_EVEN},
                       {"floor", FM_ROUND_ZERO},
                       {"ceil", FM_ROUND_AWAY},
                       {"stochastic", FM_ROUND_STOCHASTIC}};
    for (unsigned i = 0; i < FM_N_ROUNDINGS; i++) {
        if (!strcasecmp(name, rounding_names[i])) {
            *out = (fm_rounding)i;
            return FM_OK;
        }
    }
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        if (!strcasecmp(name, other_names[i].name)) {
            *out = other_names[i].rounding;
            return FM_OK;
        }
    }
    return fm_fail(err, FM_ERR_NOT_FOUND,
                   "unknown rounding \"%s\"; known: rne rna rz ra sr nearest floor ceil stochastic", name);
}
