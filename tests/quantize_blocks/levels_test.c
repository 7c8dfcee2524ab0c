// Every instruction set gives the scalar kernels' bytes and floats, for every format, on every kind of input, with and
// without weights, in any number of blocks, at any alignment; and all give the bytes pinned here, so that two
// compilers, or two machines, that pass agree with one another. Any bytes at all decode the same, without a fault.
#include <math.h>
#include "testing.h"
#include "floodmark/block_format.h"
#include "quantize/blocks/kernels.h"
#include "inputs.h"

enum { N_VALUES = 256 * 21 }; // whole blocks of every format, not a multiple of what the kernels take at once

static float x[N_VALUES], weights[N_VALUES];
static uint8_t want[N_VALUES * 2 + 16], got[N_VALUES * 2 + 16];
static float y[N_VALUES + 16], z[N_VALUES + 16];

static size_t bytes_of(const fm_block_format *f, size_t n)
{
    return n / f->block_elems * f->block_bytes;
}

static void fill(input_kind kind, uint64_t seed)
{
    for (size_t i = 0; i < N_VALUES; i++)
        x[i] = random_input(kind, i, &seed);
    for (size_t i = 0; i < N_VALUES; i++) {
        float v = random_normal(&seed);
        weights[i] = i % 61 == 3 ? 0 : v * v;
    }
    memset(weights + 512, 0, 256 * sizeof *weights); // a block that does not count
}

static bool same_floats(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, 4) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void compare(const fm_block_format *f, const fm_block_kernels *scalar, fm_cpu_level level, input_kind kind,
                    size_t n)
{
    fm_block_kernels k;
    if (!fm_block_kernels_at(level, f->type, &k))
        return;
    for (int weighted = 0; weighted < 2; weighted++) {
        size_t n_blocks = n / f->block_elems, n_bytes = bytes_of(f, n);
        memset(want, 0xa5, sizeof want);
        memset(got, 0xa5, sizeof got);
        (weighted ? scalar->encode_weighted : scalar->encode)(n_blocks, x, weighted ? weights : NULL, want + 1);
        (weighted ? k.encode_weighted : k.encode)(n_blocks, x, weighted ? weights : NULL, got + 1);
        for (size_t i = 0; i < sizeof want; i++)
            if (want[i] != got[i])
                fail_msg("%s at %s, %s%s: block %zu byte %zu is %02x, not %02x", f->name, fm_cpu_level_name(level),
                         input_words[kind], weighted ? ", weighted" : "", (i - 1) / f->block_bytes,
                         (i - 1) % f->block_bytes, got[i], want[i]);
        assert_true(want[0] == 0xa5 && want[1 + n_bytes] == 0xa5); // nothing beyond the blocks
        z[n] = y[n] = 12.5f;
        scalar->decode(n_blocks, want + 1, y);
        k.decode(n_blocks, want + 1, z);
        assert_true(z[n] == 12.5f && y[n] == 12.5f);
        if (!same_floats(y, z, n))
            fail_msg("%s at %s, %s: decoded values differ", f->name, fm_cpu_level_name(level), input_words[kind]);
    }
}

static void levels_agree(void **state)
{
    (void)state;
    for (int t = 0; t < FM_BLOCK_N; t++) {
        const fm_block_format *f = fm_block_format_of((fm_block_type)t);
        fm_block_kernels scalar;
        assert_true(fm_block_kernels_at(FM_CPU_SCALAR, f->type, &scalar));
        for (int kind = 0; kind < INPUT_N; kind++) {
            fill((input_kind)kind, (uint64_t)kind * 1000);
            for (int level = FM_CPU_AVX2; level <= FM_CPU_AVX512; level++)
                compare(f, &scalar, (fm_cpu_level)level, (input_kind)kind, kind % 2 ? N_VALUES : 256 * 3);
        }
    }
    for (int level = FM_CPU_AVX2; level <= FM_CPU_AVX512; level++) {
        fm_block_kernels k;
        if (!fm_block_kernels_at((fm_cpu_level)level, FM_BLOCK_Q8_0, &k))
            printf("skipped: %s does not run here\n", fm_cpu_level_name((fm_cpu_level)level));
    }
}

