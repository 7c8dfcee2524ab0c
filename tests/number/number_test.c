// The table against its own codes, names, packing, counting, single rounding from fp64, and stochastic rounding.
#include <math.h>

#include "testing.h"
#include "floodmark/convert.h"
#include "number/inline.h"
#include "number/kernels.h"

// Small deterministic generator for inputs (xorshift64*); bit patterns cover every exponent.
static uint64_t seed_state;
static uint32_t next_bits(void)
{
    seed_state ^= seed_state >> 12;
    seed_state ^= seed_state << 25;
    seed_state ^= seed_state >> 27;
    return (uint32_t)(seed_state * UINT64_C(2685821657736338717) >> 32);
}

static void fill_patterns(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = next_bits();
        if (i % 3) // two thirds near the narrow formats' range
            u = (u & 0x807fffff) | (100 + (u >> 23) % 50) << 23;
        x[i] = fm_f32_of_bits(i % 97 ? u : 0x7f800000 | (i % 2 ? u & 0x80400000 : 0));
    }
}

static void table_matches_codes(void **state)
{
    (void)state;
    for (unsigned t = 0; t < FM_N_NUMBERS; t++) {
        const fm_number_format *f = fm_number_info((fm_number)t);
        assert_int_equal(f->type, t);
        assert_int_equal(f->storage_bytes * 8, f->bits <= 8 ? 8 : f->bits == 19 ? 32 : f->bits);
        assert_int_equal(f->sign_bits + f->exponent_bits + f->fraction_bits, f->bits);
        if (f->bits > 16)
            continue;
        double max = -INFINITY, lowest = INFINITY, smallest = INFINITY, above_one = INFINITY;
        bool has_infinity = false, has_nan = false, has_neg_zero = false;
        for (uint32_t c = 0; c < 1u << f->bits; c++) {
            double v = (double)fm_number_decode(f->type, c);
            has_nan |= v != v;
            has_infinity |= isinf(v);
            has_neg_zero |= v == 0 && signbit(v);
            if (!isfinite(v))
                continue;
            max = v > max ? v : max;
            lowest = v < lowest ? v : lowest;
            smallest = v > 0 && v < smallest ? v : smallest;
            above_one = v > 1 && v < above_one ? v : above_one;
        }
        assert_true(max == f->max_finite && lowest == f->lowest && smallest == f->min_subnormal);
        assert_true(above_one - 1 == f->epsilon);
        assert_int_equal(has_nan, f->has_nan);
        assert_int_equal(has_infinity, f->has_infinity);
        assert_int_equal(has_neg_zero, f->has_neg_zero);
        assert_true((double)fm_number_decode(f->type, f->max_code) == f->max_finite);
        if (!f->is_integer)
            assert_true(f->min_normal == ldexp(1, (f->type == FM_E8M0 ? 0 : 1) - f->bias));
    }
}

static void finds_names(void **state)
{
    (void)state;
    fm_err err;
    fm_number type = FM_INT4;
    FM_ASSERT_OK(fm_number_find("F16", &type, &err));
    assert_int_equal(type, FM_FP16);
    FM_ASSERT_OK(fm_number_find("float8_e4m3fn", &type, &err));
    assert_int_equal(type, FM_FP8_E4M3);
    FM_ASSERT_OK(fm_number_find("f4_e2m1", &type, &err));
    assert_int_equal(type, FM_FP4_E2M1);
    FM_ASSERT_FAILS(fm_number_find("f1", &type, &err), FM_ERR_NOT_FOUND);
    FM_ASSERT_FAILS(fm_number_find("", &type, &err), FM_ERR_NOT_FOUND);
    FM_ASSERT_FAILS(fm_number_find("f32 float32", &type, &err), FM_ERR_NOT_FOUND);
    assert_int_equal(type, FM_FP4_E2M1);
    for (unsigned t = 0; t < FM_N_NUMBERS; t++) {
        FM_ASSERT_OK(fm_number_find(fm_number_info((fm_number)t)->name, &type, &err));
        assert_int_equal(type, t);
    }
    for (unsigned r = 0; r < FM_N_ROUNDINGS; r++) {
        fm_rounding rounding;
        FM_ASSERT_OK(fm_rounding_find(fm_rounding_name((fm_rounding)r), &rounding, &err));
        assert_int_equal(rounding, r);
    }
    fm_rounding rounding;
    FM_ASSERT_FAILS(fm_rounding_find("up", &rounding, &err), FM_ERR_NOT_FOUND);
}

