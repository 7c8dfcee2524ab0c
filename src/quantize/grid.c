#include "quantize/grid.h"
#include <pthread.h>
#include <string.h>
#include "floodmark/number.h"
#include "floodmark/quantize.h"

// nf4: quantiles of the normal distribution, QLoRA (Dettmers et al. 2023), appendix E. Ascending.
static const float nf4_values[16] = {-0x1p+0f,        -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.94654p-2f,
                                     -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0,
                                     0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
                                     0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  0x1p+0f};

// fp4 of bitsandbytes: sign, then 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4 by code.
static const float fp4_values[16] = {
    0, 0x1.555556p-8f,  0x1.555556p-1f,  0x1p+0f,  0x1.555556p-2f,  0x1p-1f,  0x1.555556p-3f,  0x1p-2f,
    0, -0x1.555556p-8f, -0x1.555556p-1f, -0x1p+0f, -0x1.555556p-2f, -0x1p-1f, -0x1.555556p-3f, -0x1p-2f};

// dynamic8: the 128 positive values of the dynamic tree of 8-bit Optimizers (Dettmers et al. 2022): 2^k means of equal
// steps between 0.1 and 1 in the decade 10^(k-6), and 1. The negative ones mirror them, 1 left out; 0 lies between.
static const float dynamic8_positive[128] = {
    0x1.27476ep-21f, 0x1.b43528p-19f, 0x1.040bfep-17f, 0x1.64840cp-16f, 0x1.6f0068p-15f, 0x1.15df66p-14f,
    0x1.743e96p-14f, 0x1.47ae16p-13f, 0x1.19ce0ap-12f, 0x1.8fc506p-12f, 0x1.02de02p-11f, 0x1.3dd982p-11f,
    0x1.78d5p-11f,   0x1.b3d07cp-11f, 0x1.eecbfep-11f, 0x1.4fdf3ap-10f, 0x1.e353f8p-10f, 0x1.3b645ap-9f,
    0x1.851eb8p-9f,  0x1.ced914p-9f,  0x1.0c49bap-8f,  0x1.3126e8p-8f,  0x1.56041ap-8f,  0x1.7ae148p-8f,
    0x1.9fbe76p-8f,  0x1.c49ba6p-8f,  0x1.e978d4p-8f,  0x1.072b02p-7f,  0x1.19999ap-7f,  0x1.2c083p-7f,
    0x1.3e76c8p-7f,  0x1.75c29p-7f,   0x1.d1eb86p-7f,  0x1.170a3ep-6f,  0x1.451ebap-6f,  0x1.733334p-6f,
    0x1.a147aep-6f,  0x1.cf5c2ap-6f,  0x1.fd70a4p-6f,  0x1.15c29p-5f,   0x1.2ccccep-5f,  0x1.43d70ap-5f,
    0x1.5ae146p-5f,  0x1.71eb86p-5f,  0x1.88f5c2p-5f,  0x1.ap-5f,       0x1.b70a3ep-5f,  0x1.ce147ap-5f,
    0x1.e51ebap-5f,  0x1.fc28f6p-5f,  0x1.09999ap-4f,  0x1.151ebap-4f,  0x1.20a3d6p-4f,  0x1.2c28f6p-4f,
    0x1.37ae14p-4f,  0x1.433334p-4f,  0x1.4eb854p-4f,  0x1.5a3d7p-4f,   0x1.65c29p-4f,   0x1.7147aep-4f,
    0x1.7ccccep-4f,  0x1.8851eep-4f,  0x1.93d70ap-4f,  0x1.b66668p-4f,  0x1.fp-4f,       0x1.14ccccp-3f,
    0x1.31999ap-3f,  0x1.4e6666p-3f,  0x1.6b3334p-3f,  0x1.88p-3f,      0x1.a4ccccp-3f,  0x1.c1999ap-3f,
    0x1.de6666p-3f,  0x1.fb3332p-3f,  0x1.0cp-2f,      0x1.1a6668p-2f,  0x1.28ccccp-2f,  0x1.373334p-2f,
    0x1.459998p-2f,  0x1.54p-2f,      0x1.626666p-2f,  0x1.70ccccp-2f,  0x1.7f3334p-2f,  0x1.8d9998p-2f,
    0x1.9cp-2f,      0x1.aa6666p-2f,  0x1.b8ccccp-2f,  0x1.c73334p-2f,  0x1.d59998p-2f,  0x1.e4p-2f,
    0x1.f26664p-2f,  0x1.006666p-1f,  0x1.079998p-1f,  0x1.0eccccp-1f,  0x1.16p-1f,      0x1.1d3334p-1f,
    0x1.246668p-1f,  0x1.2b999ap-1f,  0x1.32ccccp-1f,  0x1.3ap-1f,      0x1.413334p-1f,  0x1.486668p-1f,
    0x1.4f999ap-1f,  0x1.56ccccp-1f,  0x1.5ep-1f,      0x1.653334p-1f,  0x1.6c6668p-1f,  0x1.73999ap-1f,
    0x1.7accccp-1f,  0x1.82p-1f,      0x1.893334p-1f,  0x1.906666p-1f,  0x1.97999ap-1f,  0x1.9eccccp-1f,
    0x1.a6p-1f,      0x1.ad3334p-1f,  0x1.b46666p-1f,  0x1.bb999ap-1f,  0x1.c2ccccp-1f,  0x1.cap-1f,
    0x1.d13334p-1f,  0x1.d86666p-1f,  0x1.df999ap-1f,  0x1.e6ccccp-1f,  0x1.eep-1f,      0x1.f53334p-1f,
    0x1.fc6666p-1f,  0x1p+0f,
};

