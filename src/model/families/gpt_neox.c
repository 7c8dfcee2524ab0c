// GPT-NeoX, Pythia, StableLM alpha: parallel residual, q, k, v of each head together, a quarter of a head rotates.
// Source: transformers 5.24, models/gpt_neox/modeling_gpt_neox.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *x, const fm_block_args *args,
                           fm_value **weights)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *q, *k, *v;
    how.core = "gpt_neox";
    w_enter(w, "attention");
    fm_value *qkv = w_let(w, w->linear(w, x, "query_key_value", arch->hidden, 3 * arch->hidden, arch->attention_bias));
    w->split_qkv(w, qkv, FM_QKV_PER_HEAD, arch->n_heads, arch->n_heads, arch->head_dim, &q, &k, &v);
    q = w_let(w, q);
    k = w_let(w, k);
    v = w_let(w, v);
    w->rotate(w, &q, &k, args->cos, args->sin, arch->head_dim, arch->rope.dims);
    fm_value *out = fm_attend(w, arch, q, k, v, args, &how, "dense", weights);
    return w_leave_pair(w, out, weights);
}

// attention(input_layernorm(hidden)): the norm's result is an argument and nobody's local, but a call holds its arguments.
static fm_value *normed_attention(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden,
                                  const fm_block_args *args, fm_value **weights)
{
    fm_value *normed = w->hold(w, w->layer_norm(w, hidden, "input_layernorm", arch->hidden, true));
    fm_value *out = attention(w, arch, layer, normed, args, weights);
    w->unhold(w, normed);
    return out;
}

static fm_value *normed_mlp(fm_words *w, const fm_arch *arch, fm_value *x)
{
    fm_value *normed = w->hold(w, w->layer_norm(w, x, "post_attention_layernorm", arch->hidden, true));
    fm_value *out = fm_plain_mlp(w, arch, normed, "dense_h_to_4h", "dense_4h_to_h", -1);
    w->unhold(w, normed);
    return out;
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_value *weights, *fed, *h;
    fm_value *attended = w_let(w, normed_attention(w, arch, layer, hidden, args, &weights));
    w_let(w, weights);
    w_set(w, &attended, w->dropout(w, attended, arch->dropout_residual));
    if (arch->parallel_residual) {
        fed = w_let(w, normed_mlp(w, arch, hidden));
        w_set(w, &fed, w->dropout(w, fed, arch->dropout_residual));
        h = w_let(w, w->add(w, w->add(w, fed, attended), hidden));
    } else {
        w_set(w, &attended, w->add(w, attended, hidden));
        fed = w_let(w, normed_mlp(w, arch, attended));
        w_set(w, &fed, w->dropout(w, fed, arch->dropout_residual));
        h = w_let(w, w->add(w, fed, attended));
    }
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    w_enter(w, "");
    w_enter(w, "gpt_neox");
    fm_value *embeds = w_let(w, w->embedding(w, "embed_in", arch->vocab, arch->hidden, w->ids(w)));
    args.positions = w_let(w, w->position_ids(w));
    fm_masks(w, arch, embeds, &args, &masks);
    fm_value *h = w_let(w, w->dropout(w, embeds, arch->dropout_embed));
    fm_rotary(w, arch, h, &args);
    fm_blocks(w, arch, "layers", block, &h, &args, &masks);
    w_set(w, &h, w->layer_norm(w, h, "final_layer_norm", arch->hidden, true));
    fm_value *last = w_let(w, w_leave(w, h));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "gpt_neox.embed_in.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 2048, false);
    fm_read_heads(r, a, 0, 0);
    fm_read_rope(r, a, 10000, 0.25, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "layer_norm_eps", 1e-5);
    a->act = fm_read_activation(r, "hidden_act", "gelu");
    a->attention_bias = a->out_bias = fm_read_flag(r, "attention_bias", true);
    a->mlp_bias = true;
    a->parallel_residual = fm_read_flag(r, "use_parallel_residual", true);
    a->dropout_embed = a->dropout_residual = fm_read_probability(r, "hidden_dropout", 0);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
}

static const char *const order[] = {
    "gpt_neox.embed_in",
    "gpt_neox.layers.*.input_layernorm",
    "gpt_neox.layers.*.post_attention_layernorm",
    "gpt_neox.layers.*.attention.query_key_value",
    "gpt_neox.layers.*.attention.dense",
    "gpt_neox.layers.*.mlp.dense_h_to_4h",
    "gpt_neox.layers.*.mlp.dense_4h_to_h",
    "gpt_neox.final_layer_norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_gpt_neox = {
    .id = "gpt_neox", .model_types = "gpt_neox", .title = "GPT-NeoX", .read = read, .forward = forward, .order = order};
