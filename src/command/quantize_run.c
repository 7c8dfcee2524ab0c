// The work: tensor after tensor, tile after tile. A tile is read, decoded, encoded, measured and written by one worker;
// while one waits for the disk the others work, and the next tile is announced to the kernel beforehand. Tiles are cut by
// the tensor's shape alone, so any number of threads gives the same bytes and figures.
#include "command/quantize_run.h"
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"

enum { MEMORY_BYTES = 160 << 20 }; // of all workers' tiles

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
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

static void merge_results(fm_run *r, fm_quant_profile *profile)
{
    fm_job *j = r->job;
    for (uint64_t i = 0; i < r->cut.n_tiles; i++) {
        const fm_tile_result *t = r->results + i;
        fm_quant_error_merge(&j->error, &t->error);
        profile->n_elems += t->profile.n_elems;
        profile->row_sum += t->profile.row_sum;
        profile->block_sum += t->profile.block_sum;
        profile->max = t->profile.max > profile->max ? t->profile.max : profile->max;
        j->n_non_finite += t->n_non_finite;
        j->n_overflowed += t->n_overflowed;
        fm_place p = fm_tile_place(&r->cut, i);
        for (uint64_t k = 0; r->row_max && k < p.rows; k++) {
            float max = r->tile_row_max[i * r->cut.tile_rows + k];
            r->row_max[p.row + k] = max > r->row_max[p.row + k] ? max : r->row_max[p.row + k];
        }
    }
    for (uint64_t i = 0; i < r->n_scales; i++)
        j->error.n_saturated_scales += r->scales[i].saturated;
}

static fm_status advise(fm_run *r, fm_quant_profile *profile, fm_err *err)
{
    fm_job *j = r->job;
    j->measured = j->target.kind != FM_JOB_KEEP;
    if (!profile->n_elems)
        return FM_OK;
    if (r->row_max) { // the rows were cut
        profile->row_sum = 0;
        for (uint64_t i = 0; i < j->rows; i++)
            profile->row_sum += (double)j->cols * ((double)r->row_max[i] * r->row_max[i]);
    }
    if (fm_job_has_columns(j))
        profile->column_max = r->workers[0].column_max;
    for (unsigned w = 1; profile->column_max && w < r->n_workers; w++)
        for (uint64_t c = 0; c < j->cols; c++)
            if (r->workers[w].column_max[c] > profile->column_max[c])
                profile->column_max[c] = r->workers[w].column_max[c];
    j->advised = true;
    return fm_quant_advise(profile, j->rows, j->cols, &j->advice, err);
}

// All tiles of the cut as it stands: the whole tensor, or a strip of its columns.
static fm_status run_tiles(fm_run *r, fm_quant_profile *profile, fm_err *err)
{
    fm_status status = FM_OK;
    memset(r->results, 0, (r->cut.n_tiles + 1) * sizeof *r->results);
    if (r->job->target.kind == FM_JOB_SCHEME)
        status = fm_scales_prepare(r, err);
    if (!status)
        status = fm_pool_run(r->pool, r->cut.n_tiles, fm_tile_encode, r, err);
    if (!status)
        merge_results(r, profile);
    fm_free(r->scales);
    fm_free(r->block_sums);
    fm_free(r->tile_max);
    r->scales = NULL;
    r->n_scales = 0;
    r->block_sums = NULL;
    r->tile_max = NULL;
    return status;
}

static fm_status run_job(fm_run *r, fm_err *err)
{
    fm_job *j = r->job;
    fm_quant_profile profile = {0};
    fm_status status = find_weights(r, err);
    if (status)
        return status;
    r->cut = fm_cut_job(j, r->weights != NULL, r->n_mats);
    r->tensor = (fm_tensor_scale){.global = 1};
    bool by_row = r->cut.pieces && fm_job_is_profiled(j);
    r->results = fm_alloc_array(r->cut.n_tiles + 1, sizeof *r->results); // the first strip has the most
    r->row_max = by_row ? fm_calloc(j->rows, sizeof *r->row_max) : NULL;
    r->tile_row_max = by_row ? fm_alloc_array(r->cut.n_tiles, r->cut.tile_rows * sizeof *r->tile_row_max) : NULL;
    if (!r->results || (by_row && (!r->row_max || !r->tile_row_max)))
        status = fm_fail_memory(err, "tiles");
    for (unsigned w = 0; w < r->n_workers && fm_job_has_columns(j); w++)
        memset(r->workers[w].column_max, 0, j->cols * sizeof(float));
    uint64_t next = 0;
    if (!status)
        do {
            if (r->cut.strip_cols)
                fm_cut_strip(&r->cut, next);
            status = run_tiles(r, &profile, err);
            next += r->cut.strip_cols;
        } while (!status && r->cut.strip_cols && next < j->cols);
    if (!status)
        status = advise(r, &profile, err);
    fm_free(r->results);
    fm_free(r->row_max);
    fm_free(r->tile_row_max);
    r->results = NULL;
    r->row_max = NULL;
    r->tile_row_max = NULL;
    return status;
}

