// The scalar definition: one path for every floating format, written for clarity. Array kernels must equal it.
#include "number/encode.h"

#include <string.h>

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double f64_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static float f32_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

// |x| taken apart: significand * 2^(exponent - 52), the exponent that of the leading bit for normal numbers.
typedef struct {
    uint64_t significand;
    int exponent;
} parts;

static parts take_apart(uint64_t magnitude)
{
    int e = (int)(magnitude >> 52);
    uint64_t fraction = magnitude & ((UINT64_C(1) << 52) - 1);
    if (e)
        return (parts){fraction | UINT64_C(1) << 52, e - 1023};
    if (!fraction)
        return (parts){0, -1022};
    int up = __builtin_clzll(fraction) - 11; // subnormal doubles: normalise, so that `exponent` is the leading bit's
    return (parts){fraction << up, -1022 - up};
}

// significand / 2^shift to an integer (shift >= 0). r: the random word of stochastic rounding.
static uint64_t round_shifted(uint64_t significand, unsigned shift, fm_rounding rounding, uint32_t r)
{
    if (!shift)
        return significand;
    uint64_t kept = shift < 64 ? significand >> shift : 0;
    uint64_t rest = shift < 64 ? significand & ((UINT64_C(1) << shift) - 1) : significand;
    uint64_t half =
        shift <= 64 ? UINT64_C(1) << (shift - 1) : UINT64_MAX; // rest has 53 bits: never as much as UINT64_MAX
    uint64_t places;                                           // rest / 2^shift, floored to 32 binary places
    switch (rounding) {
    case FM_ROUND_NEAREST_AWAY:
        return kept + (rest >= half);
    case FM_ROUND_ZERO:
        return kept;
    case FM_ROUND_AWAY:
        return kept + (rest != 0);
    case FM_ROUND_STOCHASTIC:
        places = shift <= 32 ? rest << (32 - shift) : shift < 96 ? rest >> (shift - 32) : 0;
        return kept + ((places + r) >> 32);
    default:
        return kept + (rest > half || (rest == half && (kept & 1)));
    }
}

// tf32 codes live in the upper bits of an fp32 pattern; everything below works on the 19-bit code.
static unsigned spare_bits(const fm_number_format *f)
{
    return f->type == FM_TF32 ? 13 : 0;
}

static uint32_t encode_nan(const fm_number_format *f, bool negative, uint64_t magnitude)
{
    uint32_t sign = (uint32_t)negative << (f->bits - 1);
    switch (f->nan) {
    case FM_NAN_QUIET: {
        uint32_t quiet = UINT32_C(1) << (f->fraction_bits - 1);
        uint32_t payload = (uint32_t)((magnitude & ((UINT64_C(1) << 52) - 1)) >> (52 - f->fraction_bits));
        uint32_t exponent = ((UINT32_C(1) << f->exponent_bits) - 1) << f->fraction_bits;
        return (sign | exponent | quiet | payload) << spare_bits(f);
    }
    case FM_NAN_SIGNED:
        return f->nan_code | sign;
    case FM_NAN_NEG_ZERO:
        return negative ? 0 : UINT32_C(1) << (f->bits - 1);
    default:
        return f->nan_code;
    }
}

static uint32_t encode_e8m0(const fm_number_format *f, double x, fm_rounding rounding, bool saturate, uint32_t r,
                            fm_event *event)
{
    uint64_t magnitude = bits_of(x) & INT64_MAX;
    if (magnitude == UINT64_C(0x7ff) << 52) {
        *event = FM_EVENT_INFINITE;
        return saturate && x > 0 ? f->max_code : f->nan_code;
    }
    if (!(x > 0)) {
        *event = FM_EVENT_OVERFLOWED;
        return f->nan_code;
    }
    if (rounding == FM_ROUND_NEAREST_EVEN)
        rounding = FM_ROUND_NEAREST_AWAY; // half way between two powers has no even neighbour worth the name
    parts p = take_apart(magnitude);
    if (rounding == FM_ROUND_NEAREST_AWAY && p.exponent == -f->bias)
        rounding = FM_ROUND_AWAY; // the binade in which fp32 is subnormal: see the header
    int code = p.exponent + f->bias + (int)round_shifted(p.significand, 52, rounding, r) - 1;
    if (code < 0)
        return 0;
    if (code > (int)f->max_code) {
        bool clamps = saturate || rounding == FM_ROUND_ZERO || rounding == FM_ROUND_AWAY;
        *event = clamps ? FM_EVENT_SATURATED : FM_EVENT_OVERFLOWED;
        return clamps ? f->max_code : f->nan_code;
    }
    return (uint32_t)code;
}

static uint32_t encode_integer(const fm_number_format *f, double x, fm_rounding rounding, uint32_t r, fm_event *event)
{
    bool negative = bits_of(x) >> 63;
    uint32_t mask = (UINT32_C(1) << f->bits) - 1;
    uint32_t limit = negative ? (uint32_t)-f->lowest : (uint32_t)f->max_finite;
    parts p = take_apart(bits_of(x) & INT64_MAX);
    uint32_t magnitude = 0;
    if (p.exponent >= 31) {
        magnitude = limit;
        *event = p.exponent == 1024 ? FM_EVENT_INFINITE : FM_EVENT_SATURATED;
    } else {
        magnitude = (uint32_t)round_shifted(p.significand, (unsigned)(52 - p.exponent), rounding, r);
        if (magnitude > limit) {
            magnitude = limit;
            *event = FM_EVENT_SATURATED;
        } else if (!magnitude && p.significand) {
            *event = FM_EVENT_ZEROED;
        }
    }
    return (negative ? 0u - magnitude : magnitude) & mask;
}

