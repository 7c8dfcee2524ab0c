// The work: tensor after tensor, tile after tile. A tile is read, decoded, encoded, measured and written by one worker;
// while one waits for the disk the others work, and the next tile is announced to the kernel beforehand. Tiles are cut by
// the tensor's shape alone, so any number of threads gives the same bytes and figures.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/pool.h"
#include "base/progress.h"
#include "command/quantize_job.h"
#include "floodmark/convert.h"

enum {
    TILE_ELEMS = 1 << 18, // 1 MiB of fp32: a worker's five buffers stay in its share of the cache
    COLUMNS_AT_ONCE = 4096,
};

// How a job is cut: `rows` rows of `cols` values a tile (a flat tensor is one row).
typedef struct {
    uint64_t rows, cols;           // the matrix as it is walked
    uint64_t tile_rows, tile_cols; // of a whole tile
    uint64_t n_tiles, tiles_a_row;
} cut;

typedef struct {
    uint8_t *raw, *codes, *packed;
    float *x, *decoded, *scratch;
    float *column_max;
    fm_group_scale *scales;
} worker;

typedef struct {
    fm_quant_error error;
    fm_quant_profile profile;
    fm_block_faults faults;
    uint64_t n_non_finite, n_overflowed;
} tile_result;

typedef struct {
    const fm_quantize_options *o;
    const fm_weights *in;
    fm_sink *sink;
    fm_pool *pool;
    fm_progress progress;
    worker *workers;
    unsigned n_workers;
    const fm_column_stats *stats;
    // of the job at hand
    fm_job *job;
    cut cut;
    const float *weights; // [n_mats, cols], NULL
    uint64_t n_mats;
    fm_tensor_scale tensor;
    fm_group_scale *scales; // tensor, column: all of them
    double *block_sums;     // double: one a block of 256 scales
    float *tile_max;        // nvfp4
    tile_result *results;
} run;

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

// Flat blocks do not keep rows and columns apart.
static bool profiled(const fm_job *j)
{
    return j->target.kind == FM_JOB_SCHEME && j->target.scheme.granularity != FM_GRANULARITY_FLAT;
}

static cut cut_flat(uint64_t n, uint64_t unit)
{
    uint64_t tile = unit * (TILE_ELEMS / unit ? TILE_ELEMS / unit : 1);
    uint64_t n_tiles = divide_up(n, tile);
    return (cut){1, n, 1, tile, n_tiles, n_tiles};
}

static cut cut_rows(uint64_t rows, uint64_t cols, uint64_t unit)
{
    uint64_t tile = cols ? TILE_ELEMS / cols / unit * unit : unit;
    tile = tile ? tile : unit;
    return (cut){rows, cols, tile, cols, divide_up(rows, tile), 1};
}

static cut cut_job(const fm_job *j, bool weighted, uint64_t n_mats)
{
    const fm_scheme *s = &j->target.scheme;
    if (j->target.kind == FM_JOB_SCHEME && s->granularity == FM_GRANULARITY_FLAT)
        return cut_flat(j->in->n_elems, (uint64_t)s->block_cols * (s->scale == FM_SCALE_DOUBLE ? 256 : 8));
    if (j->target.kind == FM_JOB_SCHEME) {
        bool packs_zeros = s->asymmetric && j->layout == FM_LAYOUT_COMPRESSED_TENSORS;
        cut c = cut_rows(j->rows, j->cols,
                         s->granularity == FM_GRANULARITY_TILE ? s->block_rows
                         : packs_zeros                         ? 32
                                                               : 1);
        return c;
    }
    if (j->target.kind == FM_JOB_BLOCKS && weighted) {
        // a tile must not reach into the next matrix of weights
        uint64_t rows_a_mat = n_mats ? j->rows / n_mats : j->rows;
        cut c = cut_rows(j->rows, j->cols, 1);
        while (rows_a_mat % c.tile_rows)
            c.tile_rows--;
        c.n_tiles = divide_up(c.rows, c.tile_rows);
        return c;
    }
    return cut_flat(j->in->n_elems, 256);
}