// ---- memory of the workers ----

typedef struct {
    uint64_t elems, raw, packed, groups, cols;
} need;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static need needs_of(const fm_job *j, bool weighted)
{
    need n = {1, 1, 1, 1, 1};
    uint64_t gr = 0, gc = 0;
    fm_cut c = fm_cut_job(j, weighted, 1);
    n.elems = smaller(c.tile_rows, c.rows) * smaller(c.tile_cols, c.cols);
    n.raw = fm_tile_input_bytes(j->in, n.elems);
    n.packed = 4 * n.elems;
    if (j->target.kind == FM_JOB_BLOCKS)
        n.groups = n.elems / 32;
    if (j->target.kind == FM_JOB_SCHEME) {
        fm_scheme_groups(&j->target.scheme, smaller(c.tile_rows, c.rows), smaller(c.tile_cols, c.cols), &gr, &gc);
        n.groups = gr * gc;
        n.packed += 8 * gr * gc + (1 << 16) + smaller(c.tile_rows, c.rows) * 4;
        n.cols = fm_job_has_columns(j) ? j->cols : 1;
    }
    return n;
}

static uint64_t bytes_of(const need *n)
{
    return n->raw + 13 * n->elems + n->packed + n->groups * sizeof(fm_group_scale) + 4 * n->cols;
}

// The most that any job needs. FM_ERR_UNSUPPORTED for groups of which one thread cannot hold a tile.
static fm_status find_needs(const fm_run *r, const fm_job_list *list, need *most, fm_err *err)
{
    *most = (need){1, 1, 1, 1, 1};
    for (size_t i = 0; i < list->n_jobs; i++) {
        const fm_job *j = list->jobs + i;
        need n = needs_of(j, false), w = needs_of(j, true); // importance may be known or not
        if (r->stats && bytes_of(&w) > bytes_of(&n))
            n = w;
        if (bytes_of(&n) > MEMORY_BYTES) {
            char text[FM_SCHEME_TEXT_BYTES];
            return fm_fail(err, FM_ERR_UNSUPPORTED,
                           "tensor \"%s\" [%llu, %llu]: one group of %s takes %llu MiB at once, of %d; "
                           "smaller groups, or --granularity row or tensor, need less",
                           j->in->name, (unsigned long long)j->rows, (unsigned long long)j->cols,
                           fm_target_text(&j->target, text), (unsigned long long)(bytes_of(&n) >> 20),
                           MEMORY_BYTES >> 20);
        }
        *most = (need){larger(most->elems, n.elems), larger(most->raw, n.raw), larger(most->packed, n.packed),
                       larger(most->groups, n.groups), larger(most->cols, n.cols)};
    }
    return FM_OK;
}

static fm_status create_workers(fm_run *r, const fm_job_list *list, fm_err *err)
{
    need n;
    fm_status status = find_needs(r, list, &n, err);
    if (status)
        return status;
    // Tall tiles of wide tensors are large: fewer threads rather than more memory. The bytes written are the same.
    unsigned threads = r->o->threads ? r->o->threads : fm_cpu_count();
    while (threads > 1 && threads * bytes_of(&n) > MEMORY_BYTES)
        threads--;
    status = fm_pool_create(threads, &r->pool, err);
    if (status)
        return status;
    r->n_workers = fm_pool_threads(r->pool);
    r->workers = fm_calloc(r->n_workers, sizeof *r->workers);
    if (!r->workers)
        return fm_fail_memory(err, "workers");
    for (unsigned i = 0; i < r->n_workers; i++) {
        fm_worker *w = r->workers + i;
        w->raw = fm_alloc(n.raw);
        w->codes = fm_alloc(n.elems);
        w->packed = fm_alloc(n.packed);
        w->x = fm_alloc_array(n.elems, sizeof *w->x);
        w->decoded = fm_alloc_array(n.elems, sizeof *w->decoded);
        w->scratch = fm_alloc_array(n.elems, sizeof *w->scratch);
        w->scales = fm_alloc_array(n.groups, sizeof *w->scales);
        w->column_max = fm_calloc(n.cols, sizeof *w->column_max);
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
