// The mixes that llama-quantize knows by name, and its rule on which tensors may be quantized.
// Source: llama.cpp, src/llama-quant.cpp (2026-08): tensor_allows_quantization, llama_tensor_get_type_impl.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "command/quantize_job.h"

static const struct {
    const char *name;
    fm_mix mix;
    fm_block_type base;
    uint32_t file_type;
} mixes[] = {{"q3_k_m", FM_MIX_Q3_K_M, FM_BLOCK_Q3_K, 12},
             {"q4_k_s", FM_MIX_Q4_K_S, FM_BLOCK_Q4_K, 14},
             {"q4_k_m", FM_MIX_Q4_K_M, FM_BLOCK_Q4_K, 15},
             {"q5_k_m", FM_MIX_Q5_K_M, FM_BLOCK_Q5_K, 17},
             {"q6_k", FM_MIX_Q6_K, FM_BLOCK_Q6_K, 18}};

bool fm_mix_find(const char *name, fm_mix *mix, const fm_block_format **base, uint32_t *file_type)
{
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        if (strcmp(name, mixes[i].name) == 0) {
            *mix = mixes[i].mix;
            *base = fm_block_format_of(mixes[i].base);
            *file_type = mixes[i].file_type;
            return true;
        }
    return false;
}

bool fm_mix_knows(const fm_weights *in)
{
    return fm_weights_kind_of(in) == FM_WEIGHTS_GGUF && fm_gguf_find(fm_weights_gguf(in), "general.architecture");
}

bool fm_mix_file_type(const fm_quantize_options *o, uint32_t *file_type)
{
    static const struct {
        fm_block_type type;
        uint32_t number;
    } types[] = {{FM_BLOCK_Q4_0, 2},   {FM_BLOCK_Q4_1, 3},  {FM_BLOCK_Q8_0, 7},    {FM_BLOCK_Q5_0, 8},
                 {FM_BLOCK_Q5_1, 9},   {FM_BLOCK_Q2_K, 10}, {FM_BLOCK_Q3_K, 11},   {FM_BLOCK_Q4_K, 14},
                 {FM_BLOCK_Q5_K, 16},  {FM_BLOCK_Q6_K, 18}, {FM_BLOCK_IQ4_NL, 25}, {FM_BLOCK_IQ4_XS, 30},
                 {FM_BLOCK_MXFP4, 38}, {FM_BLOCK_NVFP4, 39}};
    const fm_block_format *base;
    fm_mix mix;
    if (o->mix != FM_MIX_NONE)
        return fm_mix_find(o->format, &mix, &base, file_type);
    if (o->target.kind == FM_JOB_CAST) {
        *file_type = o->target.number == FM_FP32 ? 0 : o->target.number == FM_FP16 ? 1 : 32;
        return true;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == o->target.blocks->type) {
            *file_type = types[i].number;
            return true;
        }
    return false;
}

bool fm_mix_name_allows(const char *name)
{
    static const char *const parts[] = {"_norm.weight",
                                        "ffn_gate_inp.weight",
                                        "ffn_gate_tid2eid.weight",
                                        "altup",
                                        "laurel",
                                        "per_layer_model_proj",
                                        "ssm_conv1d",
                                        "shortconv.conv.weight",
                                        "indexer.k_proj.weight",
                                        "indexer.q_proj.weight",
                                        "time_mix_first.weight",
                                        "time_mix_w0.weight",
                                        "time_mix_w1.weight",
                                        "time_mix_w2.weight",
                                        "time_mix_v0.weight",
                                        "time_mix_v1.weight",
                                        "time_mix_v2.weight",
                                        "time_mix_a0.weight",
                                        "time_mix_a1.weight",
                                        "time_mix_a2.weight",
                                        "time_mix_g1.weight",
                                        "time_mix_g2.weight",
                                        "time_mix_decay_w1.weight",
                                        "time_mix_decay_w2.weight",
                                        "time_mix_lerp_fused.weight",
                                        "attn_rel_b.weight",
                                        ".position_embd",
                                        "sam.pos_embd",
                                        "sam.neck.",
                                        "sam.net_",
                                        ".rel_pos",
                                        ".patch_embd",
                                        ".patch_merger",
                                        "a.rvq.codebook",
                                        "mm.a.code_embd"};
    size_t n = strlen(name);
    if (n < 6 || strcmp(name + n - 6, "weight") != 0)
        return false;
    if (strcmp(name, "position_embd.weight") == 0 || strcmp(name, "token_types.weight") == 0)
        return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return false;
    return true;
}