// Everything that follows from the formats, filled once.
static struct {
    float number[5][256]; // E4M3 E5M2 E2M3 E3M2 E2M1
    float dynamic8[256], dynamic8_cut[255], nf4_cut[15], fp4_cut[15];
    uint8_t identity[256], fp4_rank_code[16];
} tables;

static const fm_number number_of[5] = {FM_FP8_E4M3, FM_FP8_E5M2, FM_FP6_E2M3, FM_FP6_E3M2, FM_FP4_E2M1};

static void fill(void)
{
    for (int f = 0; f < 5; f++) {
        unsigned bits = fm_number_info(number_of[f])->bits;
        for (unsigned code = 0; code < 1u << bits; code++)
            tables.number[f][code] = fm_number_decode(number_of[f], code);
    }
    for (int i = 0; i < 127; i++)
        tables.dynamic8[i] = -dynamic8_positive[126 - i];
    for (int i = 0; i < 128; i++)
        tables.dynamic8[128 + i] = dynamic8_positive[i];
    for (int i = 0; i < 256; i++)
        tables.identity[i] = (uint8_t)i;
    for (int i = 0; i < 255; i++)
        tables.dynamic8_cut[i] = (tables.dynamic8[i] + tables.dynamic8[i + 1]) / 2;
    for (int i = 0; i < 15; i++)
        tables.nf4_cut[i] = (nf4_values[i] + nf4_values[i + 1]) / 2;
    // fp4 by value: 11 10 13 12 15 14 9, then the two zeros, 0 for what lies below and at zero, 8 above it.
    static const uint8_t order[16] = {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3};
    memcpy(tables.fp4_rank_code, order, sizeof order);
    for (int i = 0; i < 15; i++)
        tables.fp4_cut[i] = (fp4_values[order[i]] + fp4_values[order[i + 1]]) / 2;
}

static void fill_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
}

static int exponent_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (int)(u >> 23 & 255) - 127;
}

static void describe_integer(const fm_scheme *s, fm_grid_desc *g)
{
    int half = 1 << (g->bits - 1);
    g->low = s->asymmetric ? 0 : s->full_range ? -half : 1 - half;
    g->high = s->asymmetric ? 2 * half - 1 : half - 1;
    g->is_signed = !s->asymmetric;
    g->max = (float)g->high;
    g->range = s->full_range && !s->asymmetric ? (float)(g->high - g->low) / 2 : g->max;
    g->fraction_bits = (int)g->bits - 2; // what its largest code spans below its leading bit
}

static void describe_float(fm_grid grid, fm_grid_desc *g)
{
    int f = (int)grid - FM_GRID_E4M3;
    const fm_number_format *info = fm_number_info(number_of[f]);
    g->fraction_bits = info->fraction_bits;
    g->exponent_min = 1 - info->bias;
    g->max = g->range = (float)info->max_finite;
    g->values = tables.number[f];
}

static void describe_table(fm_grid grid, fm_grid_desc *g)
{
    g->max = g->range = 1;
    g->n_cuts = grid == FM_GRID_DYNAMIC8 ? 255 : 15;
    g->values = grid == FM_GRID_NF4 ? nf4_values : grid == FM_GRID_FP4 ? fp4_values : tables.dynamic8;
    g->cut = grid == FM_GRID_NF4 ? tables.nf4_cut : grid == FM_GRID_FP4 ? tables.fp4_cut : tables.dynamic8_cut;
    g->rank_code = grid == FM_GRID_FP4 ? tables.fp4_rank_code : tables.identity;
}