static void spot_values(void **state)
{
    (void)state;
    const fm_encoding plain = {0}, saturating = {.saturate = true};
    assert_int_equal(fm_number_encode(FM_FP16, 70000, &plain), 0x7c00);
    assert_int_equal(fm_number_encode(FM_FP16, 70000, &saturating), 0x7bff);
    assert_true(fm_number_decode(FM_BF16, fm_number_encode(FM_BF16, 70000, &plain)) == 70144);
    assert_int_equal(fm_number_encode(FM_FP8_E4M3, 464, &plain), 0x7e); // a tie, to 448
    assert_int_equal(fm_number_encode(FM_FP8_E4M3, 464.00003f, &plain), 0x7f);
    assert_int_equal(fm_number_encode(FM_FP8_E4M3FNUZ, -0.0f, &plain), 0);
    assert_int_equal(fm_number_encode(FM_INT8, -200, &plain), 0x80);
    assert_int_equal(fm_number_encode(FM_INT8, 2.5f, &plain), 2);
    assert_int_equal(fm_number_encode(FM_INT4, -7.6f, &plain), 8);
    assert_int_equal(fm_number_encode(FM_INT4, NAN, &plain), 0);
    // fp32 rounded first would make a tie of the first and then go to even, down.
    assert_int_equal(fm_number_encode_f64(FM_FP16, 1 + 0x1p-11 + 0x1p-40, &plain), 0x3c01);
    assert_int_equal(fm_number_encode_f64(FM_FP32, 0x1p128, &plain), 0x7f800000);
    assert_int_equal(fm_number_encode_f64(FM_FP32, 0x1.ffffffp127, &plain), 0x7f800000); // the tie
    assert_int_equal(fm_number_encode_f64(FM_FP32, 0x1.fffffefffffffp127, &plain), 0x7f7fffff);
    assert_int_equal(fm_number_encode_f64(FM_FP32, 0x1p-150, &plain), 0);
    assert_int_equal(fm_number_encode_f64(FM_FP32, 0x1.8p-150, &plain), 1);
    assert_int_equal(fm_number_encode_f64(FM_FP32, 0x1p-1074, &(fm_encoding){.rounding = FM_ROUND_AWAY}), 1);
}

static void inline_equals_definition(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 65536; c++) {
        assert_int_equal(fm_bits_of_f32(fm_f32_of_f16((uint16_t)c)), fm_bits_of_f32(fm_number_decode(FM_FP16, c)));
        assert_int_equal(fm_bits_of_f32(fm_f32_of_bf16((uint16_t)c)), fm_bits_of_f32(fm_number_decode(FM_BF16, c)));
    }
    for (uint32_t c = 0; c < 256; c++)
        assert_int_equal(fm_bits_of_f32(fm_f32_of_e8m0((uint8_t)c)), fm_bits_of_f32(fm_number_decode(FM_E8M0, c)));
}