// ---- reading ----

static const fm_block_format *input_blocks(const fm_tensor_info *t)
{
    const fm_tensor_type_info *info = fm_tensor_type_of(t->type);
    const fm_block_format *f = info->ggml >= 0 ? fm_block_format_by_ggml_type((uint32_t)info->ggml) : NULL;
    return f && f->block_elems > 1 ? f : NULL;
}

static bool number_of(fm_tensor_type type, fm_number *out)
{
    static const struct {
        fm_tensor_type type;
        fm_number number;
    } pairs[] = {{FM_TENSOR_F64, FM_FP64},
                 {FM_TENSOR_F32, FM_FP32},
                 {FM_TENSOR_F16, FM_FP16},
                 {FM_TENSOR_BF16, FM_BF16},
                 {FM_TENSOR_F8_E4M3, FM_FP8_E4M3},
                 {FM_TENSOR_F8_E5M2, FM_FP8_E5M2},
                 {FM_TENSOR_F8_E4M3FNUZ, FM_FP8_E4M3FNUZ},
                 {FM_TENSOR_F8_E5M2FNUZ, FM_FP8_E5M2FNUZ}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].type == type) {
            *out = pairs[i].number;
            return true;
        }
    return false;
}

// Where a tile lies in the tensor, in values.
static void tile_place(const cut *c, uint64_t tile, uint64_t *first, uint64_t *rows, uint64_t *cols)
{
    uint64_t r = tile / c->tiles_a_row * c->tile_rows, at = tile % c->tiles_a_row * c->tile_cols;
    *rows = smaller(c->tile_rows, c->rows - r);
    *cols = smaller(c->tile_cols, c->cols - at);
    *first = r * c->cols + at;
}

static uint64_t bytes_of(const fm_tensor_info *t, uint64_t n_elems)
{
    const fm_tensor_type_info *info = fm_tensor_type_of(t->type);
    return n_elems / info->block_elems * info->block_bits / 8;
}

static fm_status non_finite(run *r, uint64_t first, uint64_t n, float *x, uint64_t *count, fm_err *err)
{
    for (uint64_t at = fm_first_non_finite(n, x); at < n; at += 1 + fm_first_non_finite(n - at - 1, x + at + 1)) {
        if (r->o->non_finite == FM_NON_FINITE_STOP)
            return fm_fail(err, FM_ERR_VALUE, "tensor \"%s\": value %llu is %s; --non-finite zero or keep goes on",
                           r->job->in->name, (unsigned long long)(first + at),
                           isnan(x[at]) ? "NaN"
                           : x[at] > 0  ? "infinity"
                                        : "-infinity");
        if (r->o->non_finite == FM_NON_FINITE_ZERO)
            x[at] = 0;
        ++*count;
    }
    return FM_OK;
}

// Reads a tile and decodes it to w->x.
static fm_status load(run *r, worker *w, uint64_t first, uint64_t n, uint64_t *n_non_finite, fm_err *err)
{
    const fm_tensor_info *t = r->job->in;
    uint64_t at = bytes_of(t, first), size = bytes_of(t, n);
    fm_number number;
    fm_status status = fm_weights_read(r->in, r->job->index, at, w->raw, size, err);
    if (status)
        return status;
    if (at + size < t->bytes)
        fm_weights_will_need(r->in, r->job->index, at + size, smaller(size, t->bytes - at - size));
    const fm_block_format *blocks = input_blocks(t);
    if (blocks)
        status = fm_block_decode(blocks, n, w->raw, w->x, err);
    else if (number_of(t->type, &number))
        fm_convert(number, FM_FP32, NULL, n, w->raw, w->x, NULL);
    return status ? status : non_finite(r, first, n, w->x, n_non_finite, err);
}

// ---- tiles of each kind ----

static fm_status write_part(run *r, fm_part part, uint64_t offset, const void *bytes, size_t n, fm_err *err)
{
    return n ? fm_sink_write(r->sink, r->job->part[part], offset, bytes, n, err) : FM_OK;
}

