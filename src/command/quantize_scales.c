// What must be known before the first code: passes over the tensor for scales that its tiles share, and what a layout
// holds besides codes and scales.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "command/quantize_run.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static fm_status absmax_tile(void *context, uint64_t tile, unsigned index, fm_err *err)
{
    fm_run *r = context;
    fm_worker *w = r->workers + index;
    uint64_t ignored = 0;
    fm_place p = fm_tile_place(&r->cut, tile);
    fm_status status = fm_tile_load(r, w, &p, &ignored, err);
    float max = 0;
    for (uint64_t i = 0; !status && i < p.n; i++) {
        float a = fabsf(w->x[i]);
        max = a > max && a < INFINITY ? a : max;
    }
    r->tile_max[tile] = max;
    return status;
}

static fm_status scale_sum_tile(void *context, uint64_t tile, unsigned index, fm_err *err)
{
    fm_run *r = context;
    fm_worker *w = r->workers + index;
    const fm_scheme *s = &r->job->target.scheme;
    uint64_t ignored = 0, gr, gc;
    fm_place p = fm_tile_place(&r->cut, tile);
    fm_status status = fm_tile_load(r, w, &p, &ignored, err);
    if (status)
        return status;
    fm_tile_soften(w->x, p.n, w->scratch);
    if ((status = fm_quantize_calibrate(s, p.rows, p.cols, p.cols, w->x, NULL, 1, w->scales, err)))
        return status;
    fm_scheme_groups(s, p.rows, p.cols, &gr, &gc);
    uint64_t before = fm_groups_before(r, &p);
    for (uint64_t i = 0; i < gr * gc; i += 256) {
        double sum = 0;
        fm_scales_sum(smaller(256, gr * gc - i), w->scales + i, &sum);
        r->block_sums[(before + i) / 256] = sum;
    }
    return FM_OK;
}

// ---- scales of more than fits in memory ----

// Feeds rows [row, row + rows) of columns [col, col + cols) once, as many values at a time as a tile has.
static fm_status feed(fm_run *r, fm_worker *w, fm_calibrator *c, fm_place all, fm_err *err)
{
    uint64_t most = r->cut.tile_rows * r->cut.tile_cols;
    uint64_t rows = most / all.cols ? most / all.cols : 1, cols = smaller(most, all.cols);
    fm_status status = FM_OK;
    for (uint64_t row = all.row; row < all.row + all.rows && !status; row += rows)
        for (uint64_t col = all.col; col < all.col + all.cols && !status; col += cols) {
            fm_place p = {.row = row, .col = col, .first = row * r->cut.cols + col};
            uint64_t ignored = 0;
            p.rows = smaller(rows, all.row + all.rows - row);
            p.cols = smaller(cols, all.col + all.cols - col);
            p.n = p.rows * p.cols;
            if ((status = fm_tile_load(r, w, &p, &ignored, err)))
                break;
            fm_tile_soften(w->x, p.n, w->scratch);
            if (p.cols == all.cols)
                fm_calibrator_feed(c, w->x, p.rows, p.cols);
            else
                fm_calibrator_feed_part(c, w->x, p.n);
        }
    return status;
}

// s: tensor (the place has one scale) or column (one each).
static fm_status calibrate_place(fm_run *r, fm_worker *w, const fm_scheme *s, fm_place all, fm_group_scale *scales,
                                 fm_err *err)
{
    fm_calibrator *c;
    const float *weights = r->weights ? r->weights + all.col : NULL;
    fm_status status = fm_calibrator_create(s, all.rows, all.cols, weights, 1, &c, err);
    if (status)
        return status;
    do
        status = feed(r, w, c, all, err);
    while (!status && fm_calibrator_next(c));
    if (!status)
        fm_calibrator_finish(c, scales);
    fm_calibrator_destroy(c);
    return status;
}

static fm_status calibrate_row(void *context, uint64_t row, unsigned index, fm_err *err)
{
    fm_run *r = context;
    fm_scheme s = r->job->target.scheme;
    s.granularity = FM_GRANULARITY_TENSOR; // of a matrix of one row
    fm_place p = {.row = row, .rows = 1, .cols = r->job->cols};
    return calibrate_place(r, r->workers + index, &s, p, r->scales + row, err);
}

static fm_status calibrate_columns(fm_run *r, uint64_t first_col, uint64_t n_cols, fm_err *err)
{
    enum { COLUMNS_AT_ONCE = 4096 }; // searches hold much of each
    const fm_scheme *s = &r->job->target.scheme;
    uint64_t step = r->cut.tile_rows * r->cut.tile_cols; // whole rows of a range of columns
    step = s->calibration == FM_CALIBRATION_ABSMAX ? step : smaller(step, COLUMNS_AT_ONCE);
    fm_status status = FM_OK;
    for (uint64_t at = 0; at < n_cols && !status; at += step) {
        fm_place p = {.col = first_col + at, .rows = r->job->rows, .cols = smaller(step, n_cols - at)};
        status = calibrate_place(r, r->workers, s, p, r->scales + at, err);
    }
    return status;
}