// Every row decodes every code alike, at every misalignment of the output and length around the vector's.
static void rows_decode_alike(void **state)
{
    (void)state;
    static uint16_t halves[65536];
    static uint8_t bytes[65536];
    static float want[65600], got[65600];
    for (uint32_t i = 0; i < 65536; i++) {
        halves[i] = (uint16_t)i;
        bytes[i] = (uint8_t)(i + (i >> 8)); // upper bits of narrow codes set, too
    }
    for (fm_cpu_level level = FM_CPU_SCALAR; level <= FM_CPU_AVX512; level++) {
        const fm_number_kernels *k = fm_number_kernels_at(level);
        if (!k) {
            printf("skipped: this machine cannot run %s\n", fm_cpu_level_name(level));
            continue;
        }
        for (unsigned past_cache = 0; past_cache < 2; past_cache++) {
            for (size_t shift = 0; shift < 20; shift++) {
                size_t n = shift ? 100 + 3 * shift : 65536 - 31700;
                memset(got, 0, sizeof got);
                k->f32_from_f16(n, halves + 31700, got + shift, past_cache);
                for (size_t i = 0; i < n; i++)
                    assert_int_equal(fm_bits_of_f32(got[shift + i]),
                                     fm_bits_of_f32(fm_number_decode(FM_FP16, halves[31700 + i])));
                assert_true(got[shift + n] == 0);
            }
        }
        k->f32_from_f16(65536, halves, got, true);
        for (uint32_t c = 0; c < 65536; c++)
            assert_int_equal(fm_bits_of_f32(got[c]), fm_bits_of_f32(fm_number_decode(FM_FP16, c)));
        k->f32_from_bf16(65536, halves, got, true);
        for (uint32_t c = 0; c < 65536; c++)
            assert_int_equal(fm_bits_of_f32(got[c]), c << 16);
        for (unsigned t = FM_FP8_E4M3; t <= FM_FP4_E2M1; t++) {
            fm_small s;
            fm_small_init(&s, fm_number_info((fm_number)t), false);
            for (uint32_t i = 0; i < 65536; i++)
                want[i] = fm_number_decode((fm_number)t, bytes[i]);
            k->f32_from_small(&s, 65536, bytes, got, false);
            assert_memory_equal(got, want, sizeof *want * 65536);
            k->f32_from_small(&s, 65530, bytes + 3, got + 1, true);
            assert_memory_equal(got + 1, want + 3, sizeof *want * 65530);
        }
    }
}

static void encode_singly(fm_number type, const fm_encoding *how, size_t n, const float *x, void *out)
{
    fm_encoding one = *how;
    for (size_t i = 0; i < n; i++, one.counter++) {
        uint32_t code = fm_number_encode(type, x[i], &one);
        size_t bytes = fm_number_info(type)->storage_bytes;
        memcpy((char *)out + i * bytes, &code, bytes); // little endian
    }
}

static const fm_encoding *encodings(size_t i)
{
    static const fm_encoding all[] = {
        {0},
        {.saturate = true},
        {.rounding = FM_ROUND_NEAREST_AWAY},
        {.rounding = FM_ROUND_ZERO},
        {.rounding = FM_ROUND_AWAY, .saturate = true},
        {.rounding = FM_ROUND_STOCHASTIC, .seed = 12345678901234567, .counter = 3},
        {.rounding = FM_ROUND_STOCHASTIC, .saturate = true, .seed = 1, .counter = UINT64_C(0xfffffffffff)},
    };
    return i < sizeof all / sizeof *all ? &all[i] : NULL;
}

// Arrays equal single values for every type and way of encoding, at odd lengths and offsets.
static void arrays_equal_singles(void **state)
{
    (void)state;
    enum { N = 10007 };
    static float x[N + 8];
    static uint32_t got[N + 16], want[N + 16];
    seed_state = 88172645463325252u;
    fill_patterns(N + 8, x);
    const fm_encoding *how;
    for (unsigned t = FM_FP32; t < FM_N_NUMBERS; t++) {
        size_t bytes = fm_number_info((fm_number)t)->storage_bytes;
        for (size_t e = 0; (how = encodings(e)); e++) {
            for (size_t n = N; n > 0; n = n > 200 ? 70 : n / 2) {
                memset(got, 0xa5, sizeof got);
                memset(want, 0xa5, sizeof want);
                encode_singly((fm_number)t, how, n, x + n % 8, (char *)want + bytes);
                fm_encode_f32((fm_number)t, how, n, x + n % 8, (char *)got + bytes, NULL);
                assert_memory_equal(got, want, sizeof got);
                fm_convert_counts counts = {0};
                memset(got, 0xa5, sizeof got);
                fm_encode_f32((fm_number)t, how, n, x + n % 8, (char *)got + bytes, &counts);
                assert_memory_equal(got, want, sizeof got);
            }
        }
    }
}

