// The pieces of the scalar definitions against slower, plainer statements of themselves.
#include <math.h>
#include "testing.h"
#include "quantize/blocks/exact_ref.h"
#include "quantize/blocks/half.h"
#include "inputs.h"

// binary16 by its definition: sign, exponent, fraction.
static double half_value(unsigned h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
                              : ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
    return h & 0x8000 ? -v : v;
}

static void halves_decode_and_return(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        double v = half_value(h);
        float f = half_to_float((uint16_t)h);
        if (isnan(v)) {
            assert_true(isnan(f));
            assert_int_equal(half_from_float(f), (h & 0x8000) | 0x7e00);
        } else {
            assert_true((double)f == v && !!signbit(f) == (int)(h >> 15));
            assert_int_equal(half_from_float(f), h);
        }
    }
}

// Between each two neighbours: their midpoint goes to the even one, its fp32 neighbours to the near one.
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        double above = h + 1 == 0x7c00 ? 65536 : half_value(h + 1);
        float middle = (float)((half_value(h) + above) / 2);
        assert_int_equal(half_from_float(middle), h % 2 ? h + 1 : h);
        assert_int_equal(half_from_float(nextafterf(middle, 0)), h);
        assert_int_equal(half_from_float(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(half_from_float(-middle), 0x8000 | (h % 2 ? h + 1 : h));
    }
}

// mxfp4's exponent is floorf(log2f(largest)) - 2 in ggml: with this machine's libm, near every power of two.
static void mxfp4_exponent_is_that_of_log2f(void **state)
{
    (void)state;
    float x[32] = {0};
    uint8_t block[17];
    for (int k = -120; k <= 127; k++)
        for (int n = -200; n <= 200; n++) {
            uint32_t bits = (uint32_t)((k + 127) << 23) + (uint32_t)n;
            x[5] = float_of(bits);
            fm_block_ref_mxfp4(x, block);
            assert_int_equal(block[0], (int)floorf(log2f(x[5])) - 2 + 127);
        }
}

static void four_bit_floats_are_the_first_nearest(void **state)
{
    (void)state;
    uint64_t seed = 3;
    float x[64];
    uint8_t block[36];
    for (int round = 0; round < 20000; round++) {
        input_kind kind = (input_kind)(round % INPUT_N);
        for (size_t j = 0; j < 64; j++)
            x[j] = random_input(kind, j, &seed);
        for (int mx = 0; mx < 2; mx++) {
            (mx ? fm_block_ref_mxfp4 : fm_block_ref_nvfp4)(x, block);
            for (int j = 0; j < (mx ? 32 : 64); j++) {
                float d = mx ? e8m0_half(block[0]) : ue4m3_half(block[j / 16]);
                int nibble = mx ? block[1 + j % 16] >> (j / 16 * 4) & 15
                                : block[4 + j / 16 * 8 + j % 8] >> (j % 16 / 8 * 4) & 15;
                int best = 0;
                for (int i = 1; i < 16; i++)
                    if (fabsf((float)e2m1_doubled[i] * d - x[j]) < fabsf((float)e2m1_doubled[best] * d - x[j]))
                        best = i;
                if (nibble != best)
                    fail_msg("%s, %s: %a over %a has code %d, not %d", mx ? "mxfp4" : "nvfp4", input_words[kind], x[j],
                             d, nibble, best);
            }
        }
    }
}

// The rounding of q8_0 is C's roundf, also for every float near a tie: a block whose scale is 1.
static void q8_0_rounds_half_away(void **state)
{
    (void)state;
    float x[32] = {127};
    uint8_t block[34];
    for (int tie = 0; tie < 126; tie++)
        for (int n = -3; n <= 3; n++) {
            float v = (float)tie + 0.5f;
            for (int i = 0; i < abs(n); i++)
                v = nextafterf(v, n < 0 ? 0 : 1000);
            x[1] = v;
            x[2] = -v;
            fm_block_ref_q8_0(x, block);
            assert_int_equal((int8_t)block[3], (int)roundf(v));
            assert_int_equal((int8_t)block[4], -(int)roundf(v));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_decode_and_return),        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(mxfp4_exponent_is_that_of_log2f), cmocka_unit_test(four_bit_floats_are_the_first_nearest),
        cmocka_unit_test(q8_0_rounds_half_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
