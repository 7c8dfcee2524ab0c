// StableLM 2 and StableLM 3B ("stablelm"; the alpha models say "gpt_neox").
// Source: transformers 5.24, models/stablelm/modeling_stablelm.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                           const fm_attention *how, fm_value **weights)
{
    uint32_t d = arch->head_dim;
    uint64_t q_width = (uint64_t)arch->n_heads * d, kv_width = (uint64_t)arch->n_kv_heads * d;
    w_enter(w, "self_attn");
    fm_value *q = w_let(w, w->linear(w, x, "q_proj", arch->hidden, q_width, arch->attention_bias));
    fm_value *k = w_let(w, w->linear(w, x, "k_proj", arch->hidden, kv_width, arch->attention_bias));
    fm_value *v = w_let(w, w->linear(w, x, "v_proj", arch->hidden, kv_width, arch->attention_bias));
    w_set(w, &q, w->heads(w, q, arch->n_heads, d));
    w_set(w, &k, w->heads(w, k, arch->n_kv_heads, d));
    w_set(w, &v, w->heads(w, v, arch->n_kv_heads, d));
    if (arch->qk_norm) {
        w_set(w, &q, w->layer_norm_per_head(w, q, "q_layernorm", arch->n_heads, d));
        w_set(w, &k, w->layer_norm_per_head(w, k, "k_layernorm", arch->n_kv_heads, d));
    }
    fm_rotate_first_part(w, arch, &q, &k, args);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "o_proj", weights);
    return w_leave_pair(w, out, weights);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *h = w_let(w, w->layer_norm(w, hidden, "input_layernorm", arch->hidden, true)), *weights;
    fm_value *attended = w_let(w, attention(w, arch, h, args, &how, &weights)), *fed;
    w_let(w, weights);
    if (arch->parallel_residual) {
        fed = w_let(w, fm_mlp(w, arch, h));
        w_set(w, &fed, w->dropout(w, fed, arch->dropout_residual));
        w_set(w, &h, w->add(w, w->add(w, hidden, attended), fed));
        return h;
    }
    fm_value *residual = w_let(w, w->add(w, hidden, attended));
    fed = w_let(w, fm_normed_mlp(w, arch, residual));
    w_set(w, &fed, w->dropout(w, fed, arch->dropout_residual));
    w_set(w, &h, w->add(w, residual, fed));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *embeds = fm_embed_tokens(w, arch);
    args.positions = w_let(w, w->position_ids(w));
    fm_masks(w, arch, embeds, &args, &masks);
    fm_value *h = w_let(w, embeds);
    fm_rotary(w, arch, h, &args);
    fm_blocks(w, arch, "layers", block, &h, &args, &masks);
    w_set(w, &h, w->layer_norm(w, h, "norm", arch->hidden, true));
    fm_value *last = w_let(w, w_leave(w, h));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 4096, false);
    fm_read_heads(r, a, 32, 0);
    fm_read_rope(r, a, 10000, 0.25, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "layer_norm_eps|norm_eps", 1e-5);
    a->act = fm_read_activation(r, "hidden_act", "silu");
    a->attention_bias = fm_read_flag(r, "use_qkv_bias", false);
    a->qk_norm = fm_read_flag(r, "qk_layernorm", false);
    a->parallel_residual = fm_read_flag(r, "use_parallel_residual", false);
    a->dropout_residual = fm_read_probability(r, "hidden_dropout", 0);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.self_attn.q_layernorm",
    "model.layers.*.self_attn.k_layernorm",
    "model.layers.*.mlp.gate_proj",
    "model.layers.*.mlp.up_proj",
    "model.layers.*.mlp.down_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_stablelm = {
    .id = "stablelm", .model_types = "stablelm", .title = "StableLM", .read = read, .forward = forward, .order = order};