// Large outputs take the path past the cache.
static void large_arrays_equal_small_ones(void **state)
{
    (void)state;
    const size_t n = (5 << 20) + 7, whole = 4 * n + 64;
    float *x = malloc(4 * n), *back = malloc(whole);
    char *got = malloc(whole), *want = malloc(whole);
    assert_true(x && back && got && want);
    seed_state = 42;
    fill_patterns(n, x);
    static const fm_number types[] = {FM_FP16, FM_BF16, FM_FP8_E4M3, FM_FP8_E5M2, FM_FP8_E4M3FNUZ, FM_FP4_E2M1};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t bytes = fm_number_info(types[t])->storage_bytes;
        for (size_t i = 0; i < n; i += 1000) {
            size_t m = n - i < 1000 ? n - i : 1000;
            fm_encode_f32(types[t], NULL, m, x + i, want + i * bytes, NULL);
        }
        fm_encode_f32(types[t], NULL, n, x, got + bytes, NULL); // not aligned for a vector
        assert_memory_equal(got + bytes, want, n * bytes);
        fm_convert_counts counts = {0};
        fm_encode_f32(types[t], NULL, n, x, got + bytes, &counts);
        assert_memory_equal(got + bytes, want, n * bytes);
        fm_decode_f32(types[t], n, want, back + 3);
        for (size_t i = 0; i < n; i += 1000) {
            size_t m = n - i < 1000 ? n - i : 1000;
            fm_decode_f32(types[t], m, want + i * bytes, (float *)(void *)got + i);
        }
        assert_memory_equal(back + 3, got, 4 * n);
    }
    free(x);
    free(back);
    free(got);
    free(want);
}

// Whether rounding carries x to the grid point after the largest value, as if the grid went on.
static bool goes_past(const fm_number_format *f, const fm_encoding *how, double x)
{
    double largest = x < 0 && f->is_integer ? -f->lowest : f->max_finite;
    double step = f->is_integer ? 1 : f->max_finite - (double)fm_number_decode(f->type, f->max_code - 1);
    double position = (fabs(x) - largest) / (f->type == FM_E8M0 ? f->max_finite : step); // 0: largest, 1: the next
    bool odd = x < 0 && f->is_integer ? false : (f->max_code & 1 || f->type == FM_E8M0 || f->type == FM_TF32);
    switch (how->rounding) {
    case FM_ROUND_NEAREST_AWAY:
        return position >= 0.5;
    case FM_ROUND_ZERO:
        return position >= 1;
    case FM_ROUND_AWAY:
        return position > 0;
    case FM_ROUND_STOCHASTIC:
        return position > 0 &&
               (position >= 1 || floor(position * 0x1p32) + fm_random_u32(how->seed, how->counter) >= 0x1p32);
    default:
        return odd ? position >= 0.5 : position > 0.5;
    }
}

// Counts, by a second route: what each single value became.
static fm_convert_counts count_singly(const fm_number_format *f, const fm_encoding *how, size_t n, const float *x)
{
    fm_convert_counts c = {0};
    fm_encoding one = *how;
    for (size_t i = 0; i < n; i++, one.counter++) {
        double y = (double)fm_number_decode(f->type, fm_number_encode(f->type, x[i], &one));
        c.nan += isnan(x[i]) != 0;
        c.infinite += isinf(x[i]) != 0;
        if (!isfinite(x[i]))
            continue;
        c.overflowed += !isfinite(y);
        c.saturated += isfinite(y) && goes_past(f, &one, (double)x[i]);
        c.zeroed += y == 0 && x[i] != 0;
    }
    return c;
}

static void counts_are_right(void **state)
{
    (void)state;
    enum { N = 9001 };
    static float x[N];
    static uint32_t out[N];
    seed_state = 7;
    fill_patterns(N, x);
    const fm_encoding *how;
    for (unsigned t = FM_FP32; t < FM_N_NUMBERS; t++) {
        const fm_number_format *f = fm_number_info((fm_number)t);
        for (size_t e = 0; (how = encodings(e)); e++) {
            fm_convert_counts got = {0}, want = count_singly(f, how, N, x);
            fm_encode_f32(f->type, how, N, x, out, &got);
            if (memcmp(&got, &want, sizeof got))
                fail_msg("%s %s%s: nan %lu %lu infinite %lu %lu overflowed %lu %lu saturated %lu %lu zeroed %lu %lu",
                         f->name, fm_rounding_name(how->rounding), how->saturate ? " saturating" : "", got.nan,
                         want.nan, got.infinite, want.infinite, got.overflowed, want.overflowed, got.saturated,
                         want.saturated, got.zeroed, want.zeroed);
        }
    }
}

