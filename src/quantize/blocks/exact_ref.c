// The exact formats as their definition: one block at a time, one value at a time, in the order ggml's reference
// encoder takes them, because ties, signed zeros, NaN and overflow all depend on it. Every faster kernel is tested
// against these, and hands them the blocks it does not want to think about.
#include "quantize/blocks/exact_ref.h"
#include "quantize/blocks/half.h"

// What x86's cvttss2si gives, which is what ggml's casts turn into there: outside the range, and for NaN, INT32_MIN.
static int to_int(float x)
{
    return x > -0x1p31f && x < 0x1p31f ? (int)x : INT32_MIN;
}

// Half away from zero, as C's roundf.
static int round_away(float x)
{
    float a = float_of(bits_of(x) & 0x7fffffff);
    if (!(a < 0x1p23f))
        return to_int(x);
    int whole = (int)a;
    whole += a - (float)whole >= 0.5f;
    return x < 0 ? -whole : whole;
}

static float magnitude(float x)
{
    return float_of(bits_of(x) & 0x7fffffff);
}

// The first value whose magnitude no other exceeds; NaN is passed over.
static float extreme(int n, const float *x)
{
    float best = 0, value = 0;
    for (int j = 0; j < n; j++)
        if (best < magnitude(x[j])) {
            best = magnitude(x[j]);
            value = x[j];
        }
    return value;
}

static void range(int n, const float *x, float *min, float *max)
{
    *min = float_of(0x7f7fffff);
    *max = -*min;
    for (int j = 0; j < n; j++) {
        if (x[j] < *min)
            *min = x[j];
        if (x[j] > *max)
            *max = x[j];
    }
}

void fm_block_ref_q8_0(const float *x, uint8_t *bytes)
{
    fm_block_q8_0 *b = (fm_block_q8_0 *)bytes;
    float most = 0;
    for (int j = 0; j < 32; j++) // a NaN replaces the maximum, the value after it replaces the NaN
        most = most > magnitude(x[j]) ? most : magnitude(x[j]);
    float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    write_u16(b->d, half_from_float(d));
    for (int j = 0; j < 32; j++)
        b->qs[j] = (int8_t)(uint8_t)round_away(x[j] * inverse);
}

static uint8_t code_of(float y, int limit)
{
    int8_t q = (int8_t)(uint8_t)to_int(y);
    return (uint8_t)(q < limit ? q : limit);
}

void fm_block_ref_q4_0(const float *x, uint8_t *bytes)
{
    fm_block_q4_0 *b = (fm_block_q4_0 *)bytes;
    float d = extreme(32, x) / -8, inverse = d != 0 ? 1 / d : 0;
    write_u16(b->d, half_from_float(d));
    for (int j = 0; j < 16; j++)
        b->qs[j] =
            (uint8_t)(code_of(x[j] * inverse + 8.5f, 15) | (unsigned)code_of(x[j + 16] * inverse + 8.5f, 15) << 4);
}

void fm_block_ref_q4_1(const float *x, uint8_t *bytes)
{
    fm_block_q4_1 *b = (fm_block_q4_1 *)bytes;
    float min, max;
    range(32, x, &min, &max);
    float d = (max - min) / 15, inverse = d != 0 ? 1 / d : 0;
    write_u16(b->d, half_from_float(d));
    write_u16(b->m, half_from_float(min));
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(code_of((x[j] - min) * inverse + 0.5f, 15) |
                             (unsigned)code_of((x[j + 16] - min) * inverse + 0.5f, 15) << 4);
}

void fm_block_ref_q5_0(const float *x, uint8_t *bytes)
{
    fm_block_q5_0 *b = (fm_block_q5_0 *)bytes;
    float d = extreme(32, x) / -16, inverse = d != 0 ? 1 / d : 0;
    uint32_t high = 0;
    write_u16(b->d, half_from_float(d));
    for (int j = 0; j < 16; j++) {
        unsigned q0 = code_of(x[j] * inverse + 16.5f, 31), q1 = code_of(x[j + 16] * inverse + 16.5f, 31);
        b->qs[j] = (uint8_t)((q0 & 15) | (q1 & 15) << 4);
        high |= (q0 >> 4 & 1) << j | (q1 >> 4 & 1) << (j + 16);
    }
    write_u32(b->qh, high);
}

void fm_block_ref_q5_1(const float *x, uint8_t *bytes)
{
    fm_block_q5_1 *b = (fm_block_q5_1 *)bytes;
    float min, max;
    range(32, x, &min, &max);
    float d = (max - min) / 31, inverse = d != 0 ? 1 / d : 0;
    uint32_t high = 0;
    write_u16(b->d, half_from_float(d));
    write_u16(b->m, half_from_float(min));
    for (int j = 0; j < 16; j++) {
        unsigned q0 = (uint8_t)to_int((x[j] - min) * inverse + 0.5f);
        unsigned q1 = (uint8_t)to_int((x[j + 16] - min) * inverse + 0.5f);
        b->qs[j] = (uint8_t)((q0 & 15) | (q1 & 15) << 4);
        high |= (q0 >> 4 & 1) << j | (q1 >> 4 & 1) << (j + 16);
    }
    write_u32(b->qh, high);
}

