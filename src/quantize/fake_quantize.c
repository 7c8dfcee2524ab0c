#include "floodmark/fake_quantize.h"
#include "base/alloc.h"
#include "quantize/grid.h"

enum { PIECE = 1024 };

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// Walks a matrix in runs of at most PIECE values that share a scale.
typedef struct {
    const fm_scheme *s;
    uint64_t rows, cols, at, group_rows, group_cols, groups_per_row;
} walk;

typedef struct {
    uint64_t first; // index of the first value
    size_t n;
    uint64_t group;
} run;

static walk walk_begin(const fm_scheme *s, uint64_t rows, uint64_t cols)
{
    if (s->granularity == FM_GRANULARITY_FLAT) {
        cols *= rows;
        rows = 1;
    }
    walk w = {.s = s, .rows = rows, .cols = cols, .group_rows = 1, .group_cols = cols};
    if (s->granularity == FM_GRANULARITY_TENSOR || s->granularity == FM_GRANULARITY_COLUMN)
        w.group_rows = rows;
    if (s->granularity == FM_GRANULARITY_COLUMN)
        w.group_cols = 1;
    if (s->granularity == FM_GRANULARITY_TILE)
        w.group_rows = s->block_rows;
    if (s->block_cols)
        w.group_cols = s->block_cols;
    w.groups_per_row = cols / w.group_cols + (cols % w.group_cols != 0);
    return w;
}

static bool walk_next(walk *w, run *r)
{
    if (!w->cols || w->at >= w->rows * w->cols)
        return false;
    uint64_t row = w->at / w->cols, col = w->at % w->cols;
    uint64_t end = smaller(w->cols, (col / w->group_cols + 1) * w->group_cols);
    r->first = w->at;
    r->n = smaller(PIECE, end - col);
    r->group = row / w->group_rows * w->groups_per_row + col / w->group_cols;
    w->at += r->n;
    return true;
}

void fm_fake_quantize(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x, const fm_group_scale *scales,
                      float *out)
{
    if (rows == 0 || cols == 0)
        return;
    fm_grid_desc g = fm_grid_describe(s);
    uint8_t codes[PIECE];
    run r;
    if (s->granularity == FM_GRANULARITY_COLUMN) { // runs of one value would crawl
        for (uint64_t row = 0; row < rows; row++)
            for (uint64_t c = 0; c < cols; c += PIECE) {
                uint64_t n = smaller(PIECE, cols - c), at = row * cols + c;
                fm_quantize_encode(s, 1, n, n, x + at, scales + c, codes);
                fm_quantize_decode(s, 1, n, codes, scales + c, out + at);
            }
        return;
    }
    for (walk w = walk_begin(s, rows, cols); walk_next(&w, &r);) {
        const fm_group_scale *k = scales + r.group;
        fm_grid_encode(&g, r.n, x + r.first, g.kind == FM_GRID_KIND_TABLE ? k->raw_scale : k->scale, k->zero, codes);
        fm_grid_decode(&g, r.n, codes, k->scale, k->zero, out + r.first);
    }
}

// Where the value lies: -1 below the codes, 1 above, 0 within. Compared before anything is clamped.
static int side(const fm_grid_desc *g, float x, float scale, int32_t zero)
{
    float v = x / scale, low = -g->max, high = g->max;
    if (g->kind == FM_GRID_KIND_INTEGER) {
        low = (float)(g->low - zero);
        high = (float)(g->high - zero);
        // far outside, where the trick would not round, no rounding is needed to see it
        v = v > low - 1 ? v : low - 1;
        v = v < high + 1 ? v : high + 1;
        v = (v + 12582912.0f) - 12582912.0f;
    }
    return v < low ? -1 : v > high;
}

void fm_fake_quantize_grad(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x, const float *upstream,
                           const fm_group_scale *scales, float *grad_x)
{
    if (rows == 0 || cols == 0)
        return;
    fm_grid_desc g = fm_grid_describe(s);
    run r;
    for (walk w = walk_begin(s, rows, cols); walk_next(&w, &r);)
        for (uint64_t i = r.first; i < r.first + r.n; i++)
            grad_x[i] = upstream[i] * (float)!side(&g, x[i], scales[r.group].scale, scales[r.group].zero);
}

fm_status fm_fake_quantize_grad_scale(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x,
                                      const float *upstream, const fm_group_scale *scales, double factor,
                                      float *grad_scale, fm_err *err)
{
    fm_grid_desc g = fm_grid_describe(s);
    if (g.kind != FM_GRID_KIND_INTEGER || s->asymmetric)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "a learned step size is for symmetric integers, not %s%s",
                       fm_grid_name(s->grid), s->asymmetric ? " asym" : "");
    uint64_t group_rows, group_cols;
    fm_scheme_groups(s, rows, cols, &group_rows, &group_cols);
    uint64_t n = group_rows * group_cols;
    double *sum = fm_calloc(n, sizeof *sum);
    if (!sum)
        return fm_fail_memory(err, "gradients of scales");
    run r;
    for (walk w = walk_begin(s, rows, cols); walk_next(&w, &r);) {
        float scale = scales[r.group].scale;
        for (uint64_t i = r.first; i < r.first + r.n; i++) {
            int where = side(&g, x[i], scale, 0);
            uint8_t code;
            fm_grid_encode(&g, 1, x + i, scale, 0, &code);
            float q = (float)(int8_t)code;
            sum[r.group] += (double)upstream[i] * (where ? (double)q : (double)((q * scale - x[i]) / scale));
        }
    }
    for (uint64_t i = 0; i < n; i++)
        grad_scale[i] = (float)(sum[i] * factor);
    fm_free(sum);
    return FM_OK;
}
