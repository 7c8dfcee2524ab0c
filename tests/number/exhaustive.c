// Every fp32 pattern through every encoder: rows of the kernel table (scalar, AVX2, AVX-512) and the definition, against
// codes found without any bit manipulation of the input. For each code the test computes, in fp64, the value halfway to
// the next code, and from it the last fp32 pattern that still belongs to the code; encoding is then a walk along these
// boundaries.
//
//   number_exhaustive            every 1021st pattern, and both sides of every boundary of every format
//   number_exhaustive --all      all 2^32 patterns; also when the environment has FLOODMARK_EXHAUSTIVE=1
//   number_exhaustive --threads N   (default: as many as there are processors)
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "floodmark/convert.h"
#include "number/inline.h"
#include "number/kernels.h"

enum { CHUNK = 1 << 14, STRIDE = 1021, DEFINITION_EVERY = 64, MAX_THREADS = 64 };

static const struct variant {
    fm_number type;
    fm_rounding rounding;
    bool saturate;
    bool whole; // part of --all; the others go through the definition alone and are strided there too
} variants[] = {
#define BOTH(type, rounding, whole) \
    {type, rounding, false, whole}, \
    {                               \
        type, rounding, true, whole \
    }
    BOTH(FM_FP16, FM_ROUND_NEAREST_EVEN, true),
    BOTH(FM_BF16, FM_ROUND_NEAREST_EVEN, true),
    BOTH(FM_FP8_E4M3, FM_ROUND_NEAREST_EVEN, true),
    BOTH(FM_FP8_E5M2, FM_ROUND_NEAREST_EVEN, true),
    BOTH(FM_FP8_E4M3FNUZ, FM_ROUND_NEAREST_EVEN, true),
    BOTH(FM_FP8_E5M2FNUZ, FM_ROUND_NEAREST_EVEN, true),
    {FM_FP6_E2M3, FM_ROUND_NEAREST_EVEN, false, true},
    {FM_FP6_E3M2, FM_ROUND_NEAREST_EVEN, false, true},
    {FM_FP4_E2M1, FM_ROUND_NEAREST_EVEN, false, true},
    BOTH(FM_TF32, FM_ROUND_NEAREST_EVEN, true),
    BOTH(FM_TF32, FM_ROUND_NEAREST_AWAY, true),
    BOTH(FM_TF32, FM_ROUND_ZERO, true),
    BOTH(FM_TF32, FM_ROUND_AWAY, true),
    BOTH(FM_E8M0, FM_E8M0_NEAREST, true),
    BOTH(FM_E8M0, FM_E8M0_FLOOR, true),
    BOTH(FM_E8M0, FM_E8M0_CEIL, true),
    {FM_INT8, FM_ROUND_NEAREST_EVEN, false, true},
    {FM_INT4, FM_ROUND_NEAREST_EVEN, false, true},
    BOTH(FM_FP16, FM_ROUND_NEAREST_AWAY, false),
    BOTH(FM_FP16, FM_ROUND_ZERO, false),
    BOTH(FM_FP16, FM_ROUND_AWAY, false),
    BOTH(FM_BF16, FM_ROUND_NEAREST_AWAY, false),
    BOTH(FM_BF16, FM_ROUND_ZERO, false),
    BOTH(FM_BF16, FM_ROUND_AWAY, false),
    BOTH(FM_FP8_E4M3, FM_ROUND_NEAREST_AWAY, false),
    BOTH(FM_FP8_E4M3, FM_ROUND_ZERO, false),
    BOTH(FM_FP8_E5M2, FM_ROUND_ZERO, false),
    BOTH(FM_FP8_E5M2FNUZ, FM_ROUND_AWAY, false),
    {FM_FP4_E2M1, FM_ROUND_NEAREST_AWAY, false, false},
    {FM_INT8, FM_ROUND_ZERO, false, false},
    {FM_INT8, FM_ROUND_NEAREST_AWAY, false, false},
#undef BOTH
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

// ---- codes by walking -----------------------------------------------------------------------------------------------

typedef struct {
    const struct variant *v;
    const fm_number_format *f;
    unsigned spare;   // tf32: 13
    uint32_t n_codes; // finite magnitudes: 0 .. n_codes - 1
    uint32_t *last;   // [n_codes] the last fp32 magnitude pattern that becomes this code
} ladder;

// The value of a magnitude code as if the format had no special codes, by fields and ldexp.
static double value_of(const fm_number_format *f, uint32_t code)
{
    if (f->is_integer)
        return code;
    int fraction_bits = f->fraction_bits, exponent = (int)(code >> fraction_bits);
    double fraction = ldexp(code & ((1u << fraction_bits) - 1), -fraction_bits);
    if (f->type == FM_E8M0)
        return ldexp(1, exponent - f->bias);
    return exponent ? ldexp(1 + fraction, exponent - f->bias) : ldexp(fraction, 1 - f->bias);
}

// The largest fp32 pattern whose value is at most (or, `below`, less than) `limit`.
static uint32_t last_pattern(double limit, bool below)
{
    if (limit > 0x1.fffffep127)
        return 0x7f7fffff;
    float x = (float)limit;
    if (below ? (double)x >= limit : (double)x > limit)
        x = nextafterf(x, -1);
    return x < 0 ? UINT32_MAX : fm_bits_of_f32(x); // UINT32_MAX: nothing at all
}

static bool make_ladder(const struct variant *v, bool negative, ladder *l)
{
    const fm_number_format *f = fm_number_info(v->type);
    *l = (ladder){v, f, v->type == FM_TF32 ? 13 : 0, 0, NULL};
    l->n_codes = (f->is_integer && negative ? (uint32_t)-f->lowest : f->max_code >> l->spare) + 1;
    l->last = malloc(l->n_codes * sizeof *l->last);
    if (!l->last)
        return false;
    for (uint32_t c = 0; c < l->n_codes; c++) {
        double here = value_of(f, c), next = value_of(f, c + 1);
        double half = here + (next - here) / 2;
        bool tie_goes_up = v->type == FM_E8M0 || (v->rounding == FM_ROUND_NEAREST_AWAY) || (c & 1);
        if (v->rounding == FM_ROUND_ZERO)
            l->last[c] = last_pattern(next, true);
        else if (v->rounding == FM_ROUND_AWAY)
            l->last[c] = last_pattern(here, false);
        else
            l->last[c] = last_pattern(half, tie_goes_up);
    }
    if (v->type == FM_E8M0 && v->rounding == FM_E8M0_NEAREST)
        l->last[0] = 0x00400000; // as the header says: above 2^-127 goes to 2^-126
    // Finite values that have no code of their own: rounding to zero, and E8M0's floor and ceil, stay at the largest.
    if (v->rounding == FM_ROUND_ZERO || (v->type == FM_E8M0 && v->rounding == FM_ROUND_AWAY))
        l->last[l->n_codes - 1] = 0x7f7fffff;
    return true;
}

static uint32_t past_the_end(const ladder *l, uint32_t sign)
{
    const fm_number_format *f = l->f;
    if (l->v->saturate || f->overflow == FM_OVERFLOW_SATURATE)
        return sign | (f->max_code >> l->spare);
    if (f->overflow == FM_OVERFLOW_INFINITY)
        return sign | (f->inf_code >> l->spare);
    return f->type == FM_FP8_E4M3 ? sign | 0x7f : f->nan_code;
}

static uint32_t nan_of(const ladder *l, bool negative, uint32_t magnitude)
{
    switch (l->f->type) {
    case FM_FP16:
        return negative * 0x8000u + 0x7e00 + (magnitude >> 13) % 0x200;
    case FM_BF16:
        return negative * 0x8000u + 0x7fc0 + (magnitude >> 16) % 0x40;
    case FM_TF32:
        return negative * 0x40000u + 0x3fe00 + (magnitude >> 13) % 0x200;
    case FM_FP8_E4M3:
        return negative * 0x80u + 0x7f;
    case FM_FP8_E5M2:
        return negative * 0x80u + 0x7e;
    case FM_FP8_E4M3FNUZ:
    case FM_FP8_E5M2FNUZ:
        return 0x80;
    case FM_E8M0:
        return 0xff;
    case FM_FP6_E2M3:
    case FM_FP6_E3M2:
        return negative ? 0 : 0x20;
    case FM_FP4_E2M1:
        return negative ? 0 : 0x8;
    default:
        return 0;
    }
}

// The code of a pattern whose magnitude is not below that of the call before (`*at` starts from 0).
static uint32_t walk(const ladder *l, bool negative, uint32_t magnitude, uint32_t *at)
{
    const fm_number_format *f = l->f;
    uint32_t sign = negative && f->sign_bits ? 1u << (f->bits - 1) : 0, code;
    if (magnitude > 0x7f800000)
        return nan_of(l, negative, magnitude) << l->spare;
    if (f->type == FM_E8M0 && (negative || !magnitude))
        return 0xff;
    while (*at < l->n_codes && (l->last[*at] == UINT32_MAX || magnitude > l->last[*at]))
        ++*at;
    if (magnitude == 0x7f800000)
        *at = l->n_codes;
    if (f->is_integer) {
        code = *at < l->n_codes ? *at : l->n_codes - 1;
        return (negative ? 0u - code : code) & ((1u << f->bits) - 1);
    }
    code = *at < l->n_codes ? *at | sign : past_the_end(l, sign);
    return (!*at && !f->has_neg_zero ? 0 : code) << l->spare; // magnitude 0 without a minus
}

// ---- comparing ------------------------------------------------------------------------------------------------------

typedef struct {
    bool all;
    unsigned thread, n_threads;
    uint64_t n_inputs, n_failed;
    // scratch
    float x[CHUNK];
    uint32_t want[CHUNK];
    union codes {
        uint32_t words[CHUNK];
        uint16_t halves[CHUNK];
        uint8_t bytes[CHUNK];
    } got, narrow; // `narrow` is `want` in the format's own width
} worker;

static uint32_t got_at(const worker *w, const fm_number_format *f, size_t i)
{
    return f->storage_bytes == 4 ? w->got.words[i] : f->storage_bytes == 2 ? w->got.halves[i] : w->got.bytes[i];
}

static void complain(worker *w, const struct variant *v, const char *row, float x, uint32_t got, uint32_t want)
{
    if (w->n_failed++ < 10)
        printf("%s %s%s %s: %08x becomes 0x%x, expected 0x%x\n", fm_number_info(v->type)->name,
               fm_rounding_name(v->rounding), v->saturate ? " saturating" : "", row, fm_bits_of_f32(x), got, want);
}

// One row of the kernel table on w->x[0..n). false: this variant has no kernel.
static bool run_row(worker *w, const fm_number_kernels *k, const struct variant *v, size_t n)
{
    const fm_number_format *f = fm_number_info(v->type);
    if (v->type == FM_TF32) {
        k->tf32_from_f32(n, w->x, w->got.words, v->rounding, v->saturate);
        return true;
    }
    if (v->rounding != FM_ROUND_NEAREST_EVEN || v->type == FM_E8M0)
        return false;
    if (f->is_integer) {
        k->int_from_f32(n, w->x, w->got.bytes, (float)f->lowest, (float)f->max_finite, (1u << f->bits) - 1);
    } else if (v->type == FM_FP16) {
        k->f16_from_f32(n, w->x, w->got.halves, v->saturate, false);
    } else if (v->type == FM_BF16) {
        k->bf16_from_f32(n, w->x, w->got.halves, v->saturate, false);
    } else {
        fm_small s;
        fm_small_init(&s, f, v->saturate);
        k->small_from_f32(&s, n, w->x, w->got.bytes, false);
    }
    return true;
}

// w->x and w->want hold n elements. `definition_every`: how many of them the definition, too, is asked about.
static void compare(worker *w, const struct variant *v, size_t n, size_t definition_every)
{
    const fm_number_format *f = fm_number_info(v->type);
    const fm_encoding how = {.rounding = v->rounding, .saturate = v->saturate};
    for (size_t i = 0; i < n; i++) {
        if (f->storage_bytes == 4)
            w->narrow.words[i] = w->want[i];
        else if (f->storage_bytes == 2)
            w->narrow.halves[i] = (uint16_t)w->want[i];
        else
            w->narrow.bytes[i] = (uint8_t)w->want[i];
    }
    for (fm_cpu_level level = FM_CPU_SCALAR; level <= FM_CPU_AVX512; level++) {
        const fm_number_kernels *k = fm_number_kernels_at(level);
        if (!k || !run_row(w, k, v, n) || !memcmp(&w->got, &w->narrow, n * f->storage_bytes))
            continue;
        for (size_t i = 0; i < n; i++)
            if (got_at(w, f, i) != w->want[i])
                complain(w, v, k->name, w->x[i], got_at(w, f, i), w->want[i]);
    }
    for (size_t i = 0; i < n; i += definition_every) {
        uint32_t got = fm_number_encode(v->type, w->x[i], &how);
        if (got != w->want[i])
            complain(w, v, "definition", w->x[i], got, w->want[i]);
    }
    w->n_inputs += n;
}

// Both sides of every boundary, signs included.
static void compare_edges(worker *w, const ladder *l, bool negative)
{
    size_t n = 0;
    for (uint32_t c = 0; c < l->n_codes; c++) {
        for (int side = 0; side < 2; side++) {
            if (l->last[c] == UINT32_MAX)
                continue;
            uint32_t at = 0, magnitude = l->last[c] + (uint32_t)side;
            if (c > 2)
                at = c - 2; // the walk need not start from zero
            w->x[n] = fm_f32_of_bits(magnitude | (uint32_t)negative << 31);
            w->want[n++] = walk(l, negative, magnitude, &at);
        }
        if (n + 2 > CHUNK || c + 1 == l->n_codes) {
            compare(w, l->v, n, 1);
            n = 0;
        }
    }
}

// This thread's share of the patterns of one sign.
static void compare_range(worker *w, const ladder *l, bool negative, uint32_t stride)
{
    const uint64_t end = UINT64_C(1) << 31, step = (uint64_t)CHUNK * stride;
    uint32_t at = 0;
    for (uint64_t base = w->thread * step; base < end; base += w->n_threads * step) {
        size_t n = 0;
        for (uint64_t magnitude = base; n < CHUNK && magnitude < end; magnitude += stride, n++) {
            w->x[n] = fm_f32_of_bits((uint32_t)magnitude | (uint32_t)negative << 31);
            w->want[n] = walk(l, negative, (uint32_t)magnitude, &at);
        }
        compare(w, l->v, n, stride == 1 ? DEFINITION_EVERY : 1);
    }
}

static void *work(void *opaque)
{
    worker *w = opaque;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        for (int negative = 0; negative < 2; negative++) {
            ladder l;
            if (!make_ladder(&variants[i], negative, &l)) {
                printf("out of memory\n");
                w->n_failed++;
                return NULL;
            }
            if (!w->thread)
                compare_edges(w, &l, negative);
            compare_range(w, &l, negative, w->all && variants[i].whole ? 1 : STRIDE);
            free(l.last);
        }
        if (w->all && !w->thread) {
            printf("%s %s%s\n", fm_number_info(variants[i].type)->name, fm_rounding_name(variants[i].rounding),
                   variants[i].saturate ? " saturating" : "");
            fflush(stdout);
        }
    }
    return NULL;
}