static void any_bytes_decode(void **state)
{
    (void)state;
    uint64_t seed = 77;
    for (int t = 0; t < FM_BLOCK_N; t++) {
        const fm_block_format *f = fm_block_format_of((fm_block_type)t);
        for (int round = 0; round < 40; round++) {
            for (size_t i = 0; i < sizeof want; i++)
                want[i] = round == 0 ? 0xff : (uint8_t)random_u32(&seed);
            for (int level = FM_CPU_SCALAR; level <= FM_CPU_AVX512; level++) {
                fm_block_kernels k;
                if (!fm_block_kernels_at((fm_cpu_level)level, f->type, &k))
                    continue;
                k.decode(N_VALUES / f->block_elems, want + round % 3, level ? z : y);
                if (level && !same_floats(y, z, N_VALUES))
                    fail_msg("%s at %s: arbitrary bytes decode differently", f->name,
                             fm_cpu_level_name((fm_cpu_level)level));
            }
        }
    }
}

// Output larger than the caches takes another path: the same values.
static void large_output_is_the_same(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    float *whole = aligned_alloc(64, N * sizeof *whole), *part = aligned_alloc(64, N * sizeof *part);
    uint8_t *blocks = malloc(N * 2);
    assert_true(whole && part && blocks);
    uint64_t seed = 5;
    for (size_t i = 0; i < N * 2; i++)
        blocks[i] = (uint8_t)random_u32(&seed);
    for (int t = 0; t < FM_BLOCK_N; t++) {
        const fm_block_format *f = fm_block_format_of((fm_block_type)t);
        fm_err err;
        FM_ASSERT_OK(fm_block_decode(f, N, blocks, whole, &err));
        for (size_t i = 0; i < N; i += N / 4)
            FM_ASSERT_OK(fm_block_decode(f, N / 4, blocks + bytes_of(f, i), part + i, &err));
        if (!same_floats(whole, part, N))
            fail_msg("%s: a large output differs", f->name);
    }
    free(whole);
    free(part);
    free(blocks);
}

// FNV-1a of the bytes of all kinds of input, plain and weighted. FLOODMARK_BLOCK_PIN=1 prints new ones.
static const struct {
    const char *name;
    uint64_t hash;
} pinned[] = {
#include "pinned.inc.h"
};

static uint64_t hash_of(const fm_block_format *f, const fm_block_kernels *k)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int kind = 0; kind < INPUT_N; kind++) {
        fill((input_kind)kind, (uint64_t)kind + 1);
        for (int weighted = 0; weighted < 2; weighted++) {
            (weighted ? k->encode_weighted : k->encode)(2048 / f->block_elems, x, weighted ? weights : NULL, want);
            for (size_t i = 0; i < bytes_of(f, 2048); i++)
                hash = (hash ^ want[i]) * 0x100000001b3;
        }
    }
    return hash;
}

static void bytes_are_those_of_every_other_build(void **state)
{
    (void)state;
    for (int t = 0; t < FM_BLOCK_N; t++) {
        const fm_block_format *f = fm_block_format_of((fm_block_type)t);
        for (int level = FM_CPU_SCALAR; level <= FM_CPU_AVX512; level++) {
            fm_block_kernels k;
            if (!fm_block_kernels_at((fm_cpu_level)level, f->type, &k))
                continue;
            uint64_t hash = hash_of(f, &k);
            if (getenv("FLOODMARK_BLOCK_PIN")) {
                if (level == FM_CPU_SCALAR)
                    printf("{\"%s\", 0x%016llx},\n", f->name, (unsigned long long)hash);
            } else if (strcmp(pinned[t].name, f->name) || pinned[t].hash != hash)
                fail_msg("%s at %s: bytes hash to %016llx, not %016llx", f->name,
                         fm_cpu_level_name((fm_cpu_level)level), (unsigned long long)hash,
                         (unsigned long long)pinned[t].hash);
        }
    }
}

// With the argument "pinned", only the last: what same_bytes asks of every compiler.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_agree),
        cmocka_unit_test(any_bytes_decode),
        cmocka_unit_test(large_output_is_the_same),
    };
    const struct CMUnitTest last[] = {cmocka_unit_test(bytes_are_those_of_every_other_build)};
    int failed = 0;
    if (argc < 2 || strcmp(argv[1], "pinned"))
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    return failed + cmocka_run_group_tests(last, NULL, NULL);
}
