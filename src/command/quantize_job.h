// What `floodmark quantize` was asked, what becomes of each tensor, and what came of it. Private to the commands.
#ifndef FM_COMMAND_QUANTIZE_JOB_H
#define FM_COMMAND_QUANTIZE_JOB_H
#include <stdbool.h>
#include "base/buf.h"
#include "floodmark/block_format.h"
#include "floodmark/gguf.h"
#include "floodmark/number.h"
#include "floodmark/quant_report.h"
#include "floodmark/safetensors.h"
#include "floodmark/weights.h"

// What a format's name stands for in a container.
typedef enum {
    FM_JOB_KEEP,   // the bytes as they are
    FM_JOB_CAST,   // a number format, no scales
    FM_JOB_BLOCKS, // a block format of GGUF
    FM_JOB_SCHEME, // grid, scales, calibration
} fm_job_kind;

typedef struct {
    fm_job_kind kind;
    fm_number number;              // cast
    const fm_block_format *blocks; // blocks
    fm_scheme scheme;              // scheme
    const char *name;              // as the user wrote it
} fm_target;

typedef enum { FM_MIX_NONE, FM_MIX_Q3_K_M, FM_MIX_Q4_K_S, FM_MIX_Q4_K_M, FM_MIX_Q5_K_M, FM_MIX_Q6_K } fm_mix;

typedef enum { FM_NON_FINITE_STOP, FM_NON_FINITE_KEEP, FM_NON_FINITE_ZERO } fm_non_finite;

typedef struct {
    char *pattern; // a glob on the whole name
    fm_target target;
} fm_keep;

enum { FM_QUANTIZE_REPORTS = 8 };

typedef struct {
    const char *in, *out, *format;
    const char *granularity, *symmetry, *calibration, *scale; // as written, NULL when not given
    const char *imatrix, *activations;
    const char *keep_words[64]; // PATTERN=F, in order
    size_t n_keeps;
    fm_keep keeps[64];
    const char *reports[FM_QUANTIZE_REPORTS];
    size_t n_reports;
    bool all, force, dry_run, json, rescue;
    fm_non_finite non_finite;
    unsigned threads; // 0: as many as there are processors
    uint64_t shard_bytes;
    bool to_gguf;
    fm_target target;
    fm_mix mix;
} fm_quantize_options;

// The tensors that one tensor becomes in safetensors. Which exist depends on the layout.
typedef enum {
    FM_PART_CODES,
    FM_PART_SCALE,
    FM_PART_ZERO,
    FM_PART_SHAPE,
    FM_PART_GLOBAL, // nvfp4's tensor scale; our layout: [global or offset]
    FM_PART_SCALE2, // of the scales, when double
    FM_PART_TABLE,
    FM_PART_TABLE2,
    FM_PART_STATE, // bitsandbytes' and our own description
    FM_N_PARTS,
} fm_part;

typedef struct {
    const fm_tensor_info *in;
    size_t index; // in the input
    fm_target target;
    fm_layout layout;
    uint64_t rows, cols; // as a matrix
    char note[128];      // why it stays or fell back; "" otherwise
    bool fell_back;
    uint64_t bytes_out;
    size_t part[FM_N_PARTS]; // the writer's index, SIZE_MAX where there is none
    char *state;             // text of FM_PART_STATE, NULL; owned
    // results
    bool measured;
    fm_quant_error error;
    fm_quant_advice advice;
    bool advised;
    uint64_t n_non_finite; // kept or zeroed
    uint64_t n_overflowed; // became infinite, NaN or a block without a valid scale
} fm_job;

typedef struct {
    fm_job *jobs;
    size_t n_jobs;
    double sync_seconds;
} fm_job_list;

void fm_job_list_reset(fm_job_list *list);

