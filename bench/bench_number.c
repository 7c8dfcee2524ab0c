// Conversions of arrays from memory: GB/s of bytes read plus bytes written, on one thread, over arrays that fit no cache.
// Each figure is the best of several passes, which alternate with passes of memcpy and memset so that all three meet
// the machine in the same mood: `of_copy` is the share of copy bandwidth, `of_store` of store bandwidth.
//   bench_number [MiB of fp32, default 256]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "floodmark/convert.h"
#include "number/kernels.h"

enum { PASSES = 5 };

typedef struct {
    size_t n;    // elements
    float *x;    // [n]
    float *y;    // [n]
    void *codes; // [n] of up to 4 bytes
} arrays;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef void pass(const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts);

static void copy(const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts)
{
    (void)type, (void)how, (void)counts;
    memcpy(a->y, a->x, a->n * sizeof *a->x);
}

static void store(const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts)
{
    (void)type, (void)how, (void)counts;
    memset(a->y, 1, a->n * sizeof *a->y);
}

static volatile uint32_t sink; // keeps what is read

static void read_all(const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts)
{
    (void)type, (void)how, (void)counts;
    uint32_t most, least;
    fm_extent_f32(a->n, a->x, &most, &least);
    sink = most + least;
}

static void encode(const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts)
{
    fm_encode_f32(type, how, a->n, a->x, a->codes, counts);
}

static void decode(const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts)
{
    (void)how, (void)counts;
    fm_decode_f32(type, a->n, a->codes, a->y);
}

static void from_bf16(const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts)
{
    fm_convert(FM_BF16, type, how, a->n, a->codes, a->y, counts);
}

static double seconds_of(pass *run, const arrays *a, fm_number type, const fm_encoding *how, fm_convert_counts *counts)
{
    double begin = now();
    run(a, type, how, counts);
    return now() - begin;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

// `bytes`: read and written by one element.
static void measure(const char *what, const char *variant, pass *run, unsigned bytes, const arrays *a, fm_number type,
                    const fm_encoding *how, fm_convert_counts *counts)
{
    double best = 1e9, copying = 1e9, storing = 1e9, n = (double)a->n;
    for (int i = 0; i < PASSES; i++) {
        copying = least(copying, seconds_of(copy, a, type, how, counts));
        best = least(best, seconds_of(run, a, type, how, counts));
        storing = least(storing, seconds_of(store, a, type, how, counts));
    }
    double rate = bytes * n / best, copy_rate = 8 * n / copying, store_rate = 4 * n / storing;
    printf("{\"bench\":\"number\",\"what\":\"%s\",\"type\":\"%s\",\"variant\":\"%s\",\"kernels\":\"%s\",\"threads\":1,"
           "\"gb_per_s\":%.2f,\"of_copy\":%.3f,\"of_store\":%.3f,\"copy_gb_per_s\":%.2f,\"store_gb_per_s\":%.2f}\n",
           what, fm_number_info(type)->name, variant, fm_number_kernel(), rate * 1e-9, rate / copy_rate,
           rate / store_rate, copy_rate * 1e-9, store_rate * 1e-9);
    fflush(stdout);
}

static void *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 1, bytes);
    return p;
}

// Weights as a model has them: near zero, bell-shaped (a sum of four uniforms), with nothing to count.
static void fill(const arrays *a)
{
    uint64_t s = 88172645463325252u;
    for (size_t i = 0; i < a->n; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        float sum = (float)(int)(s & 0xffff) + (float)(int)(s >> 16 & 0xffff) - (float)(int)(s >> 32 & 0xffff) -
                    (float)(int)(s >> 48);
        a->x[i] = sum == 0 ? 0x1p-8f : sum * 0x1p-18f;
    }
}

int main(int argc, char **argv)
{
    size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 256;
    arrays a = {.n = (mib ? mib : 1) << 18};
    size_t bytes = a.n * sizeof *a.x;
    a.x = pages(bytes);
    a.y = pages(bytes);
    a.codes = pages(bytes);
    if (!a.x || !a.y || !a.codes) {
        fprintf(stderr, "bench_number: no room for three arrays of %zu MiB\n", mib);
        return 1;
    }
    fill(&a);
    static const fm_encoding plain, saturating = {.saturate = true}, stochastic = {.rounding = FM_ROUND_STOCHASTIC};
    measure("read", "extent", read_all, 4, &a, FM_FP32, &plain, NULL);
    static const fm_number types[] = {FM_FP16,         FM_BF16,         FM_FP8_E4M3, FM_FP8_E5M2, FM_FP4_E2M1,
                                      FM_FP8_E4M3FNUZ, FM_FP8_E5M2FNUZ, FM_TF32,     FM_INT8};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        fm_number t = types[i];
        unsigned moved = 4u + fm_number_info(t)->storage_bytes;
        fm_convert_counts counts = {0};
        measure("encode", "rne", encode, moved, &a, t, &plain, NULL);
        measure("encode", "saturating", encode, moved, &a, t, &saturating, NULL);
        measure("encode", "counted", encode, moved, &a, t, &plain, &counts);
        if (t != FM_TF32 && t != FM_INT8)
            measure("encode", "stochastic", encode, moved, &a, t, &stochastic, NULL);
        encode(&a, t, &plain, NULL);
        if (t != FM_INT8)
            measure("decode", "", decode, moved, &a, t, &plain, NULL);
    }
    encode(&a, FM_BF16, &plain, NULL);
    measure("from bf16", "rne", from_bf16, 3, &a, FM_FP8_E4M3, &plain, NULL);
    measure("from bf16", "rne", from_bf16, 4, &a, FM_FP16, &plain, NULL);
    return 0;
}