// A finite value whose rounded code lies past the largest finite one.
static uint32_t overflow(const fm_number_format *f, uint32_t sign, bool finite, bool stays, fm_event *event)
{
    stays |= f->overflow == FM_OVERFLOW_SATURATE;
    if (finite)
        *event = stays ? FM_EVENT_SATURATED : FM_EVENT_OVERFLOWED;
    if (stays)
        return f->max_code | sign;
    if (f->overflow == FM_OVERFLOW_INFINITY)
        return f->inf_code | sign;
    return f->nan == FM_NAN_SINGLE ? f->nan_code : f->nan_code | sign;
}

uint32_t fm_number_encode_event(const fm_number_format *f, double x, fm_rounding rounding, bool saturate, uint32_t r,
                                fm_event *event)
{
    uint64_t u = bits_of(x), magnitude = u & INT64_MAX;
    bool negative = u >> 63;
    *event = FM_EVENT_NONE;
    if (x != x) {
        *event = FM_EVENT_NAN;
        return encode_nan(f, negative, magnitude);
    }
    if (f->type == FM_E8M0)
        return encode_e8m0(f, x, rounding, saturate, r, event);
    if (f->is_integer)
        return encode_integer(f, x, rounding, r, event);

    unsigned spare = spare_bits(f);
    uint32_t sign = (uint32_t)negative << (f->bits - 1) << spare;
    if (magnitude == UINT64_C(0x7ff) << 52) {
        *event = FM_EVENT_INFINITE;
        return overflow(f, sign, false, saturate, event);
    }
    parts p = take_apart(magnitude);
    int e_min = 1 - f->bias;
    int e = p.exponent > e_min ? p.exponent : e_min; // under e_min the grid no longer gets finer
    unsigned shift = 52u - f->fraction_bits + (unsigned)(e - p.exponent);
    // The leading bit, where there is one, adds the 1 that a normal number's exponent field starts from.
    uint64_t code = round_shifted(p.significand, shift, rounding, r) + ((uint64_t)(e - e_min) << f->fraction_bits);
    if (code > f->max_code >> spare)
        return overflow(f, sign, true, saturate || rounding == FM_ROUND_ZERO, event);
    if (!code && p.significand)
        *event = FM_EVENT_ZEROED;
    if (!code && !f->has_neg_zero)
        return 0;
    return (uint32_t)code << spare | sign;
}

uint32_t fm_number_encode_f64(fm_number type, double x, const fm_encoding *how)
{
    fm_event event;
    uint32_t r = how->rounding == FM_ROUND_STOCHASTIC ? fm_random_u32(how->seed, how->counter) : 0;
    return fm_number_encode_event(fm_number_info(type), x, how->rounding, how->saturate, r, &event);
}

uint32_t fm_number_encode(fm_number type, float x, const fm_encoding *how)
{
    if (type == FM_FP32) { // through a double a signalling NaN would be quieted
        uint32_t u;
        memcpy(&u, &x, sizeof u);
        if ((u & INT32_MAX) != 0x7f800000 || !how->saturate)
            return u;
    }
    return fm_number_encode_f64(type, (double)x, how);
}

float fm_number_decode(fm_number type, uint32_t code)
{
    const fm_number_format *f = fm_number_info(type);
    if (type == FM_FP32 || type == FM_TF32)
        return f32_of(type == FM_FP32 ? code : code & ~UINT32_C(0x1fff));
    if (type == FM_BF16)
        return f32_of(code << 16);
    code &= (UINT32_C(1) << f->bits) - 1;
    uint32_t sign_bit = f->sign_bits ? UINT32_C(1) << (f->bits - 1) : 0;
    if (f->is_integer)
        return (float)((int32_t)(code ^ sign_bit) - (int32_t)sign_bit);
    uint32_t magnitude = code & ~sign_bit, sign = code & sign_bit ? UINT32_C(1) << 31 : 0;
    uint32_t fraction = magnitude & ((UINT32_C(1) << f->fraction_bits) - 1);
    int exponent = (int)(magnitude >> f->fraction_bits);
    if (f->nan == FM_NAN_SINGLE ? code == f->nan_code
                                : f->has_nan && magnitude > f->max_code && magnitude != f->inf_code)
        return f32_of(sign | 0x7fc00000 | fraction << (23 - f->fraction_bits));
    if (f->has_infinity && magnitude == f->inf_code)
        return f32_of(sign | 0x7f800000);
    if (type == FM_E8M0)
        return (float)f64_of((uint64_t)(exponent - f->bias + 1023) << 52);
    // In fp64 every value of these formats is exact: an integer times a power of two.
    int power = (exponent ? exponent : 1) - f->bias - f->fraction_bits;
    double whole = exponent ? fraction | UINT32_C(1) << f->fraction_bits : fraction;
    double value = whole * f64_of((uint64_t)(power + 1023) << 52);
    return (float)(sign ? -value : value);
}