static fm_status tile_keep(run *r, worker *w, uint64_t first, uint64_t n, tile_result *res, fm_err *err)
{
    const fm_tensor_info *t = r->job->in;
    fm_number number;
    uint64_t at = bytes_of(t, first), size = bytes_of(t, n);
    fm_status status;
    if (number_of(t->type, &number)) { // checked for NaN like the others
        if ((status = load(r, w, first, n, &res->n_non_finite, err)))
            return status;
        if (res->n_non_finite && r->o->non_finite == FM_NON_FINITE_ZERO) {
            unsigned width = fm_number_info(number)->storage_bytes;
            fm_convert(number, FM_FP32, NULL, n, w->raw, w->decoded, NULL);
            for (uint64_t i = 0; i < n; i++)
                if (!isfinite(w->decoded[i]))
                    memset(w->raw + i * width, 0, width);
        }
    } else if ((status = fm_weights_read(r->in, r->job->index, at, w->raw, size, err))) {
        return status;
    }
    return write_part(r, FM_PART_CODES, at, w->raw, size, err);
}

static fm_status tile_cast(run *r, worker *w, uint64_t first, uint64_t n, tile_result *res, fm_err *err)
{
    fm_status status = load(r, w, first, n, &res->n_non_finite, err);
    if (status)
        return status;
    fm_number number = r->job->target.number;
    unsigned bits = fm_number_info(number)->bits;
    const fm_encoding how = {.saturate = bits == 8};
    fm_convert_counts counts = {0};
    fm_encode_f32(number, &how, n, w->x, w->packed, &counts);
    fm_decode_f32(number, n, w->packed, w->decoded);
    fm_quant_error_add(&res->error, NULL, 1, n, n, w->x, w->decoded, NULL);
    res->error.n_clipped = counts.saturated;
    res->n_overflowed = counts.overflowed;
    uint64_t width = fm_number_info(number)->storage_bytes;
    return write_part(r, FM_PART_CODES, first * width, w->packed, n * width, err);
}

// What --rescue clamps to: the largest magnitude whose scale still fits for any block.
static float rescue_limit(fm_block_type type)
{
    switch (type) {
    case FM_BLOCK_Q8_0:
        return 65504.0f * 127;
    case FM_BLOCK_NVFP4:
        return 2688;
    case FM_BLOCK_MXFP4:
        return FLT_MAX;
    default:
        return 65504.0f * 3.5f; // q4_1's range of 15 steps around zero is the least of the others
    }
}

// Three formats are integers in blocks of 32 with one scale, which the quantizer's own measure reads faster.
static bool measured_as(fm_block_type type, fm_scheme *s)
{
    *s = (fm_scheme){.granularity = FM_GRANULARITY_BLOCK, .block_rows = 1, .block_cols = 32, .scale = FM_SCALE_FP16};
    s->grid = type == FM_BLOCK_Q8_0 ? FM_GRID_INT8 : type == FM_BLOCK_Q4_0 ? FM_GRID_INT4 : FM_GRID_INT5;
    s->full_range = type != FM_BLOCK_Q8_0;
    return type == FM_BLOCK_Q8_0 || type == FM_BLOCK_Q4_0 || type == FM_BLOCK_Q5_0;
}

static fm_status measure_integers(const fm_block_format *f, const fm_scheme *s, worker *w, uint64_t n,
                                  fm_quant_error *e, fm_err *err)
{
    fm_status status = fm_block_decode(f, n, w->packed, w->decoded, err);
    if (status)
        return status;
    for (uint64_t b = 0; b < n / 32; b++) { // d leads each of these blocks
        uint16_t d;
        memcpy(&d, w->packed + b * f->block_bytes, 2);
        w->scales[b] = (fm_group_scale){.scale = fm_number_decode(FM_FP16, d)};
    }
    fm_quant_error_add(e, s, 1, n, n, w->x, w->decoded, w->scales);
    return FM_OK;
}