// Codes of 16 bits or fewer come back when decoded and encoded again (NaN as NaN).
static uint64_t round_trips(void)
{
    uint64_t n_failed = 0;
    for (unsigned type = 0; type < FM_N_NUMBERS; type++) {
        const fm_number_format *f = fm_number_info((fm_number)type);
        if (f->bits > 16)
            continue;
        for (uint32_t code = 0; code < 1u << f->bits; code++) {
            float x = fm_number_decode(f->type, code);
            uint32_t back = fm_number_encode(f->type, x, &(fm_encoding){0});
            bool same = x == x ? back == code : fm_number_decode(f->type, back) != fm_number_decode(f->type, back);
            if (!same && n_failed++ < 10)
                printf("%s: code 0x%x decodes to %a and comes back as 0x%x\n", f->name, code, (double)x, back);
        }
    }
    return n_failed;
}

static void say_rows(void)
{
    for (fm_cpu_level level = FM_CPU_SCALAR; level <= FM_CPU_AVX512; level++)
        printf("%s %s\n", fm_number_kernels_at(level) ? "row" : "skipped: this machine cannot run",
               fm_cpu_level_name(level));
}

int main(int argc, char **argv)
{
    const char *asked = getenv("FLOODMARK_EXHAUSTIVE");
    bool all = asked && !strcmp(asked, "1");
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned n_threads = n_processors < 1 ? 1 : n_processors > MAX_THREADS ? MAX_THREADS : (unsigned)n_processors;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--all")) {
            all = true;
        } else if (!strcmp(argv[i], "--threads") && i + 1 < argc) {
            n_threads = (unsigned)strtoul(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--all] [--threads N]\n", argv[0]);
            return 2;
        }
    }
    if (!n_threads || n_threads > MAX_THREADS) {
        fprintf(stderr, "--threads: 1 to %d\n", MAX_THREADS);
        return 2;
    }
    say_rows();
    uint64_t n_failed = round_trips(), n_inputs = 0;
    worker *workers = calloc(n_threads, sizeof *workers);
    pthread_t threads[MAX_THREADS];
    if (!workers)
        return 1;
    for (unsigned t = 0; t < n_threads; t++) {
        workers[t].all = all;
        workers[t].thread = t;
        workers[t].n_threads = n_threads;
        if (pthread_create(&threads[t], NULL, work, &workers[t]))
            return 1;
    }
    for (unsigned t = 0; t < n_threads; t++) {
        pthread_join(threads[t], NULL);
        n_failed += workers[t].n_failed;
        n_inputs += workers[t].n_inputs;
    }
    free(workers);
    printf("%llu inputs in %d variants, %llu failed\n", (unsigned long long)n_inputs, (int)N_VARIANTS,
           (unsigned long long)n_failed);
    return n_failed != 0;
}