// ---- which type ----

typedef enum { OTHER, EMBEDDING, OUTPUT, ATTN_Q, ATTN_K, ATTN_V, ATTN_QKV, ATTN_KV_B, ATTN_OUTPUT, FFN_DOWN } category;

static category category_of(const char *name)
{
    static const struct {
        const char *part;
        category is;
    } parts[] = {{"attn_qkv.weight", ATTN_QKV},
                 {"attn_kv_b.weight", ATTN_KV_B},
                 {"attn_v.weight", ATTN_V},
                 {"attn_k.weight", ATTN_K},
                 {"attn_q.weight", ATTN_Q},
                 {"attn_output.weight", ATTN_OUTPUT},
                 {"ffn_up", OTHER},
                 {"ffn_gate", OTHER},
                 {"ffn_down", FFN_DOWN}};
    if (strcmp(name, "output.weight") == 0)
        return OUTPUT;
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0)
        return EMBEDDING;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i].part))
            return parts[i].is;
    return OTHER;
}

static bool is_attn_v(category c)
{
    return c == ATTN_V || c == ATTN_QKV || c == ATTN_KV_B;
}

typedef struct {
    fm_mix mix;
    bool falcon, is_70b, tied;
    int n_experts;
    int n_layers, n_attn_v; // what "a part of all layers" is a part of
    int i_attn_v, i_ffn_down;
} model;