static void counts_by_hand(void **state)
{
    (void)state;
    const float x[] = {0, -0.0f, 1, 7, -7, 6.99f, 6, 0.25f, 0.26f, -0.1f, NAN, INFINITY, -1e30f, 1e-40f};
    uint8_t out[sizeof x / sizeof *x];
    fm_convert_counts c = {0};
    fm_encode_f32(FM_FP4_E2M1, NULL, sizeof x / sizeof *x, x, out, &c);
    assert_int_equal(c.nan, 1);
    assert_int_equal(c.infinite, 1);
    assert_int_equal(c.overflowed, 0);
    assert_int_equal(c.saturated, 3); // 7 and -7 (the tie to the 8 that is not there), -1e30
    assert_int_equal(c.zeroed, 3);    // 0.25 (tie to even), -0.1, 1e-40
    fm_encode_f32(FM_FP16, NULL, sizeof x / sizeof *x, x, (uint16_t[sizeof x / sizeof *x]){0}, &c);
    assert_int_equal(c.nan, 2);
    assert_int_equal(c.overflowed, 1);
    assert_int_equal(c.zeroed, 4);
}

// From fp64 through odd fp32 equals rounding once.
static void fp64_rounds_once(void **state)
{
    (void)state;
    enum { N = 20000 };
    static double x[N];
    static uint32_t got[N];
    seed_state = 99;
    for (size_t i = 0; i < N; i++) {
        // near ties of 4- to 24-bit fractions, tiny differences beyond them, exponents of all the narrow formats
        unsigned bits = 1 + next_bits() % 24;
        double tie = 1 + ((next_bits() & ((1u << bits) - 1)) + 0.5) * ldexp(1, -(int)bits);
        double beyond = (int)(next_bits() % 3 - 1) * ldexp(1, -30 - (int)(next_bits() % 22));
        x[i] = ldexp(tie + beyond, (int)(next_bits() % 320) - 170) * (next_bits() & 1 ? -1 : 1);
        if (i % 100 == 0)
            x[i] = i % 200 ? (double)NAN : -(double)INFINITY;
        if (i % 100 == 1)
            x[i] = ldexp(x[i], i % 200 == 1 ? 800 : -800);
    }
    const fm_encoding *how;
    for (unsigned t = FM_FP32; t < FM_N_NUMBERS; t++) {
        const fm_number_format *f = fm_number_info((fm_number)t);
        for (size_t e = 0; (how = encodings(e)); e++) {
            fm_convert_counts counts = {0};
            fm_convert(FM_FP64, f->type, how, N, x, got, e % 2 ? &counts : NULL);
            fm_encoding one = *how;
            for (size_t i = 0; i < N; i++, one.counter++) {
                uint32_t want = fm_number_encode_f64(f->type, x[i], &one), code = 0;
                memcpy(&code, (char *)got + i * f->storage_bytes, f->storage_bytes);
                if (code != want)
                    fail_msg("%s %s: %a becomes 0x%x, singly 0x%x", f->name, fm_rounding_name(how->rounding), x[i],
                             code, want);
            }
        }
    }
}

// Any narrow type to any other: as by way of the value.
static void converts_between_narrow_types(void **state)
{
    (void)state;
    static uint16_t codes[65536];
    static uint32_t got[65536];
    for (unsigned from = FM_FP16; from < FM_N_NUMBERS; from++) {
        const fm_number_format *f = fm_number_info((fm_number)from);
        size_t n = (size_t)1 << f->bits;
        for (size_t c = 0; c < n; c++) {
            if (f->storage_bytes == 2)
                codes[c] = (uint16_t)c;
            else
                ((uint8_t *)codes)[c] = (uint8_t)c;
        }
        for (unsigned to = FM_FP32; to < FM_N_NUMBERS; to++) {
            const fm_number_format *g = fm_number_info((fm_number)to);
            fm_convert_counts counts = {0};
            fm_convert(f->type, g->type, NULL, n, codes, got, &counts);
            for (size_t c = 0; c < n; c++) {
                uint32_t want =
                    to == from ? (uint32_t)c
                               : fm_number_encode(g->type, fm_number_decode(f->type, (uint32_t)c), &(fm_encoding){0});
                uint32_t code = 0;
                memcpy(&code, (char *)got + c * g->storage_bytes, g->storage_bytes);
                if (code != want)
                    fail_msg("%s to %s: 0x%zx becomes 0x%x, not 0x%x", f->name, g->name, c, code, want);
            }
            assert_true(f->type == FM_E8M0 || (counts.infinite > 0) == f->has_infinity);
            assert_true((counts.nan > 0) == f->has_nan);
        }
    }
}

