// How codes and scales lie in the file: compressed-tensors' names and packing, bitsandbytes', our own (docs/quantize.md),
// and GGUF. Sources: compressed-tensors 0.18, src/compressed_tensors/compressors; bitsandbytes 0.50, functional.py
// (QuantState.as_dict); facts of both checked by tools/compare.
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json_out.h"
#include "command/quantize_job.h"

unsigned fm_scale_bytes(fm_scale scale)
{
    static const unsigned bytes[FM_N_SCALES] = {[FM_SCALE_FP32] = 4, [FM_SCALE_FP16] = 2, [FM_SCALE_BF16] = 2,
                                                [FM_SCALE_E8M0] = 1, [FM_SCALE_E4M3] = 1, [FM_SCALE_DOUBLE] = 1};
    return bytes[scale];
}

static fm_tensor_type scale_type(fm_scale scale)
{
    static const fm_tensor_type types[FM_N_SCALES] = {
        [FM_SCALE_FP32] = FM_TENSOR_F32, [FM_SCALE_FP16] = FM_TENSOR_F16,     [FM_SCALE_BF16] = FM_TENSOR_BF16,
        [FM_SCALE_E8M0] = FM_TENSOR_U8,  [FM_SCALE_E4M3] = FM_TENSOR_F8_E4M3, [FM_SCALE_DOUBLE] = FM_TENSOR_U8};
    return types[scale];
}