// The first and last eighth, and every third between.
static bool more_bits(int i, int n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static fm_block_type attn_v_type(model *m, fm_block_type base)
{
    fm_block_type t = base;
    int i = m->i_attn_v;
    if (m->mix == FM_MIX_Q3_K_M)
        t = i < 2 ? FM_BLOCK_Q5_K : FM_BLOCK_Q4_K;
    else if (m->mix == FM_MIX_Q4_K_S && i < 4)
        t = FM_BLOCK_Q5_K;
    else if (m->mix != FM_MIX_Q4_K_S && more_bits(i, m->n_attn_v))
        t = FM_BLOCK_Q6_K;
    if (m->is_70b && (t == FM_BLOCK_Q3_K || t == FM_BLOCK_Q4_K))
        t = FM_BLOCK_Q5_K;
    if (m->n_experts == 8)
        t = FM_BLOCK_Q8_0;
    m->i_attn_v++;
    return t;
}

static int layer_of(const char *name)
{
    int layer = 0;
    return sscanf(name, "blk.%d.", &layer) == 1 ? layer : -1;
}

static fm_block_type ffn_down_type(model *m, const char *name, fm_block_type base)
{
    int i = m->n_experts > 1 ? layer_of(name) : m->i_ffn_down, n = m->n_layers;
    fm_block_type t = base;
    m->i_ffn_down++;
    switch (m->mix) {
    case FM_MIX_Q3_K_M:
        t = i < n / 16 ? FM_BLOCK_Q5_K : !m->falcon || more_bits(i, n) ? FM_BLOCK_Q4_K : FM_BLOCK_Q3_K;
        break;
    case FM_MIX_Q4_K_M:
        if (m->falcon)
            t = i < n / 16 ? FM_BLOCK_Q6_K : more_bits(i, n) ? FM_BLOCK_Q5_K : FM_BLOCK_Q4_K;
        else if (more_bits(i, n))
            t = FM_BLOCK_Q6_K;
        break;
    case FM_MIX_Q5_K_M:
        if (more_bits(i, n))
            t = FM_BLOCK_Q6_K;
        break;
    case FM_MIX_Q6_K:
        break;
    default:
        if (!m->falcon && i < n / 8)
            t = FM_BLOCK_Q5_K;
    }
    return t;
}

static fm_block_type type_of(model *m, const fm_job *j, fm_block_type base)
{
    category c = category_of(j->in->name);
    if (c == OUTPUT || (m->tied && c == EMBEDDING))
        return m->falcon || j->cols % 256 ? FM_BLOCK_Q8_0 : FM_BLOCK_Q6_K;
    if (is_attn_v(c))
        return attn_v_type(m, base);
    if (c == ATTN_K)
        return m->n_experts == 8 ? FM_BLOCK_Q8_0 : base;
    if (c == FFN_DOWN)
        return ffn_down_type(m, j->in->name, base);
    if (c == ATTN_OUTPUT && !m->falcon) {
        if (m->n_experts == 8)
            return m->mix == FM_MIX_Q5_K_M || m->mix == FM_MIX_Q6_K ? base : FM_BLOCK_Q5_K;
        return m->mix == FM_MIX_Q3_K_M ? FM_BLOCK_Q4_K : base;
    }
    return base;
}

// llama.cpp visits tensors by layer, then by name: the counters above depend on it.
static int by_layer_and_name(const void *a, const void *b)
{
    const fm_job *x = *(const fm_job *const *)a, *y = *(const fm_job *const *)b;
    int lx = layer_of(x->in->name), ly = layer_of(y->in->name);
    return lx != ly ? (lx > ly) - (lx < ly) : strcmp(x->in->name, y->in->name);
}

// What llama.cpp calls a 70B, by architecture and layers; a Llama of 80 layers only when heads share keys and values.
static bool is_70b(const fm_gguf *g, const char *arch, uint64_t layers)
{
    if (strcmp(arch, "jais2") == 0)
        return layers == 68;
    if (layers != 80)
        return false;
    if (strcmp(arch, "llama") != 0)
        return strcmp(arch, "qwen2") == 0 || strcmp(arch, "deci") == 0 || strcmp(arch, "olmo") == 0;
    const fm_gguf_value *heads = fm_gguf_find(g, "llama.attention.head_count");
    const fm_gguf_value *kv = fm_gguf_find(g, "llama.attention.head_count_kv");
    uint64_t n, n_kv; // of the first layer, where they differ
    return heads && kv && fm_gguf_value_u64(heads, 0, &n) && fm_gguf_value_u64(kv, 0, &n_kv) && n != n_kv;
}

static fm_status read_model(fm_mix mix, const fm_gguf *g, const fm_job_list *list, model *m, fm_err *err)
{
    const char *arch;
    size_t n;
    fm_status status = fm_gguf_string(g, "general.architecture", &arch, &n, err);
    if (status)
        return status;
    char name[64], key[96];
    snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), arch);
    uint64_t layers = 0, experts = 0;
    snprintf(key, sizeof key, "%s.block_count", name);
    if ((status = fm_gguf_u64(g, key, &layers, err)))
        return status;
    snprintf(key, sizeof key, "%s.expert_count", name);
    if ((status = fm_gguf_opt_u64(g, key, &experts, err)))
        return status;
    if (layers > 100000 || experts > 100000)
        return fm_fail(err, FM_ERR_VALUE, "%s: %llu layers of %llu experts are beyond belief", fm_gguf_path(g),
                       (unsigned long long)layers, (unsigned long long)experts);
    *m = (model){.mix = mix,
                 .falcon = strcmp(name, "falcon") == 0,
                 .tied = true,
                 .n_layers = (int)layers,
                 .n_experts = (int)experts};
    m->is_70b = is_70b(g, name, layers);
    for (size_t i = 0; i < list->n_jobs; i++) {
        category c = category_of(list->jobs[i].in->name);
        m->n_attn_v += is_attn_v(c);
        if (c == OUTPUT)
            m->tied = false;
    }
    return FM_OK;
}

fm_status fm_mix_apply(fm_mix mix, const fm_gguf *g, fm_job_list *list, bool has_imatrix, fm_err *err)
{
    (void)has_imatrix; // decides only in mixes that are not offered
    model m;
    fm_status status = read_model(mix, g, list, &m, err);
    if (status)
        return status;
    fm_job **order = fm_alloc_array(list->n_jobs, sizeof *order);
    if (!order)
        return fm_fail_memory(err, "tensors");
    for (size_t i = 0; i < list->n_jobs; i++)
        order[i] = list->jobs + i;
    qsort(order, list->n_jobs, sizeof *order, by_layer_and_name);
    for (size_t i = 0; i < list->n_jobs; i++) {
        fm_job *j = order[i];
        if (j->target.kind == FM_JOB_BLOCKS && j->note[0] == 0)
            j->target.blocks = fm_block_format_of(type_of(&m, j, j->target.blocks->type));
    }
    fm_free(order);
    return FM_OK;
}