static void random_words(void **state)
{
    (void)state;
    // Random123's known answer for philox4x32, 10 rounds, counter 0, key 0.
    static const uint32_t known[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(fm_random_u32(0, i), known[i]);
    static uint32_t words[1000];
    static const uint64_t firsts[] = {0, 1, 5, UINT64_C(0x3fffffff0), UINT64_C(0xfffffffffffffff0)};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        fm_random_fill_u32(UINT64_C(0x0123456789abcdef), firsts[f], f == 4 ? 16 : 1000, words);
        for (uint64_t i = 0; i < (f == 4 ? 16 : 1000); i++)
            assert_int_equal(words[i], fm_random_u32(UINT64_C(0x0123456789abcdef), firsts[f] + i));
    }
    for (fm_cpu_level level = FM_CPU_AVX2; level <= FM_CPU_AVX512; level++) {
        static uint32_t other[1000];
        const fm_number_kernels *k = fm_number_kernels_at(level);
        if (!k)
            continue;
        fm_number_kernels_scalar.random_blocks(9, UINT64_C(0xffffffff) - 20, 1000, words); // across 2^32 blocks
        k->random_blocks(9, UINT64_C(0xffffffff) - 20, 1000, other);
        assert_memory_equal(words, other, sizeof words);
    }
}

// Every row of the table dithers alike; grid values stay; the mean is the value.
static void stochastic_rounding(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    static float x[N];
    static uint16_t codes[N];
    const fm_encoding how = {.rounding = FM_ROUND_STOCHASTIC, .seed = 5};
    static const float values[] = {1.001f, -3.3f, 0x1.23p-20f, 0x1p-26f, 65510};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (size_t i = 0; i < N; i++)
            x[i] = values[v];
        fm_encode_f32(FM_FP16, &how, N, x, codes, NULL);
        double sum = 0, low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < N; i++) {
            double y = (double)fm_number_decode(FM_FP16, codes[i]);
            y = isinf(y) ? copysign(65536, y) : y;
            sum += y;
            low = y < low ? y : low;
            high = y > high ? y : high;
        }
        double step = high - low;
        assert_true(step > 0 && low < (double)values[v] && (double)values[v] < high);
        assert_true(fabs(sum / N - (double)values[v]) < step * 4 * 0.5 / sqrt(N)); // four standard errors
    }
    for (size_t i = 0; i < N; i++)
        x[i] = fm_number_decode(FM_FP16, (uint32_t)i);
    fm_encode_f32(FM_FP16, &how, N, x, codes, NULL);
    for (size_t i = 0; i < N; i++)
        assert_true(codes[i] == i || x[i] != x[i]);
    // A piece of an array gives the piece of its codes.
    static uint16_t piece[N];
    for (size_t i = 0; i < N; i++)
        x[i] = (float)i * 1.0001f;
    fm_encode_f32(FM_BF16, &how, N, x, codes, NULL);
    fm_encoding later = how;
    later.counter = 1001;
    fm_encode_f32(FM_BF16, &later, N - 1001, x + 1001, piece, NULL);
    assert_memory_equal(piece, codes + 1001, 2 * (N - 1001));
}