static fm_status tile_blocks(run *r, worker *w, uint64_t tile, uint64_t first, uint64_t rows, uint64_t cols,
                             tile_result *res, fm_err *err)
{
    const fm_block_format *f = r->job->target.blocks;
    uint64_t n = rows * cols, clamped = 0;
    (void)tile;
    fm_status status = load(r, w, first, n, &res->n_non_finite, err);
    if (status)
        return status;
    if (r->o->rescue) {
        float limit = rescue_limit(f->type);
        for (uint64_t i = 0; i < n; i++)
            if (fabsf(w->x[i]) > limit && isfinite(w->x[i])) {
                w->x[i] = w->x[i] > 0 ? limit : -limit;
                clamped++;
            }
    }
    const float *weights = NULL;
    if (r->weights) {
        uint64_t rows_a_mat = r->job->rows / r->n_mats;
        weights = r->weights + first / r->cut.cols / rows_a_mat * r->job->cols;
    }
    fm_block_error e = {0};
    fm_scheme as;
    bool integers = measured_as(f->type, &as);
    if ((status = fm_block_encode(f, rows, cols, w->x, weights, w->packed, &res->faults, integers ? NULL : &e, err)))
        return status;
    if (res->faults.n_overflow && r->o->non_finite != FM_NON_FINITE_KEEP)
        return fm_fail(
            err, FM_ERR_VALUE,
            "tensor \"%s\": the block at value %llu is too large for a scale of %s (value %g); --rescue clamps it, "
            "--non-finite keep writes ggml's bytes",
            r->job->in->name, (unsigned long long)(first + res->faults.first_overflow), f->name,
            (double)w->x[res->faults.first_overflow]);
    res->n_overflowed = res->faults.n_overflow;
    if (integers && (status = measure_integers(f, &as, w, n, &res->error, err)))
        return status;
    if (!integers)
        res->error = (fm_quant_error){.n_elems = e.n_elems,
                                      .n_unmeasured = e.n_unmeasured,
                                      .n_zeroed = e.n_zeroed,
                                      .n_clipped = e.n_clipped,
                                      .sum_sq = e.sum_sq,
                                      .sum_sq_err = e.sum_sq_err,
                                      .max_abs_err = e.max_abs_err,
                                      .max_abs = e.max_abs};
    res->error.n_clipped += clamped;
    uint64_t at = first / f->block_elems * f->block_bytes;
    return write_part(r, FM_PART_CODES, at, w->packed, n / f->block_elems * f->block_bytes, err);
}

// ---- schemes ----

// For --non-finite keep: infinities saturate, NaN counts as zero while scales are sought; fp8 keeps a code for it.
static bool soften(float *x, uint64_t n, float *original)
{
    bool any = false;
    for (uint64_t i = fm_first_non_finite(n, x); i < n; i++)
        if (!isfinite(x[i])) {
            if (!any)
                memcpy(original, x, n * sizeof *x);
            any = true;
            x[i] = 0;
        }
    return any;
}

static void harden(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *original,
                   const fm_group_scale *scales, float *x, uint8_t *codes)
{
    uint64_t n = rows * cols;
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(original[i]))
            x[i] = isnan(original[i]) ? 0 : original[i] > 0 ? FLT_MAX : -FLT_MAX;
    fm_quantize_encode(s, rows, cols, cols, x, scales, codes);
    for (uint64_t i = 0; i < n; i++)
        if (isnan(original[i]) && (s->grid == FM_GRID_E4M3 || s->grid == FM_GRID_E5M2))
            codes[i] = 0x7f;
    memcpy(x, original, n * sizeof *x);
}

static uint64_t groups_before(const run *r, uint64_t first)
{
    const fm_scheme *s = &r->job->target.scheme;
    if (s->granularity == FM_GRANULARITY_FLAT)
        return first / s->block_cols;
    uint64_t row = first / r->cut.cols, gr, gc;
    fm_scheme_groups(s, 1, r->cut.cols, &gr, &gc);
    return row / (s->granularity == FM_GRANULARITY_TILE ? s->block_rows : 1) * gc;
}