fm_grid_desc fm_grid_describe(const fm_scheme *s)
{
    fill_once();
    fm_grid_desc g = {.kind = (int)fm_grid_kind_of(s->grid), .bits = fm_grid_bits(s->grid)};
    if (g.kind == FM_GRID_KIND_INTEGER)
        describe_integer(s, &g);
    else if (g.kind == FM_GRID_KIND_FLOAT)
        describe_float(s->grid, &g);
    else
        describe_table(s->grid, &g);
    g.max_exponent = exponent_of(g.max);
    return g;
}

const float *fm_dynamic8_values(void)
{
    fill_once();
    return tables.dynamic8;
}

fm_status fm_grid_values(fm_grid grid, float *values, fm_err *err)
{
    if (fm_grid_kind_of(grid) == FM_GRID_KIND_INTEGER)
        return fm_fail(err, FM_ERR_VALUE, "%s has no table of values: an integer code is its value",
                       fm_grid_name(grid));
    fm_scheme s = {.grid = grid};
    fm_grid_desc g = fm_grid_describe(&s);
    if (!g.values)
        return fm_fail(err, FM_ERR_INTERNAL, "%s: no table of values", fm_grid_name(grid));
    memcpy(values, g.values, sizeof(float) << g.bits);
    return FM_OK;
}

// The code that stands for zero when there is no scale to divide by.
static uint8_t zero_code(const fm_grid_desc *g, int32_t zero)
{
    if (g->kind == FM_GRID_KIND_INTEGER)
        return (uint8_t)zero;
    if (g->kind == FM_GRID_KIND_FLOAT)
        return 0;
    return g->n_cuts == 255 ? 127 : g->values == nf4_values ? 7 : 0;
}

void fm_grid_encode(const fm_grid_desc *g, size_t n, const float *x, float scale, int32_t zero, uint8_t *codes)
{
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    if (scale == 0)
        memset(codes, zero_code(g, zero), n);
    else if (g->kind == FM_GRID_KIND_INTEGER)
        k->encode_int(g, n, x, scale, zero, codes);
    else if (g->kind == FM_GRID_KIND_FLOAT)
        k->encode_float(g, n, x, scale, codes);
    else
        k->encode_table(g, n, x, scale, codes);
}

void fm_grid_decode(const fm_grid_desc *g, size_t n, const uint8_t *codes, float scale, int32_t zero, float *out)
{
    if (g->kind == FM_GRID_KIND_INTEGER)
        fm_quantize_kernels_chosen()->decode_int(g, n, codes, scale, zero, out);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = g->values[codes[i]] * scale;
}

// Tables have no kernel of their own: a piece at a time goes through the codes. Pieces are a multiple of the lanes, so
// that the order of the sum is the same as the kernels'.
static void table_error(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale, double *a)
{
    enum { PIECE = 512 };
    uint8_t codes[PIECE];
    for (size_t at = 0; at < n; at += PIECE) {
        size_t m = n - at < PIECE ? n - at : PIECE;
        fm_grid_encode(g, m, x + at, scale, 0, codes);
        for (size_t i = 0; i < m; i++) {
            double e = x[at + i] - g->values[codes[i]] * scale;
            a[i % FM_QUANTIZE_LANES] += weights ? e * e * weights[at + i] : e * e;
        }
    }
}

void fm_grid_error_add(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale, int32_t zero,
                       double *lanes)
{
    const fm_quantize_kernels *k = fm_quantize_kernels_chosen();
    if (g->kind == FM_GRID_KIND_INTEGER)
        k->error_int(g, n, x, weights, scale, zero, lanes);
    else if (g->kind == FM_GRID_KIND_FLOAT)
        k->error_float(g, n, x, weights, scale, lanes);
    else
        table_error(g, n, x, weights, scale, lanes);
}

double fm_grid_error_total(const double *a)
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

double fm_grid_error(const fm_grid_desc *g, size_t n, const float *x, const float *weights, float scale, int32_t zero)
{
    double lanes[FM_QUANTIZE_LANES] = {0};
    fm_grid_error_add(g, n, x, weights, scale, zero, lanes);
    return fm_grid_error_total(lanes);
}
