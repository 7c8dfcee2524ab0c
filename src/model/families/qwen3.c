// Qwen3: Llama with RMSNorm on every head of q and k.
// Source: transformers 5.24, models/qwen3/modeling_qwen3.py.
#include <stddef.h>
#include "model/families/qwen3_common.h"
#include "model/read.h"

static fm_value *normed_heads(fm_words *w, const fm_arch *arch, fm_value *x, const char *project, const char *norm,
                              uint32_t n)
{
    fm_value *flat = w->linear(w, x, project, arch->hidden, (uint64_t)n * arch->head_dim, arch->attention_bias);
    fm_value *heads = w->view_heads(w, flat, n, arch->head_dim);
    return w->transpose_heads(w, w->rms_norm(w, heads, norm, arch->head_dim, FM_NORM_LLAMA));
}

fm_value *fm_qwen3_attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                             const fm_attention *how, fm_value **weights)
{
    w_enter(w, "self_attn");
    fm_value *q = w_let(w, normed_heads(w, arch, x, "q_proj", "q_norm", arch->n_heads));
    fm_value *k = w_let(w, normed_heads(w, arch, x, "k_proj", "k_norm", arch->n_kv_heads));
    fm_value *v = w_let(w, fm_project_heads(w, arch, x, "v_proj", arch->n_kv_heads, arch->attention_bias));
    w->rotate(w, &q, &k, args->cos, args->sin, arch->head_dim, arch->rope.dims);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "o_proj", weights);
    return w_leave_pair(w, out, weights);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_LLAMA, &how, fm_qwen3_attention, fm_mlp);
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return fm_llama_like_forward(w, arch, block);
}

// Blocks from max_window_layers on have the window, when windows are used at all.
static bool windowed(const fm_arch *a, uint32_t layer, uint64_t from)
{
    return (void)a, layer >= from;
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 32768, false);
    fm_read_heads(r, a, 0, 128);
    fm_read_rope(r, a, 10000, 1, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "rms_norm_eps", 1e-6);
    a->act = fm_read_activation(r, "hidden_act", "silu");
    a->attention_bias = a->out_bias = fm_read_flag(r, "attention_bias", false);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
    a->mask_by_layer = true;
    if (fm_read_flag(r, "use_sliding_window", false))
        a->window = fm_read_nullable_size(r, "sliding_window", 4096);
    fm_read_layer_types(r, a, windowed, fm_read_natural(r, "max_window_layers", 28));
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
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_qwen3 = {
    .id = "qwen3", .model_types = "qwen3", .title = "Qwen3", .read = read, .forward = forward, .order = order};