static void store_scale(fm_scale type, const fm_group_scale *g, uint8_t *out)
{
    if (type == FM_SCALE_FP32) {
        memcpy(out, &g->scale, 4);
    } else if (type == FM_SCALE_FP16 || type == FM_SCALE_BF16) {
        uint16_t code =
            (uint16_t)fm_number_encode(type == FM_SCALE_FP16 ? FM_FP16 : FM_BF16, g->scale, &(fm_encoding){0});
        memcpy(out, &code, 2);
    } else {
        *out = g->code;
    }
}

static fm_status write_scales(run *r, worker *w, const fm_group_scale *scales, uint64_t n, uint64_t before, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    unsigned width = fm_scale_bytes(s->scale);
    for (uint64_t i = 0; i < n; i++)
        store_scale(s->scale, scales + i, w->packed + i * width);
    return write_part(r, FM_PART_SCALE, before * width, w->packed, n * width, err);
}

// compressed-tensors packs zero points as a bit stream down each column of groups. It adds half the range to the signed
// zero point that it works with: what is packed is the zero point as we have it.
static fm_status write_zeros(run *r, worker *w, const fm_group_scale *scales, uint64_t group_rows, uint64_t group_cols,
                             uint64_t first_group_row, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    unsigned bits = fm_grid_bits(s->grid);
    uint64_t n = group_rows * group_cols;
    if (r->job->layout == FM_LAYOUT_OWN) {
        for (uint64_t i = 0; i < n; i++)
            w->packed[i] = (uint8_t)scales[i].zero;
        return write_part(r, FM_PART_ZERO, first_group_row * group_cols, w->packed, n, err);
    }
    if (s->granularity == FM_GRANULARITY_TENSOR) {
        int8_t zero = (int8_t)(scales->zero - (1 << (bits - 1)));
        return write_part(r, FM_PART_ZERO, 0, &zero, 1, err);
    }
    uint32_t *words = (uint32_t *)w->packed;
    uint64_t n_words = divide_up(group_rows * bits, 32);
    memset(words, 0, n_words * group_cols * 4);
    for (uint64_t i = 0; i < group_rows; i++)
        for (uint64_t c = 0; c < group_cols; c++) {
            uint64_t at = i * bits, value = (uint64_t)(uint32_t)scales[i * group_cols + c].zero << at % 32;
            words[at / 32 * group_cols + c] |= (uint32_t)value;
            if (at % 32 + bits > 32)
                words[(at / 32 + 1) * group_cols + c] |= (uint32_t)(value >> 32);
        }
    return write_part(r, FM_PART_ZERO, first_group_row * bits / 32 * group_cols * 4, words, n_words * group_cols * 4,
                      err);
}

static fm_status write_codes(run *r, worker *w, uint64_t first, uint64_t rows, uint64_t cols, fm_err *err)
{
    const fm_job *j = r->job;
    const fm_scheme *s = &j->target.scheme;
    unsigned bits = fm_grid_bits(s->grid);
    if (j->layout == FM_LAYOUT_BITSANDBYTES) { // high nibble first
        uint64_t n = rows * cols;
        fm_nibbles_pack(FM_NIBBLE_HIGH_FIRST, n, w->codes, w->packed);
        return write_part(r, FM_PART_CODES, first / 2, w->packed, divide_up(n, 2), err);
    }
    // signed codes become unsigned; asymmetric ones are already
    unsigned offset = fm_grid_kind_of(s->grid) == FM_GRID_KIND_INTEGER && !s->asymmetric ? 1u << (bits - 1) : 0;
    if (s->granularity == FM_GRANULARITY_FLAT) {
        fm_pack_bits(bits, rows * cols, w->codes, offset, w->packed);
        return write_part(r, FM_PART_CODES, first * bits / 8, w->packed, divide_up(rows * cols * bits, 8), err);
    }
    uint64_t row_bytes = fm_job_row_bytes(j), used = divide_up(cols * bits, 8);
    for (uint64_t i = 0; i < rows; i++) {
        fm_pack_bits(bits, cols, w->codes + i * cols, offset, w->packed + i * row_bytes);
        memset(w->packed + i * row_bytes + used, 0, row_bytes - used);
    }
    return write_part(r, FM_PART_CODES, first / r->cut.cols * row_bytes, w->packed, rows * row_bytes, err);
}

