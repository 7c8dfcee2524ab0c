// What the tiles of `floodmark quantize` share: how a tensor is cut, what a worker has, the job at hand. Private.
#ifndef FM_COMMAND_QUANTIZE_RUN_H
#define FM_COMMAND_QUANTIZE_RUN_H
#include "base/pool.h"
#include "base/progress.h"
#include "command/quantize_job.h"

enum { FM_TILE_ELEMS = 1 << 18 }; // 1 MiB of fp32: a worker's five buffers stay in its share of the cache

// How a job is cut: `rows` rows of `cols` values (a flat tensor is one row).
typedef struct {
    uint64_t rows, cols;            // the matrix as it is walked
    uint64_t tile_rows, tile_cols;  // of a whole tile
    uint64_t first_col, strip_cols; // of the strip of columns at hand; strip_cols 0: there are none
    uint64_t n_tiles, tiles_a_row;  // of all, or of the strip
    bool pieces;                    // tiles are parts of rows
} fm_cut;

// Where a tile lies. first: its first value in the tensor.
typedef struct {
    uint64_t row, col, rows, cols, first, n;
} fm_place;

typedef struct {
    uint8_t *raw, *codes, *packed;
    float *x, *decoded, *scratch;
    float *column_max;
    fm_group_scale *scales;
} fm_worker;

typedef struct {
    fm_quant_error error;
    fm_quant_profile profile;
    fm_block_faults faults;
    uint64_t n_non_finite, n_overflowed;
} fm_tile_result;

typedef struct {
    const fm_quantize_options *o;
    const fm_weights *in;
    fm_sink *sink;
    fm_pool *pool;
    fm_progress progress;
    fm_worker *workers;
    unsigned n_workers;
    const fm_column_stats *stats;
    // of the job at hand
    fm_job *job;
    fm_cut cut;
    const float *weights; // [n_mats, cols], NULL
    uint64_t n_mats;
    fm_tensor_scale tensor;
    fm_group_scale *scales; // [n_scales]: of the tensor, of the columns (of a strip), of rows that are cut; else NULL
    uint64_t n_scales;
    double *block_sums; // double: one a block of 256 scales
    float *tile_max;    // nvfp4
    // where rows are cut: the largest magnitude of each row [rows], and of each row of each tile
    float *row_max, *tile_row_max;
    fm_tile_result *results;
} fm_run;

// Flat blocks do not keep rows and columns apart: nothing is said about their columns.
bool fm_job_is_profiled(const fm_job *j);

// Columns of wider tensors are not looked at one by one: their maxima would not fit.
bool fm_job_has_columns(const fm_job *j);

// ---- quantize_cut.c ----
// weighted: with the importance of each column, n_mats matrices of it. FM_GRANULARITY_COLUMN of wide tensors: the first
// strip.
fm_cut fm_cut_job(const fm_job *j, bool weighted, uint64_t n_mats);
// Turns to the strip of columns that begins with `col`.
void fm_cut_strip(fm_cut *c, uint64_t col);
fm_place fm_tile_place(const fm_cut *c, uint64_t tile);

// ---- quantize_scales.c ----
// What must be known before the first code, for the whole tensor or the strip at hand: fills r->tensor and r->scales.
fm_status fm_scales_prepare(fm_run *r, fm_err *err) FM_MUST_USE;

// ---- quantize_tile.c ----
// Bytes of n_elems values of the input, whole blocks.
uint64_t fm_tile_input_bytes(const fm_tensor_info *t, uint64_t n_elems);

// Reads a place and decodes it to w->x; counts what is not finite, or stops, or makes it zero.
fm_status fm_tile_load(fm_run *r, fm_worker *w, const fm_place *p, uint64_t *n_non_finite, fm_err *err) FM_MUST_USE;

// --non-finite keep: what is not finite becomes zero while scales are sought; `original` gets a copy. True when any was.
bool fm_tile_soften(float *x, uint64_t n, float *original);

fm_status fm_part_write(fm_run *r, fm_part part, uint64_t offset, const void *bytes, size_t n, fm_err *err) FM_MUST_USE;
// One scale as the file has it: fm_scale_bytes of them.
void fm_scale_store(fm_scale type, const fm_group_scale *g, uint8_t *out);
// n scales, and zero points where there are any but compressed-tensors' packed ones, from group `before` on.
fm_status fm_scales_write(fm_run *r, fm_worker *w, const fm_group_scale *scales, uint64_t n, uint64_t before,
                          fm_err *err) FM_MUST_USE;
// compressed-tensors' zero points of rows of groups from a multiple of 32 on.
fm_status fm_zeros_write(fm_run *r, fm_worker *w, const fm_group_scale *scales, uint64_t group_rows,
                         uint64_t group_cols, uint64_t first_group_row, uint64_t first_group_col,
                         fm_err *err) FM_MUST_USE;
// Number of the first group of a tile of blocks.
uint64_t fm_groups_before(const fm_run *r, const fm_place *p);

// The work on one tile: fm_pool_tile with an fm_run as context.
fm_status fm_tile_encode(void *context, uint64_t tile, unsigned worker, fm_err *err);
#endif
