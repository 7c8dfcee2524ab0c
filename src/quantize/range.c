#include "quantize/range.h"
#include <math.h>
#include <string.h>
#include "floodmark/calibrate.h"

static uint32_t key_of(const fm_scheme *s, float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    if (!s->asymmetric)
        return u & 0x7fffffff;
    return (uint32_t)fm_key_of_bits((int32_t)u) ^ 0x80000000u;
}

static float value_of(const fm_scheme *s, uint32_t key)
{
    if (s->asymmetric)
        return fm_float_of_key((int32_t)(key ^ 0x80000000u));
    float x;
    memcpy(&x, &key, 4);
    return x;
}

static int n_selects(const fm_scheme *s)
{
    return s->asymmetric ? FM_SELECTS_ASYMMETRIC : FM_SELECTS_SYMMETRIC;
}

// Where percentile p of n values lies between ranks *below and *below + 1, as numpy's default method has it.
static double position(double p, uint64_t n, uint64_t *below)
{
    double at = (double)(n - 1) * (p / 100);
    *below = (uint64_t)at;
    return at - (double)*below;
}

static void init_pair(double p, uint64_t n, fm_select *pair)
{
    uint64_t below;
    position(p, n, &below);
    memset(pair, 0, 2 * sizeof *pair);
    pair[0].rank = below;
    pair[1].rank = below + 1 < n ? below + 1 : n - 1;
}

static double interpolate(const fm_scheme *s, double p, uint64_t n, const fm_select *pair)
{
    uint64_t below;
    double t = position(p, n, &below), a = value_of(s, pair[0].prefix), b = value_of(s, pair[1].prefix), d = b - a;
    return t >= 0.5 ? b - d * (1 - t) : a + d * t;
}

void fm_selects_init(const fm_scheme *s, uint64_t n, fm_select *selects)
{
    if (s->asymmetric)
        init_pair(100 - s->percentile, n, selects + 2);
    init_pair(s->percentile, n, selects);
}

void fm_selects_feed(const fm_scheme *s, fm_select *selects, int pass, size_t n, const float *x)
{
    int shift = 24 - 8 * pass, count = n_selects(s);
    for (int i = 0; i < count; i++) {
        fm_select *sel = selects + i;
        if (pass == 0)
            for (size_t j = 0; j < n; j++)
                sel->count[key_of(s, x[j]) >> 24]++;
        else
            for (size_t j = 0; j < n; j++) {
                uint32_t key = key_of(s, x[j]);
                sel->count[key >> shift & 255] += key >> (shift + 8) == sel->prefix;
            }
    }
}

void fm_selects_next(const fm_scheme *s, fm_select *selects, int pass)
{
    (void)pass;
    for (int i = 0; i < n_selects(s); i++) {
        fm_select *sel = selects + i;
        uint32_t bucket = 0;
        while (bucket < 255 && sel->rank >= sel->count[bucket])
            sel->rank -= sel->count[bucket++];
        sel->prefix = sel->prefix << 8 | bucket;
        memset(sel->count, 0, sizeof sel->count);
    }
}

void fm_selects_range(const fm_scheme *s, uint64_t n, const fm_select *selects, float *lo, float *hi)
{
    *hi = (float)interpolate(s, s->percentile, n, selects);
    *lo = s->asymmetric ? (float)interpolate(s, 100 - s->percentile, n, selects + 2) : -*hi;
}

void fm_kl_feed(uint64_t *bins, float a, size_t n, const float *x)
{
    double per_unit = FM_KL_BINS / (double)a;
    if (!(a > 0))
        return;
    for (size_t i = 0; i < n; i++) {
        double at = fabs((double)x[i]) * per_unit;
        bins[at < FM_KL_BINS - 1 ? (int)at : FM_KL_BINS - 1]++;
    }
}

// P log(P/Q) of one run of bins that decode alike. mass: in its n bins; beyond: what the run's last bin takes over.
static double run_divergence(const uint64_t *bins, int n, uint64_t beyond, double in_range, double total,
                             bool *impossible)
{
    uint64_t mass = 0;
    int occupied = 0;
    for (int i = 0; i < n; i++) {
        mass += bins[i];
        occupied += bins[i] > 0;
    }
    double sum = 0, q = occupied ? (double)mass / occupied / in_range : 0;
    for (int i = 0; i < n; i++) {
        double p = (double)(bins[i] + (i == n - 1 ? beyond : 0)) / total;
        if (p == 0)
            continue;
        if (bins[i] == 0)
            *impossible = true; // only outliers here: Q has no mass where P has
        else
            sum += p * fm_log(p / q);
    }
    return sum;
}

static double divergence(const fm_grid_desc *g, const uint64_t *bins, int n_bins, float scale, float a,
                         bool *impossible)
{
    float middle[FM_KL_BINS];
    uint8_t code[FM_KL_BINS];
    uint64_t in_range = 0, beyond = 0;
    for (int i = 0; i < n_bins; i++) {
        middle[i] = (float)((i + 0.5) * ((double)a / FM_KL_BINS));
        in_range += bins[i];
    }
    for (int i = n_bins; i < FM_KL_BINS; i++)
        beyond += bins[i];
    fm_grid_encode(g, (size_t)n_bins, middle, scale, 0, code);
    double sum = 0;
    for (int from = 0, to; from < n_bins; from = to) {
        for (to = from + 1; to < n_bins && code[to] == code[from];)
            to++;
        sum += run_divergence(bins + from, to - from, to == n_bins ? beyond : 0, (double)in_range,
                              (double)(in_range + beyond), impossible);
    }
    return sum;
}

float fm_kl_threshold(const fm_scheme *s, const fm_grid_desc *g, const uint64_t *bins, float a)
{
    float best = a;
    double least = (double)INFINITY;
    if (!(a > 0))
        return a;
    for (int n = FM_KL_FIRST; n <= FM_KL_BINS; n += FM_KL_STEP) {
        float threshold = (float)((double)a * n / FM_KL_BINS);
        float scale = fm_scale_of_range(s, g, -threshold, threshold, 1).scale;
        bool impossible = false;
        double d = divergence(g, bins, n, scale, a, &impossible);
        if (!impossible && d < least) {
            least = d;
            best = threshold;
        }
    }
    return best;
}