static fm_status tile_scheme(run *r, worker *w, uint64_t first, uint64_t rows, uint64_t cols, tile_result *res,
                             fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    uint64_t n = rows * cols, gr, gc;
    fm_status status = load(r, w, first, n, &res->n_non_finite, err);
    if (status)
        return status;
    bool hard = res->n_non_finite && r->o->non_finite == FM_NON_FINITE_KEEP && soften(w->x, n, w->scratch);
    const fm_group_scale *scales = r->scales ? r->scales : w->scales;
    fm_scheme_groups(s, rows, cols, &gr, &gc);
    if (!r->scales) {
        if ((status = fm_quantize_calibrate(s, rows, cols, cols, w->x, r->weights, r->tensor.global, w->scales, err)))
            return status;
        if (s->scale == FM_SCALE_DOUBLE) {
            float scale2[TILE_ELEMS / 256 + 1];
            uint64_t before = groups_before(r, first), n2 = divide_up(gr * gc, 256);
            fm_scales_double(gr * gc, w->scales, r->tensor.offset, scale2);
            if ((status = write_part(r, FM_PART_SCALE2, before / 256 * 4, scale2, n2 * 4, err)))
                return status;
        }
        for (uint64_t i = 0; i < gr * gc; i++)
            res->error.n_saturated_scales += w->scales[i].saturated;
        if ((status = write_scales(r, w, w->scales, gr * gc, groups_before(r, first), err)))
            return status;
        if (s->asymmetric &&
            (status = write_zeros(r, w, w->scales, gr, gc, gc ? groups_before(r, first) / gc : 0, err)))
            return status;
    }
    if (hard)
        harden(s, rows, cols, w->scratch, scales, w->x, w->codes);
    else
        fm_quantize_encode(s, rows, cols, cols, w->x, scales, w->codes);
    fm_quantize_decode(s, rows, cols, w->codes, scales, w->decoded);
    fm_quant_error_add(&res->error, s, rows, cols, cols, w->x, w->decoded, scales);
    return write_codes(r, w, first, rows, cols, err);
}

static fm_status encode_tile(void *context, uint64_t tile, unsigned index, fm_err *err)
{
    run *r = context;
    worker *w = r->workers + index;
    tile_result *res = r->results + tile;
    uint64_t first, rows, cols;
    tile_place(&r->cut, tile, &first, &rows, &cols);
    fm_status status;
    switch (r->job->target.kind) {
    case FM_JOB_KEEP:
        status = tile_keep(r, w, first, rows * cols, res, err);
        break;
    case FM_JOB_CAST:
        status = tile_cast(r, w, first, rows * cols, res, err);
        break;
    case FM_JOB_BLOCKS:
        status = tile_blocks(r, w, tile, first, rows, cols, res, err);
        break;
    default:
        status = tile_scheme(r, w, first, rows, cols, res, err);
    }
    if (!status && profiled(r->job)) {
        res->profile.column_max = w->column_max;
        fm_quant_profile_add(&res->profile, rows, cols, cols, w->x);
    }
    fm_progress_add(&r->progress, bytes_of(r->job->in, rows * cols));
    return status;
}

// ---- what must be known before the first code ----

static fm_status absmax_tile(void *context, uint64_t tile, unsigned index, fm_err *err)
{
    run *r = context;
    worker *w = r->workers + index;
    uint64_t first, rows, cols, ignored = 0;
    tile_place(&r->cut, tile, &first, &rows, &cols);
    fm_status status = load(r, w, first, rows * cols, &ignored, err);
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
    run *r = context;
    worker *w = r->workers + index;
    const fm_scheme *s = &r->job->target.scheme;
    uint64_t first, rows, cols, ignored = 0, gr, gc;
    tile_place(&r->cut, tile, &first, &rows, &cols);
    fm_status status = load(r, w, first, rows * cols, &ignored, err);
    if (status)
        return status;
    soften(w->x, rows * cols, w->scratch);
    if ((status = fm_quantize_calibrate(s, rows, cols, cols, w->x, NULL, 1, w->scales, err)))
        return status;
    fm_scheme_groups(s, rows, cols, &gr, &gc);
    uint64_t before = groups_before(r, first);
    for (uint64_t i = 0; i < gr * gc; i += 256) {
        double sum = 0;
        fm_scales_sum(smaller(256, gr * gc - i), w->scales + i, &sum);
        r->block_sums[(before + i) / 256] = sum;
    }
    return FM_OK;
}