static void rows_dither_alike(void **state)
{
    (void)state;
    enum { N = 40000 };
    static float x[N];
    seed_state = 11;
    fill_patterns(N, x);
    char want[2 * N], got[2 * N];
    const char *chosen = fm_number_kernel();
    printf("row in use: %s\n", chosen); // FLOODMARK_CPU makes this test run once a row
    const fm_encoding *how;
    for (unsigned t = FM_FP16; t <= FM_FP4_E2M1; t++) {
        size_t bytes = fm_number_info((fm_number)t)->storage_bytes;
        for (size_t e = 0; (how = encodings(e)); e++) {
            if (how->rounding != FM_ROUND_STOCHASTIC)
                continue;
            encode_singly((fm_number)t, how, N, x, want);
            fm_encode_f32((fm_number)t, how, N, x, got, NULL);
            assert_memory_equal(got, want, N * bytes);
        }
    }
}

static void packs(void **state)
{
    (void)state;
    uint8_t codes[300], packed[300], back[300];
    int8_t values[300];
    seed_state = 3;
    for (size_t n = 0; n < 300; n++) {
        for (size_t i = 0; i < n; i++)
            codes[i] = (uint8_t)next_bits();
        for (int order = 0; order < 2; order++) {
            memset(packed, 0xee, sizeof packed);
            fm_nibbles_pack((fm_nibble_order)order, n, codes, packed);
            size_t bytes = fm_packed_bytes(4, n);
            assert_int_equal(bytes, (n + 1) / 2);
            assert_int_equal(packed[bytes], 0xee);
            if (n) {
                assert_int_equal(order ? packed[0] >> 4 : packed[0] & 15, codes[0] & 15);
                if (n % 2)
                    assert_int_equal(order ? packed[bytes - 1] & 15 : packed[bytes - 1] >> 4, 0);
            }
            fm_nibbles_unpack((fm_nibble_order)order, n, packed, back);
            fm_nibbles_unpack_i4((fm_nibble_order)order, n, packed, values);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(back[i], codes[i] & 15);
                assert_true((float)values[i] == fm_number_decode(FM_INT4, codes[i]));
            }
        }
        memset(packed, 0xee, sizeof packed);
        fm_sixes_pack(n, codes, packed);
        assert_int_equal(packed[fm_packed_bytes(6, n)], 0xee);
        fm_sixes_unpack(n, packed, back);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(back[i], codes[i] & 63);
    }
    const uint8_t four[4] = {0x3f, 0, 0x15, 0x2a};
    fm_sixes_pack(4, four, packed);
    assert_int_equal(packed[0] | packed[1] << 8 | packed[2] << 16, 0x3f | 0x15 << 12 | 0x2a << 18);
    assert_true(fm_packed_bytes(64, UINT64_MAX) == UINT64_MAX);
    assert_true(fm_packed_bytes(6, 5) == 4);
}

static void extents(void **state)
{
    (void)state;
    static float x[1003];
    uint32_t most, least;
    fm_extent_f32(0, x, &most, &least);
    assert_true(most == 0 && least == UINT32_MAX);
    fm_extent_f32(1003, x, &most, &least);
    assert_true(most == 0 && least == UINT32_MAX);
    for (size_t at = 0; at < 1003; at += 17) {
        memset(x, 0, sizeof x);
        x[at] = -0x1p-140f;
        x[(at + 500) % 1003] = -3;
        fm_extent_f32(1003, x, &most, &least);
        assert_true(most == fm_bits_of_f32(3) && least == fm_bits_of_f32(0x1p-140f));
    }
    x[2] = NAN;
    fm_extent_f32(1003, x, &most, &least);
    assert_true(most > 0x7f800000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_matches_codes),
        cmocka_unit_test(finds_names),
        cmocka_unit_test(spot_values),
        cmocka_unit_test(inline_equals_definition),
        cmocka_unit_test(rows_decode_alike),
        cmocka_unit_test(arrays_equal_singles),
        cmocka_unit_test(large_arrays_equal_small_ones),
        cmocka_unit_test(counts_are_right),
        cmocka_unit_test(counts_by_hand),
        cmocka_unit_test(fp64_rounds_once),
        cmocka_unit_test(converts_between_narrow_types),
        cmocka_unit_test(random_words),
        cmocka_unit_test(stochastic_rounding),
        cmocka_unit_test(rows_dither_alike),
        cmocka_unit_test(packs),
        cmocka_unit_test(extents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
