// Decides what becomes of each tensor: which stay, which format the others take, what they fall back to.
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "command/quantize_job.h"

enum { SMALL_ELEMS = 4096 };

void fm_job_list_reset(fm_job_list *list)
{
    for (size_t i = 0; i < list->n_jobs; i++)
        fm_free(list->jobs[i].state);
    fm_free(list->jobs);
    *list = (fm_job_list){0};
}

static bool is_float(fm_tensor_type type)
{
    switch (type) {
    case FM_TENSOR_F64:
    case FM_TENSOR_F32:
    case FM_TENSOR_F16:
    case FM_TENSOR_BF16:
    case FM_TENSOR_F8_E4M3:
    case FM_TENSOR_F8_E5M2:
    case FM_TENSOR_F8_E4M3FNUZ:
    case FM_TENSOR_F8_E5M2FNUZ:
        return true;
    default:
        return false;
    }
}

static const fm_block_format *input_blocks(fm_tensor_type type)
{
    const fm_tensor_type_info *info = fm_tensor_type_of(type);
    const fm_block_format *f = info->ggml >= 0 ? fm_block_format_by_ggml_type((uint32_t)info->ggml) : NULL;
    return f && f->block_elems > 1 ? f : NULL;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

// "norm" as a word or its end ("input_layernorm", "norm1"), not the beginning of another ("normal"); "ln_f" after a dot.
static bool is_norm(const char *name)
{
    for (const char *s = name; (s = strstr(s, "norm")); s++)
        if (!((s[4] >= 'a' && s[4] <= 'z') || (s[4] >= 'A' && s[4] <= 'Z')))
            return true;
    return strncmp(name, "ln_", 3) == 0 || strstr(name, ".ln_");
}

// The stated rule: why a tensor stays as it is though --all was not given; NULL when it is quantized.
static const char *stays(const fm_job *j, bool from_gguf)
{
    const char *name = j->in->name;
    if (j->in->n_dims < 2 || (from_gguf && j->rows < 2)) // ggml does not count trailing dimensions of 1
        return "one dimension";
    if (from_gguf)
        return fm_mix_name_allows(name) ? NULL : "not a weight matrix by llama-quantize's rule";
    if (ends_with(name, "bias"))
        return "a bias";
    if (is_norm(name))
        return "a norm";
    return j->in->n_elems < SMALL_ELEMS ? "fewer than 4,096 values" : NULL;
}

static void shape_of(fm_job *j)
{
    const fm_tensor_info *t = j->in;
    j->cols = t->n_dims ? t->dims[t->n_dims - 1] : 1;
    j->rows = j->cols ? t->n_elems / j->cols : 0;
}

static void keep(fm_job *j, const char *why)
{
    j->target.kind = FM_JOB_KEEP;
    snprintf(j->note, sizeof j->note, "%s", why);
}

static void choose(const fm_quantize_options *o, bool from_gguf, fm_job *j)
{
    j->target = o->target;
    const char *why = NULL;
    if (!is_float(j->in->type) && !input_blocks(j->in->type))
        keep(j, "not a type that can be decoded here");
    else if (j->in->n_elems == 0)
        keep(j, "empty");
    if (j->note[0])
        return;
    for (size_t i = 0; i < o->n_keeps; i++)
        if (fnmatch(o->keeps[i].pattern, j->in->name, 0) == 0) {
            j->target = o->keeps[i].target;
            snprintf(j->note, sizeof j->note, "by --keep %.100s", o->keeps[i].pattern);
            return;
        }
    if (!o->all && (why = stays(j, from_gguf)))
        keep(j, why);
}

// Rows that are not a multiple of the block: llama-quantize's list, else f16.
static void fall_back(fm_job *j)
{
    static const struct {
        fm_block_type from, to;
    } chain[] = {{FM_BLOCK_Q2_K, FM_BLOCK_Q4_0}, {FM_BLOCK_Q3_K, FM_BLOCK_Q4_0}, {FM_BLOCK_Q4_K, FM_BLOCK_Q5_0},
                 {FM_BLOCK_Q5_K, FM_BLOCK_Q5_1}, {FM_BLOCK_Q6_K, FM_BLOCK_Q8_0}, {FM_BLOCK_IQ4_XS, FM_BLOCK_IQ4_NL}};
    if (j->target.kind != FM_JOB_BLOCKS || j->cols % j->target.blocks->block_elems == 0)
        return;
    const fm_block_format *wanted = j->target.blocks, *next = NULL;
    for (size_t i = 0; i < sizeof chain / sizeof *chain; i++)
        if (chain[i].from == wanted->type)
            next = fm_block_format_of(chain[i].to);
    j->fell_back = true;
    if (next && j->cols % next->block_elems == 0) {
        j->target.blocks = next;
    } else {
        next = NULL;
        j->target.kind = FM_JOB_CAST;
        j->target.number = FM_FP16;
    }
    snprintf(j->note, sizeof j->note, "rows of %llu do not divide by %u: %s instead of %s", (unsigned long long)j->cols,
             wanted->block_elems, next ? next->name : "f16", wanted->name);
}

static bool same_number(fm_tensor_type type, fm_number number)
{
    switch (number) {
    case FM_FP32:
        return type == FM_TENSOR_F32;
    case FM_FP16:
        return type == FM_TENSOR_F16;
    case FM_BF16:
        return type == FM_TENSOR_BF16;
    case FM_FP8_E4M3:
        return type == FM_TENSOR_F8_E4M3;
    case FM_FP8_E5M2:
        return type == FM_TENSOR_F8_E5M2;
    default:
        return false;
    }
}

static fm_status settle(fm_job *j, bool to_gguf, fm_err *err)
{
    if (j->target.kind == FM_JOB_CAST && same_number(j->in->type, j->target.number) && !j->fell_back)
        keep(j, j->note[0] ? j->note : "already of this type");
    if (j->target.kind == FM_JOB_SCHEME) {
        // The reference layouts are for matrices; bitsandbytes' holds any shape.
        j->layout = fm_scheme_layout(&j->target.scheme, j->rows, j->cols);
        if (j->layout == FM_LAYOUT_COMPRESSED_TENSORS && j->in->n_dims != 2)
            j->layout = FM_LAYOUT_OWN;
    }
    if (j->target.kind == FM_JOB_KEEP && to_gguf && fm_tensor_type_of(j->in->type)->ggml < 0)
        return fm_fail(err, FM_ERR_UNSUPPORTED,
                       "tensor \"%s\" stays %s, which GGUF does not have: give it a type with --keep", j->in->name,
                       fm_tensor_type_of(j->in->type)->name);
    if (j->target.kind == FM_JOB_KEEP && !to_gguf && !fm_tensor_type_of(j->in->type)->safetensors)
        return fm_fail(err, FM_ERR_UNSUPPORTED,
                       "tensor \"%s\" stays %s, which safetensors does not have: give it a type with --keep",
                       j->in->name, fm_tensor_type_of(j->in->type)->name);
    j->bytes_out = fm_job_output_bytes(j, to_gguf);
    return FM_OK;
}

fm_status fm_quantize_plan(const fm_quantize_options *o, const fm_weights *in, fm_job_list *out, fm_err *err)
{
    fm_job_list list = {.n_jobs = fm_weights_n_tensors(in)};
    bool from_gguf = fm_weights_kind_of(in) == FM_WEIGHTS_GGUF;
    fm_status status = FM_OK;
    list.jobs = fm_calloc(list.n_jobs, sizeof *list.jobs);
    if (!list.jobs)
        return fm_fail_memory(err, "tensors");
    for (size_t i = 0; i < list.n_jobs; i++) {
        fm_job *j = list.jobs + i;
        j->in = fm_weights_tensor(in, i);
        j->index = i;
        for (int p = 0; p < FM_N_PARTS; p++)
            j->part[p] = SIZE_MAX;
        shape_of(j);
        choose(o, from_gguf, j);
    }
    bool plain = o->mix == FM_MIX_NONE || (o->mix == FM_MIX_Q6_K && !fm_mix_knows(in)); // q6_k is a block format, too
    if (!plain && !from_gguf)
        status = fm_fail(err, FM_ERR_UNSUPPORTED,
                         "%s is a mix that goes by the names of a GGUF model; %s is safetensors: choose %s", o->format,
                         o->in, o->target.blocks->name);
    else if (!plain)
        status = fm_mix_apply(o->mix, fm_weights_gguf(in), &list, o->imatrix != NULL, err);
    for (size_t i = 0; i < list.n_jobs && !status; i++) {
        fall_back(list.jobs + i);
        status = settle(list.jobs + i, o->to_gguf, err);
    }
    if (status)
        fm_job_list_reset(&list);
    else
        *out = list;
    return status;
}