// Scales of the whole tensor, of columns (those of the strip at hand), of rows that are cut.
static fm_status prepare_long(fm_run *r, fm_err *err)
{
    const fm_job *j = r->job;
    const fm_scheme *s = &j->target.scheme;
    fm_cut *c = &r->cut;
    uint64_t width = c->strip_cols ? c->strip_cols : j->cols;
    r->n_scales = s->granularity == FM_GRANULARITY_COLUMN ? width : s->granularity == FM_GRANULARITY_ROW ? j->rows : 1;
    r->n_scales = j->rows && j->cols ? r->n_scales : 0;
    r->scales = fm_calloc(r->n_scales + 1, sizeof *r->scales);
    if (!r->scales)
        return fm_fail_memory(err, "scales");
    fm_status status = FM_OK;
    fm_place all = {.rows = j->rows, .cols = j->cols};
    if (r->n_scales && s->granularity == FM_GRANULARITY_COLUMN)
        status = calibrate_columns(r, c->first_col, width, err);
    else if (r->n_scales && s->granularity == FM_GRANULARITY_ROW)
        status = fm_pool_run(r->pool, j->rows, calibrate_row, r, err);
    else if (r->n_scales)
        status = calibrate_place(r, r->workers, s, all, r->scales, err);
    if (!status)
        status = fm_scales_write(r, r->workers, r->scales, r->n_scales, c->first_col, err);
    enum { ROWS_AT_ONCE = 4096 };
    for (uint64_t i = 0; i < r->n_scales && !status && s->asymmetric && j->layout != FM_LAYOUT_OWN; i += ROWS_AT_ONCE)
        status = fm_zeros_write(r, r->workers, r->scales + i, smaller(ROWS_AT_ONCE, r->n_scales - i), 1, i, 0, err);
    return status;
}

static fm_status prepare_nvfp4(fm_run *r, fm_err *err)
{
    float max = 0;
    r->tile_max = fm_alloc_array(r->cut.n_tiles + 1, sizeof *r->tile_max);
    if (!r->tile_max)
        return fm_fail_memory(err, "tiles");
    fm_status status = fm_pool_run(r->pool, r->cut.n_tiles, absmax_tile, r, err);
    for (uint64_t i = 0; i < r->cut.n_tiles && !status; i++)
        max = r->tile_max[i] > max ? r->tile_max[i] : max;
    r->tensor.global = fm_nvfp4_global(&r->job->target.scheme, max);
    return status ? status : fm_part_write(r, FM_PART_GLOBAL, 0, &r->tensor.global, 4, err);
}

static fm_status prepare_double(fm_run *r, fm_err *err)
{
    uint64_t gr, gc;
    fm_scheme_groups(&r->job->target.scheme, r->cut.rows, r->cut.cols, &gr, &gc);
    uint64_t n = divide_up(gr * gc, 256);
    r->block_sums = fm_calloc(n + 1, sizeof *r->block_sums);
    if (!r->block_sums)
        return fm_fail_memory(err, "scales");
    fm_status status = fm_pool_run(r->pool, r->cut.n_tiles, scale_sum_tile, r, err);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += r->block_sums[i];
    r->tensor.offset = fm_scales_mean(sum, gr * gc);
    if (!status && r->job->layout == FM_LAYOUT_OWN)
        status = fm_part_write(r, FM_PART_GLOBAL, 0, &r->tensor.offset, 4, err);
    return status;
}

// What a layout holds besides codes and scales.
static fm_status write_constants(fm_run *r, fm_err *err)
{
    const fm_job *j = r->job;
    float table[256];
    fm_status status = FM_OK;
    if (j->part[FM_PART_SHAPE] != SIZE_MAX) {
        int64_t shape[2] = {(int64_t)j->rows, (int64_t)j->cols};
        status = fm_part_write(r, FM_PART_SHAPE, 0, shape, sizeof shape, err);
    }
    if (!status && j->part[FM_PART_TABLE] != SIZE_MAX && !(status = fm_grid_values(j->target.scheme.grid, table, err)))
        status = fm_part_write(r, FM_PART_TABLE, 0, table, 16 * 4, err);
    if (!status && j->part[FM_PART_TABLE2] != SIZE_MAX && !(status = fm_grid_values(FM_GRID_DYNAMIC8, table, err)))
        status = fm_part_write(r, FM_PART_TABLE2, 0, table, 256 * 4, err);
    if (!status && j->state) {
        size_t n = strlen(j->state);
        char *hole = strstr(j->state, "\"@\"");
        if (hole) { // the offset is known now; the blanks at the end give way
            char tail[64];
            int m = snprintf(tail, sizeof tail, "%.9g}", (double)r->tensor.offset);
            memset(hole, ' ', n - (size_t)(hole - j->state));
            memcpy(hole, tail, (size_t)m);
        }
        status = fm_part_write(r, FM_PART_STATE, 0, j->state, n, err);
    }
    return status;
}

static bool scales_come_first(const fm_run *r)
{
    fm_granularity g = r->job->target.scheme.granularity;
    return g == FM_GRANULARITY_TENSOR || g == FM_GRANULARITY_COLUMN || (g == FM_GRANULARITY_ROW && r->cut.pieces);
}

fm_status fm_scales_prepare(fm_run *r, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    fm_status status = FM_OK;
    if (s->scale == FM_SCALE_E4M3)
        status = prepare_nvfp4(r, err);
    else if (s->scale == FM_SCALE_DOUBLE)
        status = prepare_double(r, err);
    if (!status && scales_come_first(r))
        status = prepare_long(r, err);
    return status || r->cut.first_col ? status : write_constants(r, err);
}
