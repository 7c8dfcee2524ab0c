// StarCoder2: Llama's attention with biases, LayerNorm, a plain MLP, dropouts.
// Source: transformers 5.24, models/starcoder2/modeling_starcoder2.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                           const fm_attention *how, fm_value **weights)
{
    w_enter(w, "self_attn");
    fm_value *q = w_let(w, fm_project_heads(w, arch, x, "q_proj", arch->n_heads, arch->attention_bias));
    fm_value *k = w_let(w, fm_project_heads(w, arch, x, "k_proj", arch->n_kv_heads, arch->attention_bias));
    fm_value *v = w_let(w, fm_project_heads(w, arch, x, "v_proj", arch->n_kv_heads, arch->attention_bias));
    w->rotate(w, &q, &k, args->cos, args->sin, arch->head_dim, arch->rope.dims);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "o_proj", weights);
    w_set(w, &out, w->dropout(w, out, arch->dropout_residual));
    return w_leave_pair(w, out, weights);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *h = w_let(w, w->layer_norm(w, hidden, "input_layernorm", arch->hidden, true)), *weights;
    w_set(w, &h, attention(w, arch, h, args, &how, &weights));
    w_let(w, weights);
    w_set(w, &h, w->add(w, hidden, h));
    fm_value *residual = w_let(w, h);
    w_set(w, &h, w->layer_norm(w, h, "post_attention_layernorm", arch->hidden, true));
    w_set(w, &h, fm_plain_mlp(w, arch, h, "c_fc", "c_proj", arch->dropout_residual));
    w_set(w, &h, w->add(w, residual, h));
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
    w_set(w, &h, w->dropout(w, h, arch->dropout_embed));
    fm_rotary(w, arch, h, &args);
    fm_blocks(w, arch, "layers", block, &h, &args, &masks);
    w_set(w, &h, w->layer_norm(w, h, "norm", arch->hidden, true));
    fm_value *last = w_let(w, w_leave(w, h));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 4096, true);
    fm_read_heads(r, a, 2, 0);
    fm_read_rope(r, a, 10000, 1, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "norm_epsilon", 1e-5);
    a->act = fm_read_activation(r, "hidden_act", "gelu_pytorch_tanh");
    a->attention_bias = a->out_bias = a->mlp_bias = fm_read_flag(r, "use_bias", true);
    a->dropout_embed = fm_read_probability(r, "embedding_dropout", 0);
    a->dropout_residual = fm_read_probability(r, "residual_dropout", 0);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
    a->window = fm_read_nullable_size(r, "sliding_window", 0);
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.mlp.c_fc",
    "model.layers.*.mlp.c_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_starcoder2 = {.id = "starcoder2",
                                        .model_types = "starcoder2",
                                        .title = "StarCoder2",
                                        .read = read,
                                        .forward = forward,
                                        .order = order};