// floor(log2f(x)) of a positive finite x, with log2f rounded to nearest: just below a power of two the logarithm
// rounds up to the whole number, and ggml's exponent with it. With x = 2^k (1 - n 2^-24), the logarithm is
// k - n 2^-24 / ln 2, which rounds to k when that distance is under half the spacing of floats on that side of k.
static int floor_log2_rounded(float x)
{
    int shift = 0;
    if (x < 0x1p-126f) {
        x *= 0x1p24f;
        shift = 24;
    }
    uint32_t u = bits_of(x);
    int k = (int)(u >> 23) - 127 + 1 - shift; // the power of two above
    uint32_t n = 0x800000 - (u & 0x7fffff);
    int distance = k < 0 ? -k : k, p = 0;
    while (distance >> (p + 1))
        p++;
    if (k > 0 && distance == 1 << p)
        p--; // below a power of two floats are twice as dense
    if (k != 0 && p >= 0 && n < 1024 && n * 1442695u < 1000000u << p)
        return k;
    return k - 1;
}

// ggml's own search, where its rounded distances decide: past the grid they may all be equal, and the first is taken.
static unsigned e2m1_by_distance(float x, float d)
{
    unsigned best = 0;
    float least = magnitude(0 * d - x);
    for (unsigned i = 1; i < 16; i++) {
        float distance = magnitude((float)e2m1_doubled[i] * d - x);
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

// The nearest of the doubled E2M1 magnitudes, ties to the smaller, as the first of equals in ggml's search. Inside the
// grid the distances that decide are exact, so comparing with the midpoints is the same.
static unsigned e2m1_nearest(float x, float d)
{
    float a = magnitude(x);
    if (!(a <= 12 * d) || 12 * d > float_of(0x7f7fffff)) // or the grid itself overflows
        return e2m1_by_distance(x, d);
    unsigned q =
        (a > 0.5f * d) + (a > 1.5f * d) + (a > 2.5f * d) + (a > 3.5f * d) + (a > 5 * d) + (a > 7 * d) + (a > 10 * d);
    return q && x < 0 ? q | 8 : q;
}

void fm_block_ref_mxfp4(const float *x, uint8_t *bytes)
{
    fm_block_mxfp4 *b = (fm_block_mxfp4 *)bytes;
    float most = magnitude(extreme(32, x));
    // ggml casts the float exponent to a byte: negative ones wrap on x86, and infinity becomes 0.
    int e = most > 0 && most < float_of(0x7f800000) ? floor_log2_rounded(most) - 2 + 127 : 0;
    b->e = (uint8_t)e;
    float d = e8m0_half(b->e);
    for (int j = 0; j < 16; j++)
        b->qs[j] = (uint8_t)(e2m1_nearest(x[j], d) | e2m1_nearest(x[j + 16], d) << 4);
}

// Half up in the last place that E4M3 keeps, saturating; not the nearest-even of src/number, because ggml's is not.
static uint8_t ue4m3_from_float(float x)
{
    if (!(x > 0))
        return 0;
    if (x > 448)
        x = 448;
    uint32_t u = bits_of(x);
    int exponent = (int)(u >> 23) - 127 + 7;
    if (exponent <= 0) {
        int fraction = (int)(x * 512 + 0.5f);
        return (uint8_t)(fraction > 7 ? 7 : fraction);
    }
    if (exponent >= 15)
        return 0x7e;
    uint32_t code = (uint32_t)exponent << 3 | (u >> 20 & 7);
    code += u >> 19 & 1;
    return (uint8_t)(code >= 0x78 ? 0x7e : code);
}

void fm_block_ref_nvfp4(const float *x, uint8_t *bytes)
{
    fm_block_nvfp4 *b = (fm_block_nvfp4 *)bytes;
    for (int g = 0; g < 4; g++) {
        const float *xg = x + 16 * g;
        b->d[g] = ue4m3_from_float(magnitude(extreme(16, xg)) / 6);
        float d = ue4m3_half(b->d[g]);
        for (int j = 0; j < 8; j++)
            b->qs[8 * g + j] = (uint8_t)(e2m1_nearest(xg[j], d) | e2m1_nearest(xg[j + 8], d) << 4);
    }
}

// NaN keeps its sign and upper payload, quietened; all else to nearest even.
uint16_t fm_block_ref_bf16(float x)
{
    uint32_t u = bits_of(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 64);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static void encode_f16(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (size_t i = 0; i < n; i++)
        write_u16(out + 2 * i, half_from_float(x[i]));
}

static void encode_bf16(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    (void)w;
    for (size_t i = 0; i < n; i++)
        write_u16(out + 2 * i, fm_block_ref_bf16(x[i]));
}

#define FM_EXACT_LOOP(name, elems, bytes)                                                                        \
    static void encode_##name(size_t n, const float *restrict x, const float *restrict w, uint8_t *restrict out) \
    {                                                                                                            \
        (void)w;                                                                                                 \
        for (size_t i = 0; i < n; i++)                                                                           \
            fm_block_ref_##name(x + (elems)*i, out + (bytes)*i);                                                 \
    }
FM_EXACT_LOOP(q8_0, 32, 34)
FM_EXACT_LOOP(q4_0, 32, 18)
FM_EXACT_LOOP(q4_1, 32, 20)
FM_EXACT_LOOP(q5_0, 32, 22)
FM_EXACT_LOOP(q5_1, 32, 24)
FM_EXACT_LOOP(mxfp4, 32, 17)
FM_EXACT_LOOP(nvfp4, 64, 36)

fm_block_encoder *const fm_block_exact_scalar[FM_BLOCK_N] = {
    [FM_BLOCK_F16] = encode_f16,   [FM_BLOCK_BF16] = encode_bf16,   [FM_BLOCK_Q8_0] = encode_q8_0,
    [FM_BLOCK_Q4_0] = encode_q4_0, [FM_BLOCK_Q4_1] = encode_q4_1,   [FM_BLOCK_Q5_0] = encode_q5_0,
    [FM_BLOCK_Q5_1] = encode_q5_1, [FM_BLOCK_MXFP4] = encode_mxfp4, [FM_BLOCK_NVFP4] = encode_nvfp4,
};