static fm_tensor_type cast_type(fm_number number)
{
    return number == FM_FP32       ? FM_TENSOR_F32
           : number == FM_FP16     ? FM_TENSOR_F16
           : number == FM_BF16     ? FM_TENSOR_BF16
           : number == FM_FP8_E4M3 ? FM_TENSOR_F8_E4M3
                                   : FM_TENSOR_F8_E5M2;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

uint64_t fm_job_row_bytes(const fm_job *j)
{
    unsigned bits = fm_grid_bits(j->target.scheme.grid);
    bool words =
        j->layout == FM_LAYOUT_COMPRESSED_TENSORS && fm_grid_kind_of(j->target.scheme.grid) == FM_GRID_KIND_INTEGER;
    return words ? divide_up(j->cols * bits, 32) * 4 : divide_up(j->cols * bits, 8);
}

// One tensor of the output that belongs to a job.
typedef struct {
    fm_part part;
    const char *suffix; // after the tensor's name
    fm_tensor_type type;
    uint32_t n_dims;
    uint64_t dims[8];
} piece;

enum { MAX_PIECES = 7 };

static int compressed_tensors_pieces(const fm_job *j, piece *p)
{
    const fm_scheme *s = &j->target.scheme;
    uint64_t gr, gc, row_bytes = fm_job_row_bytes(j);
    unsigned bits = fm_grid_bits(s->grid);
    int n = 0;
    fm_scheme_groups(s, j->rows, j->cols, &gr, &gc);
    bool integer = fm_grid_kind_of(s->grid) == FM_GRID_KIND_INTEGER, one = s->granularity == FM_GRANULARITY_TENSOR;
    if (integer)
        p[n++] = (piece){FM_PART_CODES, "_packed", FM_TENSOR_I32, 2, {j->rows, row_bytes / 4}};
    else if (bits == 8)
        p[n++] = (piece){FM_PART_CODES, "", FM_TENSOR_F8_E4M3, 2, {j->rows, j->cols}};
    else
        p[n++] = (piece){FM_PART_CODES, "_packed", FM_TENSOR_U8, 2, {j->rows, row_bytes}};
    p[n++] = (piece){FM_PART_SCALE, "_scale", scale_type(s->scale), one ? 1 : 2, {gr, gc}};
    if (integer)
        p[n++] = (piece){FM_PART_SHAPE, "_shape", FM_TENSOR_I64, 1, {2}};
    if (s->asymmetric && one)
        p[n++] = (piece){FM_PART_ZERO, "_zero_point", FM_TENSOR_I8, 1, {1}};
    else if (s->asymmetric)
        p[n++] = (piece){FM_PART_ZERO, "_zero_point", FM_TENSOR_I32, 2, {divide_up(gr * bits, 32), gc}};
    if (s->scale == FM_SCALE_E4M3)
        p[n++] = (piece){FM_PART_GLOBAL, "_global_scale", FM_TENSOR_F32, 1, {1}};
    return n;
}

static int bitsandbytes_pieces(const fm_job *j, piece *p)
{
    const fm_scheme *s = &j->target.scheme;
    uint64_t n_blocks = divide_up(j->in->n_elems, s->block_cols);
    bool twice = s->scale == FM_SCALE_DOUBLE;
    int n = 0;
    p[n++] = (piece){FM_PART_CODES, "", FM_TENSOR_U8, 2, {divide_up(j->in->n_elems, 2), 1}};
    p[n++] = (piece){FM_PART_SCALE, ".absmax", twice ? FM_TENSOR_U8 : FM_TENSOR_F32, 1, {n_blocks}};
    p[n++] = (piece){FM_PART_TABLE, ".quant_map", FM_TENSOR_F32, 1, {16}};
    if (twice) {
        p[n++] = (piece){FM_PART_SCALE2, ".nested_absmax", FM_TENSOR_F32, 1, {divide_up(n_blocks, 256)}};
        p[n++] = (piece){FM_PART_TABLE2, ".nested_quant_map", FM_TENSOR_F32, 1, {256}};
    }
    const char *suffix = s->grid == FM_GRID_NF4 ? ".quant_state.bitsandbytes__nf4" : ".quant_state.bitsandbytes__fp4";
    p[n++] = (piece){FM_PART_STATE, suffix, FM_TENSOR_U8, 1, {0}}; // its length is known after the run
    return n;
}

static int own_pieces(const fm_job *j, piece *p)
{
    const fm_scheme *s = &j->target.scheme;
    uint64_t gr, gc;
    int n = 0;
    fm_scheme_groups(s, j->rows, j->cols, &gr, &gc);
    if (s->granularity == FM_GRANULARITY_FLAT)
        p[n++] = (piece){
            FM_PART_CODES, ".fm_codes", FM_TENSOR_U8, 1, {divide_up(j->in->n_elems * fm_grid_bits(s->grid), 8)}};
    else
        p[n++] = (piece){FM_PART_CODES, ".fm_codes", FM_TENSOR_U8, 2, {j->rows, fm_job_row_bytes(j)}};
    p[n++] = (piece){FM_PART_SCALE, ".fm_scale", scale_type(s->scale), 2, {gr, gc}};
    if (s->asymmetric)
        p[n++] = (piece){FM_PART_ZERO, ".fm_zero", FM_TENSOR_U8, 2, {gr, gc}};
    if (s->scale == FM_SCALE_DOUBLE)
        p[n++] = (piece){FM_PART_SCALE2, ".fm_scale2", FM_TENSOR_F32, 1, {divide_up(gr * gc, 256)}};
    if (s->scale == FM_SCALE_DOUBLE || s->scale == FM_SCALE_E4M3)
        p[n++] =
            (piece){FM_PART_GLOBAL, s->scale == FM_SCALE_E4M3 ? ".fm_global" : ".fm_offset", FM_TENSOR_F32, 1, {1}};
    p[n++] = (piece){FM_PART_STATE, ".fm_scheme", FM_TENSOR_U8, 1, {0}};
    return n;
}

// ---- texts ----

// bitsandbytes keeps the rest of its state as JSON. nested_offset is filled in after the run: room for it is kept by
// padding with blanks, which JSON allows.
enum { STATE_BYTES = 320 };

static fm_status make_state(fm_job *j, fm_err *err)
{
    fm_buf b = {0};
    fm_json json;
    char text[FM_SCHEME_TEXT_BYTES];
    const fm_scheme *s = &j->target.scheme;
    fm_json_init(&json, &b, false);
    fm_json_begin_object(&json);
    if (j->layout == FM_LAYOUT_BITSANDBYTES) {
        fm_json_put_text(&json, "quant_type", fm_grid_name(s->grid));
        fm_json_put_u64(&json, "blocksize", s->block_cols);
        fm_json_put_text(&json, "dtype",
                         j->in->type == FM_TENSOR_F16    ? "float16"
                         : j->in->type == FM_TENSOR_BF16 ? "bfloat16"
                                                         : "float32");
    } else {
        fm_json_put_text(&json, "scheme", fm_scheme_text(s, text));
        fm_json_put_text(&json, "grid", fm_grid_name(s->grid));
        fm_json_put_u64(&json, "bits", fm_grid_bits(s->grid));
        fm_json_put_text(&json, "granularity", fm_granularity_name(s->granularity));
        fm_json_put_u64(&json, "block_rows", s->block_rows);
        fm_json_put_u64(&json, "block_cols", s->block_cols);
        fm_json_put_bool(&json, "asymmetric", s->asymmetric);
        fm_json_put_text(&json, "scale", fm_scale_name(s->scale));
        if (s->scale == FM_SCALE_E4M3)
            fm_json_put_text(&json, "global", s->nvfp4 == FM_NVFP4_DIVIDE ? "divide" : "multiply");
    }
    fm_json_key(&json, "shape");
    fm_json_begin_array(&json);
    for (uint32_t d = 0; d < j->in->n_dims; d++)
        fm_json_u64(&json, j->in->dims[d]);
    fm_json_end_array(&json);
    if (j->layout == FM_LAYOUT_BITSANDBYTES && s->scale == FM_SCALE_DOUBLE) {
        fm_json_put_u64(&json, "nested_blocksize", 256);
        fm_json_put_text(&json, "nested_dtype", "float32");
        fm_json_put_text(&json, "nested_offset", "@"); // replaced by fm_state_with_offset
    }
    fm_json_end_object(&json);
    fm_status status = fm_buf_check(&b, err);
    if (!status && b.size > STATE_BYTES)
        status =
            fm_fail(err, FM_ERR_OVERFLOW, "tensor \"%s\" has too many dimensions for its description", j->in->name);
    if (!status) {
        while (b.size < STATE_BYTES)
            fm_buf_add_char(&b, ' ');
        status = fm_buf_check(&b, err);
    }
    if (!status)
        j->state = fm_buf_take(&b, NULL);
    fm_buf_reset(&b);
    return status;
}

static int pieces_of(const fm_job *j, bool to_gguf, piece *p)
{
    *p = (piece){FM_PART_CODES, "", j->in->type, j->in->n_dims, {0}};
    if (j->target.kind == FM_JOB_CAST)
        p->type = cast_type(j->target.number);
    if (j->target.kind == FM_JOB_BLOCKS)
        p->type = fm_tensor_type_by_ggml(j->target.blocks->ggml_type)->type;
    if (j->target.kind != FM_JOB_SCHEME || to_gguf) {
        for (uint32_t d = 0; d < j->in->n_dims && d < 8; d++)
            p->dims[d] = j->in->dims[d];
        return 1;
    }
    switch (j->layout) {
    case FM_LAYOUT_COMPRESSED_TENSORS:
        return compressed_tensors_pieces(j, p);
    case FM_LAYOUT_BITSANDBYTES:
        return bitsandbytes_pieces(j, p);
    default:
        return own_pieces(j, p);
    }
}

uint64_t fm_job_output_bytes(const fm_job *j, bool to_gguf)
{
    piece p[MAX_PIECES];
    uint64_t sum = 0;
    if (j->target.kind == FM_JOB_KEEP)
        return j->in->bytes;
    if (j->target.kind == FM_JOB_CAST)
        return j->in->n_elems * fm_number_info(j->target.number)->storage_bytes;
    if (j->target.kind == FM_JOB_BLOCKS)
        return j->in->n_elems / j->target.blocks->block_elems * j->target.blocks->block_bytes;
    for (int n = pieces_of(j, to_gguf, p), i = 0; i < n; i++) {
        uint64_t elems, bytes;
        if (p[i].part == FM_PART_STATE)
            bytes = STATE_BYTES;
        else if (fm_tensor_size(p[i].type, p[i].n_dims, p[i].dims, &elems, &bytes, NULL))
            bytes = 0;
        sum += bytes;
    }
    return sum;
}

// ---- metadata ----

static const char *strategy(const fm_scheme *s)
{
    if (s->scale == FM_SCALE_E4M3)
        return "tensor_group";
    switch (s->granularity) {
    case FM_GRANULARITY_TENSOR:
        return "tensor";
    case FM_GRANULARITY_ROW:
        return "channel";
    case FM_GRANULARITY_TILE:
        return "block";
    default:
        return "group";
    }
}

static const char *compressor(const fm_scheme *s)
{
    if (fm_grid_kind_of(s->grid) == FM_GRID_KIND_INTEGER)
        return "pack-quantized";
    if (s->scale == FM_SCALE_E4M3)
        return "nvfp4-pack-quantized";
    if (s->scale != FM_SCALE_E8M0)
        return "float-quantized";
    return fm_grid_bits(s->grid) == 8   ? "mxfp8-quantized"
           : fm_grid_bits(s->grid) == 6 ? "mxfp6-pack-quantized"
                                        : "mxfp4-pack-quantized";
}

// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight".
static void add_module(fm_json *json, const char *name)
{
    size_t n = strlen(name);
    if (n > 7 && strcmp(name + n - 7, ".weight") == 0)
        n -= 7;
    fm_json_text_n(json, name, n);
}

static bool same_scheme(const fm_job *x, const fm_job *y)
{
    const fm_scheme *a = &x->target.scheme, *b = &y->target.scheme;
    return x->layout == y->layout && a->grid == b->grid && a->asymmetric == b->asymmetric &&
           a->granularity == b->granularity && a->block_rows == b->block_rows && a->block_cols == b->block_cols &&
           a->scale == b->scale;
}

static bool in_compressed_tensors(const fm_job *j)
{
    return j->target.kind == FM_JOB_SCHEME && j->layout == FM_LAYOUT_COMPRESSED_TENSORS;
}

static void put_weights(fm_json *json, const fm_scheme *s)
{
    bool integer = fm_grid_kind_of(s->grid) == FM_GRID_KIND_INTEGER;
    fm_json_key(json, "weights");
    fm_json_begin_object(json);
    fm_json_put_u64(json, "num_bits", fm_grid_bits(s->grid));
    fm_json_put_text(json, "type", integer ? "int" : "float");
    fm_json_put_bool(json, "symmetric", !s->asymmetric);
    fm_json_put_text(json, "strategy", strategy(s));
    if (s->granularity == FM_GRANULARITY_BLOCK)
        fm_json_put_u64(json, "group_size", s->block_cols);
    if (s->granularity == FM_GRANULARITY_TILE) {
        fm_json_key(json, "block_structure");
        fm_json_begin_array(json);
        fm_json_u64(json, s->block_rows);
        fm_json_u64(json, s->block_cols);
        fm_json_end_array(json);
    }
    fm_json_put_bool(json, "dynamic", false);
    if (s->scale == FM_SCALE_E8M0)
        fm_json_put_text(json, "scale_dtype", "torch.uint8");
    if (s->scale == FM_SCALE_E4M3)
        fm_json_put_text(json, "scale_dtype", "torch.float8_e4m3fn");
    fm_json_end_object(json);
}

// The quantization_config of a config.json, as compressed-tensors reads it: a group for each scheme with its modules.
static fm_status quantization_config(const fm_job_list *list, char **out, fm_err *err)
{
    fm_buf b = {0};
    fm_json json;
    const char *format = NULL;
    bool mixed = false;
    for (size_t i = 0; i < list->n_jobs; i++)
        if (in_compressed_tensors(list->jobs + i)) {
            const char *one = compressor(&list->jobs[i].target.scheme);
            mixed |= format && strcmp(format, one) != 0;
            format = one;
        }
    fm_json_init(&json, &b, false);
    fm_json_begin_object(&json);
    fm_json_put_text(&json, "quant_method", "compressed-tensors");
    fm_json_put_text(&json, "format", mixed ? "mixed-precision" : format);
    fm_json_put_text(&json, "quantization_status", "compressed");
    fm_json_key(&json, "config_groups");
    fm_json_begin_object(&json);
    int group = 0;
    for (size_t i = 0; i < list->n_jobs; i++) {
        const fm_job *j = list->jobs + i;
        bool first = in_compressed_tensors(j);
        for (size_t k = 0; first && k < i; k++)
            first = !(in_compressed_tensors(list->jobs + k) && same_scheme(list->jobs + k, j));
        if (!first)
            continue;
        char name[32];
        snprintf(name, sizeof name, "group_%d", group++);
        fm_json_key(&json, name);
        fm_json_begin_object(&json);
        fm_json_key(&json, "targets");
        fm_json_begin_array(&json);
        for (size_t k = i; k < list->n_jobs; k++)
            if (in_compressed_tensors(list->jobs + k) && same_scheme(list->jobs + k, j))
                add_module(&json, list->jobs[k].in->name);
        fm_json_end_array(&json);
        put_weights(&json, &j->target.scheme);
        fm_json_put_text(&json, "format", compressor(&j->target.scheme));
        fm_json_end_object(&json);
    }
    fm_json_end_object(&json);
    fm_json_key(&json, "ignore");
    fm_json_begin_array(&json);
    for (size_t i = 0; i < list->n_jobs; i++)
        if (!in_compressed_tensors(list->jobs + i) && list->jobs[i].in->n_dims == 2)
            add_module(&json, list->jobs[i].in->name);
    fm_json_end_array(&json);
    fm_json_end_object(&json);
    fm_status status = fm_buf_check(&b, err);
    if (!status)
        *out = fm_buf_take(&b, NULL);
    fm_buf_reset(&b);
    return status;
}

// ---- opening ----

static fm_status add_pieces(fm_sink *s, fm_job *j, bool to_gguf, fm_err *err)
{
    piece p[MAX_PIECES];
    fm_status status = FM_OK;
    fm_buf name = {0};
    if (j->target.kind == FM_JOB_SCHEME && j->layout != FM_LAYOUT_COMPRESSED_TENSORS && (status = make_state(j, err)))
        return status;
    int n = pieces_of(j, to_gguf, p);
    for (int i = 0; i < n && !status; i++) {
        const uint64_t *dims = n == 1 && j->target.kind != FM_JOB_SCHEME ? j->in->dims : p[i].dims;
        if (p[i].part == FM_PART_STATE)
            p[i].dims[0] = STATE_BYTES;
        fm_buf_clear(&name);
        fm_buf_add_text(&name, j->in->name);
        fm_buf_add_text(&name, p[i].suffix);
        if ((status = fm_buf_check(&name, err)))
            break;
        status = to_gguf ? fm_gguf_writer_add(s->gguf, fm_buf_text(&name), p[i].type, p[i].n_dims, dims,
                                              &j->part[p[i].part], err)
                         : fm_safetensors_writer_add(s->st, fm_buf_text(&name), p[i].type, p[i].n_dims, dims,
                                                     &j->part[p[i].part], err);
    }
    fm_buf_reset(&name);
    return status;
}

static fm_status gguf_keys(const fm_quantize_options *o, const fm_weights *in, const fm_job_list *list,
                           fm_gguf_writer *w, fm_err *err)
{
    fm_status status = FM_OK;
    const fm_gguf *g = fm_weights_gguf(in);
    uint32_t file_type;
    if (g && (status = fm_gguf_writer_copy_keys(w, g, err)))
        return status;
    static const char *const split[] = {"split.no", "split.count", "split.tensors.count"};
    for (int i = 0; i < 3; i++)
        fm_gguf_writer_remove(w, split[i]);
    bool blocks = false;
    for (size_t i = 0; i < list->n_jobs; i++)
        blocks |= list->jobs[i].target.kind == FM_JOB_BLOCKS;
    if (blocks && (status = fm_gguf_writer_u32(w, "general.quantization_version", 2, err)))
        return status;
    if (fm_mix_file_type(o, &file_type))
        status = fm_gguf_writer_u32(w, "general.file_type", file_type, err);
    return status;
}

static fm_status safetensors_metadata(const fm_weights *in, const fm_job_list *list, fm_safetensors_writer *w,
                                      fm_err *err)
{
    fm_status status = FM_OK;
    const fm_safetensors *st = fm_weights_safetensors(in);
    for (size_t i = 0; st && i < fm_safetensors_n_metadata(st) && !status; i++)
        if (strcmp(fm_safetensors_metadata_key(st, i), "quantization_config") != 0)
            status = fm_safetensors_writer_metadata(w, fm_safetensors_metadata_key(st, i),
                                                    fm_safetensors_metadata_value(st, i), err);
    bool any = false;
    for (size_t i = 0; i < list->n_jobs; i++)
        any |= in_compressed_tensors(list->jobs + i);
    if (status || !any)
        return status;
    char *config = NULL;
    if ((status = quantization_config(list, &config, err)) == FM_OK)
        status = fm_safetensors_writer_metadata(w, "quantization_config", config, err);
    fm_free(config);
    return status;
}

fm_status fm_sink_open(const fm_quantize_options *o, const fm_weights *in, fm_job_list *list, fm_sink *out, fm_err *err)
{
    fm_sink s = {0};
    fm_status status;
    if (o->to_gguf) {
        if (!(status = fm_gguf_writer_create(o->out, o->force, &s.gguf, err)))
            status = gguf_keys(o, in, list, s.gguf, err);
    } else if (!(status = fm_safetensors_writer_create(o->out, o->shard_bytes, o->force, &s.st, err))) {
        status = safetensors_metadata(in, list, s.st, err);
    }
    for (size_t i = 0; i < list->n_jobs && !status; i++)
        status = add_pieces(&s, list->jobs + i, o->to_gguf, err);
    if (!status)
        status = o->to_gguf ? fm_gguf_writer_begin(s.gguf, err) : fm_safetensors_writer_begin(s.st, err);
    if (status)
        fm_sink_reset(&s);
    else
        *out = s;
    return status;
}

fm_status fm_sink_write(fm_sink *s, size_t index, uint64_t offset, const void *bytes, size_t n, fm_err *err)
{
    return s->gguf ? fm_gguf_writer_write(s->gguf, index, offset, bytes, n, err)
                   : fm_safetensors_writer_write(s->st, index, offset, bytes, n, err);
}

fm_status fm_sink_finish(fm_sink *s, double *sync_seconds, fm_err *err)
{
    return s->gguf ? fm_gguf_writer_finish(s->gguf, sync_seconds, err)
                   : fm_safetensors_writer_finish(s->st, sync_seconds, err);
}

void fm_sink_reset(fm_sink *s)
{
    fm_gguf_writer_destroy(s->gguf);
    fm_safetensors_writer_destroy(s->st);
    *s = (fm_sink){0};
}