// Scales of the whole tensor or of columns: passes over the tensor, in order.
static fm_status calibrate_long(run *r, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    bool columns = s->granularity == FM_GRANULARITY_COLUMN;
    uint64_t cols = r->job->cols;
    uint64_t step = columns && s->calibration != FM_CALIBRATION_ABSMAX ? COLUMNS_AT_ONCE : cols;
    worker *w = r->workers;
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
                tile_place(&r->cut, tile, &first, &rows, &n_cols);
                if ((status = load(r, w, first, rows * n_cols, &ignored, err)))
                    break;
                soften(w->x, rows * n_cols, w->scratch);
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

static fm_status prepare_nvfp4(run *r, fm_err *err)
{
    float max = 0;
    r->tile_max = fm_alloc_array(r->cut.n_tiles + 1, sizeof *r->tile_max);
    if (!r->tile_max)
        return fm_fail_memory(err, "tiles");
    fm_status status = fm_pool_run(r->pool, r->cut.n_tiles, absmax_tile, r, err);
    for (uint64_t i = 0; i < r->cut.n_tiles && !status; i++)
        max = r->tile_max[i] > max ? r->tile_max[i] : max;
    r->tensor.global = fm_nvfp4_global(&r->job->target.scheme, max);
    return status ? status : write_part(r, FM_PART_GLOBAL, 0, &r->tensor.global, 4, err);
}

static fm_status prepare_double(run *r, fm_err *err)
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
        status = write_part(r, FM_PART_GLOBAL, 0, &r->tensor.offset, 4, err);
    return status;
}

static fm_status prepare_long(run *r, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    uint64_t gr, gc;
    fm_scheme_groups(s, r->job->rows, r->job->cols, &gr, &gc);
    r->scales = fm_calloc(gr * gc + 1, sizeof *r->scales);
    if (!r->scales)
        return fm_fail_memory(err, "scales");
    fm_status status = calibrate_long(r, err);
    unsigned width = fm_scale_bytes(s->scale);
    uint8_t bytes[4];
    // one at a time: there is one, or one a column
    for (uint64_t i = 0; i < gr * gc && !status; i++) {
        store_scale(s->scale, r->scales + i, bytes);
        status = write_part(r, FM_PART_SCALE, i * width, bytes, width, err);
    }
    if (!status && s->asymmetric && r->job->layout == FM_LAYOUT_OWN)
        for (uint64_t i = 0; i < gr * gc && !status; i++) {
            uint8_t zero = (uint8_t)r->scales[i].zero;
            status = write_part(r, FM_PART_ZERO, i, &zero, 1, err);
        }
    else if (!status && s->asymmetric)
        status = write_zeros(r, r->workers, r->scales, 1, 1, 0, err);
    return status;
}