// ---- quantize_target.c ----
// Reads a format's name for a container, with the words on scheme (NULL: none). FM_ERR_USAGE / FM_ERR_UNSUPPORTED names
// what does not exist. *mix (may be NULL: mixes refused).
fm_status fm_target_parse(const char *format, bool to_gguf, const fm_quantize_options *words, fm_target *out,
                          fm_mix *mix, fm_err *err) FM_MUST_USE;
// "q4_k", "int4 block:128 scale fp32 mse", "bf16", "as it is". Returns out.
char *fm_target_text(const fm_target *t, char out[FM_SCHEME_TEXT_BYTES]);

// ---- quantize_plan.c ----
// Decides each tensor. FM_ERR_UNSUPPORTED, FM_ERR_NO_MEMORY.
fm_status fm_quantize_plan(const fm_quantize_options *o, const fm_weights *in, fm_job_list *out,
                           fm_err *err) FM_MUST_USE;

// ---- quantize_mix.c ----
// The block type that llama-quantize's mix gives each tensor of a GGUF model; jobs that stay are left alone.
fm_status fm_mix_apply(fm_mix mix, const fm_gguf *model, fm_job_list *list, bool has_imatrix, fm_err *err) FM_MUST_USE;
bool fm_mix_find(const char *name, fm_mix *mix, const fm_block_format **base, uint32_t *file_type);
// Whether IN says of which architecture it is, without which no mix can choose.
bool fm_mix_knows(const fm_weights *in);
// GGUF's general.file_type for a format or mix; false when there is none.
bool fm_mix_file_type(const fm_quantize_options *o, uint32_t *file_type);
// llama-quantize's rule on names: true when a tensor of this name may be quantized.
bool fm_mix_name_allows(const char *name);

// ---- quantize_layout.c ----
typedef struct {
    fm_safetensors_writer *st;
    fm_gguf_writer *gguf;
} fm_sink;

fm_status fm_sink_open(const fm_quantize_options *o, const fm_weights *in, fm_job_list *list, fm_sink *out,
                       fm_err *err) FM_MUST_USE;
fm_status fm_sink_write(fm_sink *s, size_t index, uint64_t offset, const void *bytes, size_t n,
                        fm_err *err) FM_MUST_USE;
fm_status fm_sink_finish(fm_sink *s, double *sync_seconds, fm_err *err) FM_MUST_USE;
void fm_sink_reset(fm_sink *s);
// Bytes that a job's tensors take in the output.
uint64_t fm_job_output_bytes(const fm_job *j, bool to_gguf);
// Parts of a packed row, in bytes: what a row of codes takes in this job's layout.
uint64_t fm_job_row_bytes(const fm_job *j);
unsigned fm_scale_bytes(fm_scale scale);

// ---- quantize_run.c ----
fm_status fm_quantize_run(const fm_quantize_options *o, const fm_weights *in, fm_job_list *list, fm_sink *sink,
                          fm_err *err) FM_MUST_USE;

// ---- quantize_stats.c ----
// The importance of columns, by weight name, from an imatrix file or an activations file (docs/quantize.md).
typedef struct fm_column_stats fm_column_stats;
fm_status fm_column_stats_open(const char *imatrix, const char *activations, fm_column_stats **out,
                               fm_err *err) FM_MUST_USE;
void fm_column_stats_destroy(fm_column_stats *s);
// [n_mats, cols] for the weight, or *out NULL when the file does not name it. FM_ERR_CONFLICT when the widths differ.
fm_status fm_column_stats_find(const fm_column_stats *s, const char *name, uint64_t cols, const float **out,
                               uint64_t *n_mats, fm_err *err) FM_MUST_USE;

// ---- quantize_view.c ----
// Appends the report as text or JSON.
fm_status fm_quantize_render(const fm_quantize_options *o, const fm_job_list *list, fm_buf *out,
                             fm_err *err) FM_MUST_USE;
fm_status fm_quantize_write_reports(const fm_quantize_options *o, const fm_job_list *list, fm_err *err) FM_MUST_USE;
void fm_quantize_warn(const fm_quantize_options *o, const fm_job_list *list);
#endif
