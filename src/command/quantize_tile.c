// One tile: read, decoded, encoded, measured and written, for each kind of target.
#include "command/quantize_run.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "floodmark/convert.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

bool fm_job_is_profiled(const fm_job *j)
{
    return j->target.kind == FM_JOB_SCHEME && j->target.scheme.granularity != FM_GRANULARITY_FLAT;
}

enum { MOST_COLUMNS = 1 << 22 };

bool fm_job_has_columns(const fm_job *j)
{
    return fm_job_is_profiled(j) && j->cols <= MOST_COLUMNS;
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

uint64_t fm_tile_input_bytes(const fm_tensor_info *t, uint64_t n_elems)
{
    const fm_tensor_type_info *info = fm_tensor_type_of(t->type);
    return n_elems / info->block_elems * info->block_bits / 8;
}

static fm_status non_finite(fm_run *r, const fm_place *p, float *x, uint64_t *count, fm_err *err)
{
    uint64_t n = p->n;
    for (uint64_t at = fm_first_non_finite(n, x); at < n; at += 1 + fm_first_non_finite(n - at - 1, x + at + 1)) {
        if (r->o->non_finite == FM_NON_FINITE_STOP)
            return fm_fail(err, FM_ERR_VALUE, "tensor \"%s\": value %llu is %s; --non-finite zero or keep goes on",
                           r->job->in->name, (unsigned long long)(p->first + at / p->cols * r->cut.cols + at % p->cols),
                           isnan(x[at]) ? "NaN"
                           : x[at] > 0  ? "infinity"
                                        : "-infinity");
        if (r->o->non_finite == FM_NON_FINITE_ZERO)
            x[at] = 0;
        ++*count;
    }
    return FM_OK;
}

static fm_status read_place(fm_run *r, const fm_place *p, uint8_t *raw, fm_err *err)
{
    const fm_tensor_info *t = r->job->in;
    bool together = p->rows == 1 || p->cols == r->cut.cols;
    uint64_t parts = together ? 1 : p->rows, size = fm_tile_input_bytes(t, together ? p->n : p->cols);
    fm_status status = FM_OK;
    for (uint64_t i = 0; i < parts && !status; i++) {
        uint64_t at = fm_tile_input_bytes(t, p->first + i * r->cut.cols);
        status = fm_weights_read(r->in, r->job->index, at, raw + i * size, size, err);
        if (at + size < t->bytes)
            fm_weights_will_need(r->in, r->job->index, at + size, smaller(size, t->bytes - at - size));
    }
    return status;
}

fm_status fm_tile_load(fm_run *r, fm_worker *w, const fm_place *p, uint64_t *n_non_finite, fm_err *err)
{
    const fm_tensor_info *t = r->job->in;
    fm_number number;
    fm_status status = read_place(r, p, w->raw, err);
    if (status)
        return status;
    const fm_block_format *blocks = input_blocks(t);
    if (blocks)
        status = fm_block_decode(blocks, p->n, w->raw, w->x, err);
    else if (number_of(t->type, &number))
        fm_convert(number, FM_FP32, NULL, p->n, w->raw, w->x, NULL);
    return status ? status : non_finite(r, p, w->x, n_non_finite, err);
}

// ---- tiles of each kind ----

fm_status fm_part_write(fm_run *r, fm_part part, uint64_t offset, const void *bytes, size_t n, fm_err *err)
{
    return n ? fm_sink_write(r->sink, r->job->part[part], offset, bytes, n, err) : FM_OK;
}

static fm_status tile_keep(fm_run *r, fm_worker *w, const fm_place *p, fm_tile_result *res, fm_err *err)
{
    uint64_t first = p->first, n = p->n;
    const fm_tensor_info *t = r->job->in;
    fm_number number;
    uint64_t at = fm_tile_input_bytes(t, first), size = fm_tile_input_bytes(t, n);
    fm_status status;
    if (number_of(t->type, &number)) { // checked for NaN like the others
        if ((status = fm_tile_load(r, w, p, &res->n_non_finite, err)))
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
    return fm_part_write(r, FM_PART_CODES, at, w->raw, size, err);
}

static fm_status tile_cast(fm_run *r, fm_worker *w, const fm_place *p, fm_tile_result *res, fm_err *err)
{
    uint64_t first = p->first, n = p->n;
    fm_status status = fm_tile_load(r, w, p, &res->n_non_finite, err);
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
    return fm_part_write(r, FM_PART_CODES, first * width, w->packed, n * width, err);
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

static fm_status measure_integers(const fm_block_format *f, const fm_scheme *s, fm_worker *w, uint64_t n,
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

// Names the value that is too large, not only where its block begins.
static fm_status block_overflow(const fm_run *r, const float *x, uint64_t first, uint64_t n, uint64_t begin,
                                fm_err *err)
{
    const fm_block_format *f = r->job->target.blocks;
    uint64_t at = begin;
    for (uint64_t i = begin; i < n && i < begin + f->block_elems; i++)
        if (fabsf(x[i]) > fabsf(x[at]))
            at = i;
    return fm_fail(err, FM_ERR_VALUE,
                   "tensor \"%s\": value %llu, %g, is too large for the scale of a block of %s; --rescue clamps it, "
                   "--non-finite keep writes ggml's bytes",
                   r->job->in->name, (unsigned long long)(first + at), (double)x[at], f->name);
}

static fm_status tile_blocks(fm_run *r, fm_worker *w, const fm_place *p, fm_tile_result *res, fm_err *err)
{
    const fm_block_format *f = r->job->target.blocks;
    uint64_t first = p->first, n = p->n, clamped = 0;
    fm_status status = fm_tile_load(r, w, p, &res->n_non_finite, err);
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
        weights = r->weights + p->row / rows_a_mat * r->job->cols + p->col;
    }
    fm_block_error e = {0};
    fm_scheme as;
    bool integers = measured_as(f->type, &as);
    if ((status =
             fm_block_encode(f, p->rows, p->cols, w->x, weights, w->packed, &res->faults, integers ? NULL : &e, err)))
        return status;
    if (res->faults.n_overflow && r->o->non_finite != FM_NON_FINITE_KEEP)
        return block_overflow(r, w->x, first, n, res->faults.first_overflow, err);
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
    return fm_part_write(r, FM_PART_CODES, at, w->packed, n / f->block_elems * f->block_bytes, err);
}

// ---- schemes ----

// For --non-finite keep: infinities saturate, NaN counts as zero while scales are sought; fp8 keeps a code for it.
bool fm_tile_soften(float *x, uint64_t n, float *original)
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

uint64_t fm_groups_before(const fm_run *r, const fm_place *p)
{
    const fm_scheme *s = &r->job->target.scheme;
    if (s->granularity == FM_GRANULARITY_FLAT)
        return p->first / s->block_cols;
    uint64_t gr, gc;
    fm_scheme_groups(s, 1, r->cut.cols, &gr, &gc);
    return p->row / (s->granularity == FM_GRANULARITY_TILE ? s->block_rows : 1) * gc +
           (s->block_cols ? p->col / s->block_cols : 0);
}

void fm_scale_store(fm_scale type, const fm_group_scale *g, uint8_t *out)
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

fm_status fm_scales_write(fm_run *r, fm_worker *w, const fm_group_scale *scales, uint64_t n, uint64_t before,
                          fm_err *err)
{
    enum { AT_ONCE = 8192 }; // w->packed holds at least 64 KiB
    const fm_scheme *s = &r->job->target.scheme;
    unsigned width = fm_scale_bytes(s->scale);
    fm_status status = FM_OK;
    for (uint64_t at = 0; at < n && !status; at += AT_ONCE) {
        uint64_t m = smaller(AT_ONCE, n - at);
        for (uint64_t i = 0; i < m; i++)
            fm_scale_store(s->scale, scales + at + i, w->packed + i * width);
        status = fm_part_write(r, FM_PART_SCALE, (before + at) * width, w->packed, m * width, err);
        if (status || !s->asymmetric || r->job->layout != FM_LAYOUT_OWN)
            continue;
        for (uint64_t i = 0; i < m; i++)
            w->packed[i] = (uint8_t)scales[at + i].zero;
        status = fm_part_write(r, FM_PART_ZERO, before + at, w->packed, m, err);
    }
    return status;
}

// compressed-tensors packs zero points as a bit stream down each column of groups. It adds half the range to the signed
// zero point that it works with: what is packed is the zero point as we have it.
fm_status fm_zeros_write(fm_run *r, fm_worker *w, const fm_group_scale *scales, uint64_t group_rows,
                         uint64_t group_cols, uint64_t first_group_row, uint64_t first_group_col, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    unsigned bits = fm_grid_bits(s->grid);
    if (s->granularity == FM_GRANULARITY_TENSOR) {
        int8_t zero = (int8_t)(scales->zero - (1 << (bits - 1)));
        return fm_part_write(r, FM_PART_ZERO, 0, &zero, 1, err);
    }
    uint32_t *words = (uint32_t *)w->packed;
    uint64_t n_words = divide_up(group_rows * bits, 32), gr, across;
    memset(words, 0, n_words * group_cols * 4);
    for (uint64_t i = 0; i < group_rows; i++)
        for (uint64_t c = 0; c < group_cols; c++) {
            uint64_t at = i * bits, value = (uint64_t)(uint32_t)scales[i * group_cols + c].zero << at % 32;
            words[at / 32 * group_cols + c] |= (uint32_t)value;
            if (at % 32 + bits > 32)
                words[(at / 32 + 1) * group_cols + c] |= (uint32_t)(value >> 32);
        }
    fm_scheme_groups(s, 1, r->cut.cols, &gr, &across);
    uint64_t rows = group_cols == across || !n_words ? 1 : n_words; // written together where they lie together
    uint64_t n = n_words / rows * group_cols, to = first_group_row * bits / 32 * across + first_group_col;
    fm_status status = FM_OK;
    for (uint64_t i = 0; i < rows && !status; i++)
        status = fm_part_write(r, FM_PART_ZERO, (to + i * across) * 4, words + i * n, n * 4, err);
    return status;
}

static fm_status write_codes(fm_run *r, fm_worker *w, const fm_place *p, fm_err *err)
{
    uint64_t first = p->first, rows = p->rows, cols = p->cols;
    const fm_job *j = r->job;
    const fm_scheme *s = &j->target.scheme;
    unsigned bits = fm_grid_bits(s->grid);
    if (j->layout == FM_LAYOUT_BITSANDBYTES) { // high nibble first
        uint64_t n = rows * cols;
        fm_nibbles_pack(FM_NIBBLE_HIGH_FIRST, n, w->codes, w->packed);
        return fm_part_write(r, FM_PART_CODES, first / 2, w->packed, divide_up(n, 2), err);
    }
    // signed codes become unsigned; asymmetric ones are already
    unsigned offset = fm_grid_kind_of(s->grid) == FM_GRID_KIND_INTEGER && !s->asymmetric ? 1u << (bits - 1) : 0;
    if (s->granularity == FM_GRANULARITY_FLAT) {
        fm_pack_bits(bits, rows * cols, w->codes, offset, w->packed);
        return fm_part_write(r, FM_PART_CODES, first * bits / 8, w->packed, divide_up(rows * cols * bits, 8), err);
    }
    // a row's last piece has the bytes that fill it up
    uint64_t row_bytes = fm_job_row_bytes(j), at = p->col * bits / 8, used = divide_up(cols * bits, 8);
    uint64_t size = p->col + cols == r->cut.cols ? row_bytes - at : used;
    for (uint64_t i = 0; i < rows; i++) {
        fm_pack_bits(bits, cols, w->codes + i * cols, offset, w->packed + i * size);
        memset(w->packed + i * size + used, 0, size - used);
    }
    if (size == row_bytes)
        return fm_part_write(r, FM_PART_CODES, p->row * row_bytes, w->packed, rows * row_bytes, err);
    fm_status status = FM_OK;
    for (uint64_t i = 0; i < rows && !status; i++)
        status = fm_part_write(r, FM_PART_CODES, (p->row + i) * row_bytes + at, w->packed + i * size, size, err);
    return status;
}

// The scales of a tile's own groups: found, then written row of groups by row of groups.
static fm_status tile_scales(fm_run *r, fm_worker *w, const fm_place *p, fm_tile_result *res, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    uint64_t gr, gc, before = fm_groups_before(r, p), all_rows, across;
    fm_scheme_groups(s, p->rows, p->cols, &gr, &gc);
    const float *weights = r->weights ? r->weights + p->col : NULL;
    fm_status status =
        fm_quantize_calibrate(s, p->rows, p->cols, p->cols, w->x, weights, r->tensor.global, w->scales, err);
    if (status)
        return status;
    if (s->scale == FM_SCALE_DOUBLE) {
        float scale2[FM_TILE_ELEMS / 256 + 1];
        uint64_t n2 = divide_up(gr * gc, 256);
        fm_scales_double(gr * gc, w->scales, r->tensor.offset, scale2);
        if ((status = fm_part_write(r, FM_PART_SCALE2, before / 256 * 4, scale2, n2 * 4, err)))
            return status;
    }
    for (uint64_t i = 0; i < gr * gc; i++)
        res->error.n_saturated_scales += w->scales[i].saturated;
    fm_scheme_groups(s, 1, r->cut.cols, &all_rows, &across);
    uint64_t parts = p->cols == r->cut.cols || !gr ? 1 : gr, n = gr * gc / parts;
    for (uint64_t i = 0; i < parts && !status; i++)
        status = fm_scales_write(r, w, w->scales + i * n, n, before + i * across, err);
    if (!status && s->asymmetric && r->job->layout != FM_LAYOUT_OWN && gc)
        status = fm_zeros_write(r, w, w->scales, gr, gc, before / across, before % across, err);
    return status;
}

static fm_status tile_scheme(fm_run *r, fm_worker *w, const fm_place *p, fm_tile_result *res, fm_err *err)
{
    const fm_scheme *s = &r->job->target.scheme;
    fm_status status = fm_tile_load(r, w, p, &res->n_non_finite, err);
    if (status)
        return status;
    bool hard = res->n_non_finite && r->o->non_finite == FM_NON_FINITE_KEEP && fm_tile_soften(w->x, p->n, w->scratch);
    const fm_group_scale *scales = w->scales;
    if (r->scales)
        scales = r->scales + (s->granularity == FM_GRANULARITY_COLUMN ? p->col - r->cut.first_col
                              : s->granularity == FM_GRANULARITY_ROW  ? p->row
                                                                      : 0);
    else if ((status = tile_scales(r, w, p, res, err)))
        return status;
    if (hard)
        harden(s, p->rows, p->cols, w->scratch, scales, w->x, w->codes);
    else
        fm_quantize_encode(s, p->rows, p->cols, p->cols, w->x, scales, w->codes);
    fm_quantize_decode(s, p->rows, p->cols, w->codes, scales, w->decoded);
    fm_quant_error_add(&res->error, s, p->rows, p->cols, p->cols, w->x, w->decoded, scales);
    // What the grid times its scale passes the largest fp32: infinite to every reader.
    res->n_overflowed = res->error.n_unmeasured - (r->o->non_finite == FM_NON_FINITE_KEEP ? res->n_non_finite : 0);
    return write_codes(r, w, p, err);
}

static void profile_tile(fm_run *r, fm_worker *w, uint64_t tile, const fm_place *p, fm_tile_result *res)
{
    res->profile.column_max = fm_job_has_columns(r->job) ? w->column_max + p->col : NULL;
    if (!r->row_max) {
        fm_quant_profile_add(&res->profile, p->rows, p->cols, p->cols, w->x);
        return;
    }
    for (uint64_t i = 0; i < p->rows; i++) {
        fm_quant_profile one = {.column_max = res->profile.column_max};
        fm_quant_profile_add(&one, 1, p->cols, p->cols, w->x + i * p->cols);
        r->tile_row_max[tile * r->cut.tile_rows + i] = one.max;
        res->profile.n_elems += one.n_elems;
        res->profile.block_sum += one.block_sum;
        res->profile.max = one.max > res->profile.max ? one.max : res->profile.max;
    }
}

fm_status fm_tile_encode(void *context, uint64_t tile, unsigned index, fm_err *err)
{
    fm_run *r = context;
    fm_worker *w = r->workers + index;
    fm_tile_result *res = r->results + tile;
    fm_place p = fm_tile_place(&r->cut, tile);
    fm_status status;
    switch (r->job->target.kind) {
    case FM_JOB_KEEP:
        status = tile_keep(r, w, &p, res, err);
        break;
    case FM_JOB_CAST:
        status = tile_cast(r, w, &p, res, err);
        break;
    case FM_JOB_BLOCKS:
        status = tile_blocks(r, w, &p, res, err);
        break;
    default:
        status = tile_scheme(r, w, &p, res, err);
    }
    if (!status && fm_job_is_profiled(r->job))
        profile_tile(r, w, tile, &p, res);
    fm_progress_add(&r->progress, fm_tile_input_bytes(r->job->in, p.n));
    return status;
}