// What a layout holds besides codes and scales.
static fm_status write_constants(run *r, fm_err *err)
{
    const fm_job *j = r->job;
    float table[256];
    fm_status status = FM_OK;
    if (j->part[FM_PART_SHAPE] != SIZE_MAX) {
        int64_t shape[2] = {(int64_t)j->rows, (int64_t)j->cols};
        status = write_part(r, FM_PART_SHAPE, 0, shape, sizeof shape, err);
    }
    if (!status && j->part[FM_PART_TABLE] != SIZE_MAX && !(status = fm_grid_values(j->target.scheme.grid, table, err)))
        status = write_part(r, FM_PART_TABLE, 0, table, 16 * 4, err);
    if (!status && j->part[FM_PART_TABLE2] != SIZE_MAX && !(status = fm_grid_values(FM_GRID_DYNAMIC8, table, err)))
        status = write_part(r, FM_PART_TABLE2, 0, table, 256 * 4, err);
    if (!status && j->state) {
        size_t n = strlen(j->state);
        char *hole = strstr(j->state, "\"@\"");
        if (hole) { // the offset is known now; the blanks at the end give way
            char tail[64];
            int m = snprintf(tail, sizeof tail, "%.9g}", (double)r->tensor.offset);
            memset(hole, ' ', n - (size_t)(hole - j->state));
            memcpy(hole, tail, (size_t)m);
        }
        status = write_part(r, FM_PART_STATE, 0, j->state, n, err);
    }
    return status;
}

// ---- a job ----

static fm_status find_weights(run *r, fm_err *err)
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

static fm_status merge_results(run *r, fm_err *err)
{
    fm_job *j = r->job;
    fm_quant_profile profile = {0};
    for (uint64_t i = 0; i < r->cut.n_tiles; i++) {
        const tile_result *t = r->results + i;
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

static fm_status run_job(run *r, fm_err *err)
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
    for (unsigned w = 0; w < r->n_workers && profiled(j); w++)
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
        status = fm_pool_run(r->pool, r->cut.n_tiles, encode_tile, r, err);
    if (!status)
        status = merge_results(r, err);
    if (!status && r->scales)
        j->error.n_saturated_scales += r->scales[0].saturated;
    fm_free(r->results);
    fm_free(r->scales);
    fm_free(r->block_sums);
    fm_free(r->tile_max);
    r->results = NULL;
    r->scales = NULL;
    r->block_sums = NULL;
    r->tile_max = NULL;
    return status;
}

// ---- memory of the workers ----

static fm_status create_workers(run *r, const fm_job_list *list, fm_err *err)
{
    uint64_t elems = 1, raw = 1, packed = 1, groups = 1, cols = 1;
    for (size_t i = 0; i < list->n_jobs; i++) {
        const fm_job *j = list->jobs + i;
        uint64_t gr = 0, gc = 0;
        cut c = cut_job(j, false, 1), rows = cut_rows(j->rows, j->cols, 1);
        uint64_t n = c.tile_rows * c.tile_cols;
        bool by_rows = j->target.kind == FM_JOB_BLOCKS && r->stats;
        if (by_rows && rows.tile_rows * rows.tile_cols > n)
            n = rows.tile_rows * rows.tile_cols;
        n = smaller(n, j->in->n_elems);
        elems = n > elems ? n : elems;
        raw = bytes_of(j->in, n) > raw ? bytes_of(j->in, n) : raw;
        uint64_t out = 4 * n;
        if (j->target.kind == FM_JOB_BLOCKS)
            groups = n / 32 > groups ? n / 32 : groups;
        if (j->target.kind == FM_JOB_SCHEME) {
            fm_scheme_groups(&j->target.scheme, smaller(c.tile_rows, c.rows), smaller(c.tile_cols, c.cols), &gr, &gc);
            groups = gr * gc > groups ? gr * gc : groups;
            out = 4 * n + 8 * gr * gc + 4096 + c.tile_rows * 4;
            cols = profiled(j) && j->cols > cols ? j->cols : cols;
        }
        packed = out > packed ? out : packed;
    }
    r->workers = fm_calloc(r->n_workers, sizeof *r->workers);
    if (!r->workers)
        return fm_fail_memory(err, "workers");
    for (unsigned i = 0; i < r->n_workers; i++) {
        worker *w = r->workers + i;
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

static void destroy_workers(run *r)
{
    for (unsigned i = 0; r->workers && i < r->n_workers; i++) {
        worker *w = r->workers + i;
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
    run r = {.o = o, .in = in, .sink = sink};
    fm_column_stats *stats = NULL;
    fm_status status = fm_pool_create(o->threads, &r.pool, err);
    if (status)
        return status;
    r.n_workers = fm_pool_threads(r.pool);
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
