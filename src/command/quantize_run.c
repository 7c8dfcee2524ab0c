// The work: tensor after tensor, tile after tile. A tile is read, decoded, encoded, measured and written by one worker;
// while one waits for the disk the others work, and the next tile is announced to the kernel beforehand. Tiles are cut by
// the tensor's shape alone, so any number of threads gives the same bytes and figures.
#include "command/quantize_run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"

enum {
    COLUMNS_AT_ONCE = 4096,
    MEMORY_BYTES = 160 << 20, // of all workers' tiles
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

// ---- cutting ----

static bool whole_tensor_scales(const fm_job *j)
{
    return j->target.kind == FM_JOB_SCHEME && (j->target.scheme.granularity == FM_GRANULARITY_TENSOR ||
                                               j->target.scheme.granularity == FM_GRANULARITY_COLUMN);
}

static fm_cut cut_flat(uint64_t n, uint64_t unit)
{
    uint64_t tile = unit * (FM_TILE_ELEMS / unit ? FM_TILE_ELEMS / unit : 1);
    uint64_t n_tiles = divide_up(n, tile);
    return (fm_cut){1, n, 1, tile, n_tiles, n_tiles};
}

static fm_cut cut_rows(uint64_t rows, uint64_t cols, uint64_t unit)
{
    uint64_t tile = cols ? FM_TILE_ELEMS / cols / unit * unit : unit;
    tile = tile ? tile : unit;
    return (fm_cut){rows, cols, tile, cols, divide_up(rows, tile), 1};
}

// Whole blocks whose codes fill whole bytes, and with double scales whole blocks of scales.
static uint64_t flat_unit(const fm_scheme *s)
{
    if (s->scale == FM_SCALE_DOUBLE)
        return (uint64_t)s->block_cols * 256;
    return (uint64_t)s->block_cols * (s->block_cols * fm_grid_bits(s->grid) % 8 ? 8 : 1);
}

static uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static fm_cut cut_job(const fm_job *j, bool weighted, uint64_t n_mats)
{
    const fm_scheme *s = &j->target.scheme;
    if (j->target.kind == FM_JOB_SCHEME && s->granularity == FM_GRANULARITY_FLAT)
        // a tile begins with a block of the input's, too
        return cut_flat(j->in->n_elems, common_multiple(flat_unit(s), fm_tensor_type_of(j->in->type)->block_elems));
    if (j->target.kind == FM_JOB_SCHEME) {
        bool packs_zeros = s->asymmetric && j->layout == FM_LAYOUT_COMPRESSED_TENSORS;
        fm_cut c = cut_rows(j->rows, j->cols,
                            s->granularity == FM_GRANULARITY_TILE ? s->block_rows
                            : packs_zeros                         ? 32
                                                                  : 1);
        return c;
    }
    if (j->target.kind == FM_JOB_BLOCKS && weighted) {
        // a tile must not reach into the next matrix of weights
        uint64_t rows_a_mat = n_mats ? j->rows / n_mats : j->rows;
        fm_cut c = cut_rows(j->rows, j->cols, 1);
        while (rows_a_mat % c.tile_rows)
            c.tile_rows--;
        c.n_tiles = divide_up(c.rows, c.tile_rows);
        return c;
    }
    return cut_flat(j->in->n_elems, 256);
}

// ---- what must be known before the first code ----

static fm_status absmax_tile(void *context, uint64_t tile, unsigned index, fm_err *err)
{
    fm_run *r = context;
    fm_worker *w = r->workers + index;
    uint64_t first, rows, cols, ignored = 0;
    fm_tile_place(&r->cut, tile, &first, &rows, &cols);
    fm_status status = fm_tile_load(r, w, first, rows * cols, &ignored, err);
    float max = 0;
    for (uint64_t i = 0; !status && i < rows * cols; i++) {
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
    uint64_t first, rows, cols, ignored = 0, gr, gc;
    fm_tile_place(&r->cut, tile, &first, &rows, &cols);
    fm_status status = fm_tile_load(r, w, first, rows * cols, &ignored, err);
    if (status)
        return status;
    fm_tile_soften(w->x, rows * cols, w->scratch);
    if ((status = fm_quantize_calibrate(s, rows, cols, cols, w->x, NULL, 1, w->scales, err)))
        return status;
    fm_scheme_groups(s, rows, cols, &gr, &gc);
    uint64_t before = fm_groups_before(r, first);
    for (uint64_t i = 0; i < gr * gc; i += 256) {
        double sum = 0;
        fm_scales_sum(smaller(256, gr * gc - i), w->scales + i, &sum);
        r->block_sums[(before + i) / 256] = sum;
    }
    return FM_OK;
}

// Scales of the whole tensor or of columns: passes over the tensor, in order.
static fm_status calibrate_long(fm_run *r, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    bool columns = s->granularity == FM_GRANULARITY_COLUMN;
    uint64_t cols = r->job->cols;
    uint64_t step = columns && s->calibration != FM_CALIBRATION_ABSMAX ? COLUMNS_AT_ONCE : cols;
    fm_worker *w = r->workers;
    for (uint64_t c0 = 0; c0 < cols; c0 += step) {
        fm_calibrator *c;
        uint64_t width = smaller(step, cols - c0);
        fm_status status =
            fm_calibrator_create(s, r->job->rows, width, r->weights ? r->weights + c0 : NULL, 1, &c, err);
        if (status)
            return status;
        do
            for (uint64_t tile = 0; tile < r->cut.n_tiles && !status; tile++) {
                uint64_t first, rows, n_cols, ignored = 0;
                fm_tile_place(&r->cut, tile, &first, &rows, &n_cols);
                if ((status = fm_tile_load(r, w, first, rows * n_cols, &ignored, err)))
                    break;
                fm_tile_soften(w->x, rows * n_cols, w->scratch);
                fm_calibrator_feed(c, w->x + c0, rows, n_cols);
            }
        while (!status && fm_calibrator_next(c));
        if (!status)
            fm_calibrator_finish(c, r->scales + (columns ? c0 : 0));
        fm_calibrator_destroy(c);
        if (status)
            return status;
    }
    return FM_OK;
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

static fm_status prepare_long(fm_run *r, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    uint64_t gr, gc;
    fm_scheme_groups(s, r->job->rows, r->job->cols, &gr, &gc);
    r->scales = fm_calloc(gr * gc + 1, sizeof *r->scales);
    if (!r->scales)
        return fm_fail_memory(err, "scales");
    r->n_scales = gr * gc;
    fm_status status = calibrate_long(r, err);
    unsigned width = fm_scale_bytes(s->scale);
    uint8_t bytes[4];
    // one at a time: there is one, or one a column
    for (uint64_t i = 0; i < gr * gc && !status; i++) {
        fm_scale_store(s->scale, r->scales + i, bytes);
        status = fm_part_write(r, FM_PART_SCALE, i * width, bytes, width, err);
    }
    if (!status && s->asymmetric && r->job->layout == FM_LAYOUT_OWN)
        for (uint64_t i = 0; i < gr * gc && !status; i++) {
            uint8_t zero = (uint8_t)r->scales[i].zero;
            status = fm_part_write(r, FM_PART_ZERO, i, &zero, 1, err);
        }
    else if (!status && s->asymmetric)
        status = fm_zeros_write(r, r->workers, r->scales, 1, 1, 0, err);
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

// ---- a job ----

static fm_status find_weights(fm_run *r, fm_err *err)
{
    fm_job *j = r->job;
    r->weights = NULL;
    r->n_mats = 1;
    bool scheme = j->target.kind == FM_JOB_SCHEME && j->target.scheme.calibration == FM_CALIBRATION_WEIGHTED;
    if (!r->stats || !(scheme || (j->target.kind == FM_JOB_BLOCKS)))
        return FM_OK;
    fm_status status = fm_column_stats_find(r->stats, j->in->name, j->cols, &r->weights, &r->n_mats, err);
    if (status)
        return status;
    if (r->weights && j->rows % r->n_mats)
        return fm_fail(err, FM_ERR_CONFLICT, "tensor \"%s\" has %llu rows, its importance is of %llu matrices",
                       j->in->name, (unsigned long long)j->rows, (unsigned long long)r->n_mats);
    if (scheme && r->n_mats > 1)
        r->weights = NULL;
    if (scheme && !r->weights) { // unknown to the file: plain squared error
        bool mx = j->target.scheme.scale == FM_SCALE_E8M0;
        j->target.scheme.calibration = mx ? FM_CALIBRATION_ABSMAX : FM_CALIBRATION_MSE;
    }
    if (!r->weights && !j->note[0])
        snprintf(j->note, sizeof j->note, "no importance known: plain squared error");
    return FM_OK;
}

static fm_status merge_results(fm_run *r, fm_err *err)
{
    fm_job *j = r->job;
    fm_quant_profile profile = {0};
    for (uint64_t i = 0; i < r->cut.n_tiles; i++) {
        const fm_tile_result *t = r->results + i;
        fm_quant_error_merge(&j->error, &t->error);
        profile.n_elems += t->profile.n_elems;
        profile.row_sum += t->profile.row_sum;
        profile.block_sum += t->profile.block_sum;
        profile.max = t->profile.max > profile.max ? t->profile.max : profile.max;
        j->n_non_finite += t->n_non_finite;
        j->n_overflowed += t->n_overflowed;
    }
    j->measured = j->target.kind != FM_JOB_KEEP;
    if (!profile.n_elems)
        return FM_OK;
    profile.column_max = r->workers[0].column_max;
    for (unsigned w = 1; w < r->n_workers; w++)
        for (uint64_t c = 0; c < j->cols; c++)
            if (r->workers[w].column_max[c] > profile.column_max[c])
                profile.column_max[c] = r->workers[w].column_max[c];
    j->advised = true;
    return fm_quant_advise(&profile, j->rows, j->cols, &j->advice, err);
}

static fm_status run_job(fm_run *r, fm_err *err)
{
    fm_job *j = r->job;
    fm_status status = find_weights(r, err);
    if (status)
        return status;
    r->cut = cut_job(j, r->weights != NULL, r->n_mats);
    r->tensor = (fm_tensor_scale){.global = 1};
    r->results = fm_calloc(r->cut.n_tiles + 1, sizeof *r->results);
    if (!r->results)
        return fm_fail_memory(err, "tiles");
    for (unsigned w = 0; w < r->n_workers && fm_job_is_profiled(j); w++)
        memset(r->workers[w].column_max, 0, j->cols * sizeof(float));
    if (j->target.kind == FM_JOB_SCHEME) {
        if (j->target.scheme.scale == FM_SCALE_E4M3)
            status = prepare_nvfp4(r, err);
        else if (j->target.scheme.scale == FM_SCALE_DOUBLE)
            status = prepare_double(r, err);
        if (!status && whole_tensor_scales(j))
            status = prepare_long(r, err);
        if (!status)
            status = write_constants(r, err);
    }
    if (!status)
        status = fm_pool_run(r->pool, r->cut.n_tiles, fm_tile_encode, r, err);
    if (!status)
        status = merge_results(r, err);
    for (uint64_t i = 0; i < r->n_scales && !status; i++)
        j->error.n_saturated_scales += r->scales[i].saturated;
    fm_free(r->results);
    fm_free(r->scales);
    fm_free(r->block_sums);
    fm_free(r->tile_max);
    r->results = NULL;
    r->scales = NULL;
    r->n_scales = 0;
    r->block_sums = NULL;
    r->tile_max = NULL;
    return status;
}

// ---- memory of the workers ----

static fm_status create_workers(fm_run *r, const fm_job_list *list, fm_err *err)
{
    uint64_t elems = 1, raw = 1, packed = 1, groups = 1, cols = 1;
    for (size_t i = 0; i < list->n_jobs; i++) {
        const fm_job *j = list->jobs + i;
        uint64_t gr = 0, gc = 0;
        fm_cut c = cut_job(j, false, 1), rows = cut_rows(j->rows, j->cols, 1);
        uint64_t n = c.tile_rows * c.tile_cols; // of a tile
        bool by_rows = j->target.kind == FM_JOB_BLOCKS && r->stats;
        if (by_rows && rows.tile_rows * rows.tile_cols > n)
            n = rows.tile_rows * rows.tile_cols;
        n = smaller(n, j->in->n_elems);
        elems = n > elems ? n : elems;
        raw = fm_tile_input_bytes(j->in, n) > raw ? fm_tile_input_bytes(j->in, n) : raw;
        uint64_t out = 4 * n;
        if (j->target.kind == FM_JOB_BLOCKS)
            groups = n / 32 > groups ? n / 32 : groups;
        if (j->target.kind == FM_JOB_SCHEME) {
            fm_scheme_groups(&j->target.scheme, smaller(c.tile_rows, c.rows), smaller(c.tile_cols, c.cols), &gr, &gc);
            groups = gr * gc > groups ? gr * gc : groups;
            out = 4 * n + 8 * gr * gc + 4096 + c.tile_rows * 4;
            cols = fm_job_is_profiled(j) && j->cols > cols ? j->cols : cols;
        }
        packed = out > packed ? out : packed;
    }
    // Tall tiles of wide tensors are large: fewer threads rather than more memory. The bytes written are the same.
    uint64_t each = raw + 13 * elems + packed + groups * sizeof(fm_group_scale) + 4 * cols;
    unsigned threads = r->o->threads ? r->o->threads : fm_cpu_count();
    while (threads > 1 && threads * each > MEMORY_BYTES)
        threads--;
    fm_status status = fm_pool_create(threads, &r->pool, err);
    if (status)
        return status;
    r->n_workers = fm_pool_threads(r->pool);
    r->workers = fm_calloc(r->n_workers, sizeof *r->workers);
    if (!r->workers)
        return fm_fail_memory(err, "workers");
    for (unsigned i = 0; i < r->n_workers; i++) {
        fm_worker *w = r->workers + i;
        w->raw = fm_alloc(raw);
        w->codes = fm_alloc(elems);
        w->packed = fm_alloc(packed);
        w->x = fm_alloc_array(elems, sizeof *w->x);
        w->decoded = fm_alloc_array(elems, sizeof *w->decoded);
        w->scratch = fm_alloc_array(elems, sizeof *w->scratch);
        w->scales = fm_alloc_array(groups, sizeof *w->scales);
        w->column_max = fm_calloc(cols, sizeof *w->column_max);
        if (!w->raw || !w->codes || !w->packed || !w->x || !w->decoded || !w->scratch || !w->scales || !w->column_max)
            return fm_fail_memory(err, "tiles");
    }
    return FM_OK;
}

static void destroy_workers(fm_run *r)
{
    for (unsigned i = 0; r->workers && i < r->n_workers; i++) {
        fm_worker *w = r->workers + i;
        fm_free(w->raw);
        fm_free(w->codes);
        fm_free(w->packed);
        fm_free(w->x);
        fm_free(w->decoded);
        fm_free(w->scratch);
        fm_free(w->scales);
        fm_free(w->column_max);
    }
    fm_free(r->workers);
}

fm_status fm_quantize_run(const fm_quantize_options *o, const fm_weights *in, fm_job_list *list, fm_sink *sink,
                          fm_err *err)
{
    fm_run r = {.o = o, .in = in, .sink = sink};
    fm_column_stats *stats = NULL;
    fm_status status = FM_OK;
    if (o->imatrix || o->activations)
        status = fm_column_stats_open(o->imatrix, o->activations, &stats, err);
    r.stats = stats;
    if (!status)
        status = create_workers(&r, list, err);
    fm_progress_begin(&r.progress, o->out, fm_weights_total_bytes(in));
    for (size_t i = 0; i < list->n_jobs && !status; i++) {
        r.job = list->jobs + i;
        status = run_job(&r, err);
    }
    fm_progress_end(&r.progress);
    destroy_workers(&r);
    fm_column_stats_destroy(stats);
    fm_pool_destroy(r.pool);
    return status;
}
