// OLMo 2: norms after attention and MLP instead of before, RMSNorm over the whole width of q and k, fp32 rotary tables.
// Source: transformers 5.24, models/olmo2/modeling_olmo2.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                           const fm_attention *how, fm_value **weights)
{
    uint32_t d = arch->head_dim;
    uint64_t q_width = (uint64_t)arch->n_heads * d, kv_width = (uint64_t)arch->n_kv_heads * d;
    w_enter(w, "self_attn");
    fm_value *q = w_let(w, w->rms_norm(w, w->linear(w, x, "q_proj", arch->hidden, q_width, arch->attention_bias),
                                       "q_norm", q_width, FM_NORM_OLMO2));
    fm_value *k = w_let(w, w->rms_norm(w, w->linear(w, x, "k_proj", arch->hidden, kv_width, arch->attention_bias),
                                       "k_norm", kv_width, FM_NORM_OLMO2));
    fm_value *v = w_let(w, w->linear(w, x, "v_proj", arch->hidden, kv_width, arch->attention_bias));
    w_set(w, &q, w->heads(w, q, arch->n_heads, d));
    w_set(w, &k, w->heads(w, k, arch->n_kv_heads, d));
    w_set(w, &v, w->heads(w, v, arch->n_kv_heads, d));
    w->rotate_as(w, FM_ROTATE_OLMO2, &q, &k, args->cos, args->sin, d, arch->rope.dims);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "o_proj", weights);
    return w_leave_pair(w, out, weights);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *weights;
    fm_value *h = w_let(w, attention(w, arch, hidden, args, &how, &weights));
    w_let(w, weights);
    w_set(w, &h, w->rms_norm(w, h, "post_attention_layernorm", arch->hidden, FM_NORM_OLMO2));
    w_set(w, &h, w->add(w, hidden, h));
    fm_value *residual = w_let(w, h);
    w_set(w, &h, fm_mlp(w, arch, h));
    w_set(w, &h, w->rms_norm(w, h, "post_feedforward_layernorm", arch->hidden, FM_NORM_OLMO2));
    w_set(w, &h, w->add(w, residual, h));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *last = fm_llama_like_model(w, arch, FM_NORM_OLMO2, fm_embed_tokens(w, arch), block);
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 2048, 1e-5, false);
    a->mlp_bias = false;
    a->rope.fp32_tables = true;
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.self_attn.q_norm",
    "model.layers.*.self_attn.k_norm",
    "model.layers.*.mlp.gate_proj",
    "model.layers.*.mlp.up_proj",
    "model.layers.*.mlp.down_proj",
    "model.layers.*.post_attention_layernorm",
    "model.layers.*.post_feedforward_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_olmo2 = {
    .id = "olmo2", .model_types = "olmo2", .title = "OLMo 2", .read = read, .forward = forward, .order = order};
