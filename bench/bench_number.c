// Conversions of arrays from memory: GB/s of bytes read plus bytes written, on one thread, beside what the memory itself
// does in the same run (copy, read, store). Each figure is the best of several passes over arrays that fit no cache;
// `of_copy` is the share of copy bandwidth, `of_store` the share of store bandwidth (for decoding).
//   bench_number [MiB of fp32, default 256]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "floodmark/convert.h"
#include "number/kernels.h"

enum { PASSES = 7 };

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

static double best_seconds(pass *run, const arrays *a, fm_number type, const fm_encoding *how,
                           fm_convert_counts *counts)
{
    double best = 1e9;
    for (int i = 0; i < PASSES; i++) {
        double begin = now();
        run(a, type, how, counts);
        double took = now() - begin;
        best = took < best ? took : best;
    }
    return best;
}

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

static double line(const char *what, fm_number type, const char *variant, double bytes, double seconds,
                   double copy_rate, double store_rate)
{
    double rate = bytes / seconds * 1e-9;
    printf("{\"bench\":\"number\",\"what\":\"%s\",\"type\":\"%s\",\"variant\":\"%s\",\"kernels\":\"%s\",\"threads\":1,"
           "\"gb_per_s\":%.2f,\"of_copy\":%.3f,\"of_store\":%.3f}\n",
           what, fm_number_info(type)->name, variant, fm_number_kernel(), rate, copy_rate > 0 ? rate / copy_rate : 1,
           store_rate > 0 ? rate / store_rate : 1);
    fflush(stdout);
    return rate;
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
    const double n = (double)a.n;
    static const fm_encoding plain, saturating = {.saturate = true}, stochastic = {.rounding = FM_ROUND_STOCHASTIC};
    double copy_rate = line("copy", FM_FP32, "memcpy", 8 * n, best_seconds(copy, &a, FM_FP32, NULL, NULL), 0, 0);
    double store_rate =
        line("store", FM_FP32, "memset", 4 * n, best_seconds(store, &a, FM_FP32, NULL, NULL), copy_rate, 0);
    line("read", FM_FP32, "extent", 4 * n, best_seconds(read_all, &a, FM_FP32, NULL, NULL), copy_rate, store_rate);

    static const fm_number types[] = {FM_FP16,     FM_BF16,         FM_FP8_E4M3,     FM_FP8_E5M2,
                                      FM_FP4_E2M1, FM_FP8_E4M3FNUZ, FM_FP8_E5M2FNUZ, FM_TF32};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        fm_number t = types[i];
        double moved = (4 + fm_number_info(t)->storage_bytes) * n;
        fm_convert_counts counts = {0};
        line("encode", t, "rne", moved, best_seconds(encode, &a, t, &plain, NULL), copy_rate, store_rate);
        line("encode", t, "saturating", moved, best_seconds(encode, &a, t, &saturating, NULL), copy_rate, store_rate);
        line("encode", t, "counted", moved, best_seconds(encode, &a, t, &plain, &counts), copy_rate, store_rate);
        if (t != FM_TF32)
            line("encode", t, "stochastic", moved, best_seconds(encode, &a, t, &stochastic, NULL), copy_rate,
                 store_rate);
        encode(&a, t, &plain, NULL);
        line("decode", t, "", moved, best_seconds(decode, &a, t, &plain, NULL), copy_rate, store_rate);
    }
    encode(&a, FM_BF16, &plain, NULL);
    line("from bf16", FM_FP8_E4M3, "rne", 3 * n, best_seconds(from_bf16, &a, FM_FP8_E4M3, &plain, NULL), copy_rate,
         store_rate);
    line("from bf16", FM_FP16, "rne", 4 * n, best_seconds(from_bf16, &a, FM_FP16, &plain, NULL), copy_rate, store_rate);
    return 0;
}
