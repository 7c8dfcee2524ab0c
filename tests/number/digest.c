// Prints a hash of the bytes that every conversion makes of fixed inputs, one line a conversion: same_bytes compares
// them between compilers, optimisation levels and rows of the kernel table.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floodmark/convert.h"
#include "number/inline.h"

enum { N = 300007 };

static uint64_t hash(const void *bytes, size_t n) // FNV-1a, 64 bits
{
    const unsigned char *p = bytes;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

// Every exponent, ties and their neighbours of all narrow formats, subnormals, infinities, NaN payloads.
static void fill(size_t n, float *x)
{
    uint64_t s = 20261129;
    for (size_t i = 0; i < n; i++) {
        s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t u = (uint32_t)(s >> 32);
        if (i % 2)
            u = (u & ~((UINT32_C(1) << (12 + i % 11)) - 1)) + (uint32_t)(i % 3) - 1;
        if (i % 5 == 0)
            u = (u & 0x807fffff) | (105 + (u >> 23) % 40) << 23;
        x[i] = fm_f32_of_bits(u);
    }
}

int main(void)
{
    float *x = malloc(N * sizeof *x), *back = malloc(N * sizeof *back);
    double *wide = malloc(N * sizeof *wide);
    char *out = malloc(N * sizeof(double));
    if (!x || !back || !wide || !out)
        return 1;
    fill(N, x);
    for (size_t i = 0; i < N; i++)
        wide[i] = (double)x[i] * (1 + 0x1p-30);
    static const fm_encoding ways[] = {{0},
                                       {.saturate = true},
                                       {.rounding = FM_ROUND_NEAREST_AWAY},
                                       {.rounding = FM_ROUND_ZERO},
                                       {.rounding = FM_ROUND_AWAY},
                                       {.rounding = FM_ROUND_STOCHASTIC, .seed = 77, .counter = 5}};
    for (unsigned t = FM_TF32; t < FM_N_NUMBERS; t++) {
        const fm_number_format *f = fm_number_info((fm_number)t);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            fm_convert_counts c = {0};
            fm_encode_f32(f->type, &ways[w], N, x, out, &c);
            printf("%s %s%s %016" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", f->name,
                   fm_rounding_name(ways[w].rounding), ways[w].saturate ? " saturating" : "",
                   hash(out, N * f->storage_bytes), c.nan, c.infinite, c.overflowed, c.saturated, c.zeroed);
            fm_convert(FM_FP64, f->type, &ways[w], N, wide, out, NULL);
            printf("%s from fp64 %016" PRIx64 "\n", f->name, hash(out, N * f->storage_bytes));
        }
        fm_decode_f32(f->type, N, out, back);
        printf("%s decoded %016" PRIx64 "\n", f->name, hash(back, N * sizeof *back));
    }
    fprintf(stderr, "%s\n", fm_number_kernel());
    free(x);
    free(back);
    free(wide);
    free(out);
    return 0;
}
