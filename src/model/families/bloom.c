// BLOOM: ALiBi, a norm after the embeddings, biases everywhere, residuals added inside attention and MLP.
// Source: transformers 5.24, models/bloom/modeling_bloom.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *x, fm_value *residual,
                           const fm_block_args *args, fm_value **weights)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *q, *k, *v;
    how.core = "bloom";
    how.alibi = how.inline_core = true;
    how.alibi_values = args->alibi;
    w_enter(w, "self_attention");
    fm_value *qkv = w_let(w, w->linear(w, x, "query_key_value", arch->hidden, 3 * arch->hidden, true));
    w->split_qkv(w, qkv, FM_QKV_SELECT, arch->n_heads, arch->n_heads, arch->head_dim, &q, &k, &v);
    q = w_let(w, q);
    k = w_let(w, k);
    v = w_let(w, v);
    fm_value *context = w_let(w, w->attention(w, q, k, v, args->mask, &how, weights));
    *weights = w_let(w, *weights);
    fm_value *out = w_let(w, w->linear(w, context, "dense", arch->hidden, arch->hidden, true));
    w_set(w, &out, w->add(w, residual, w->dropout(w, out, arch->dropout_residual)));
    return w_leave_pair(w, out, weights);
}

static fm_value *mlp(fm_words *w, const fm_arch *arch, fm_value *x, fm_value *residual)
{
    w_enter(w, "mlp");
    fm_value *h = w_let(
        w, w->act(w, w->linear(w, x, "dense_h_to_4h", arch->hidden, arch->intermediate, true), FM_ACT_BLOOM_GELU));
    fm_value *down = w_let(w, w->linear(w, h, "dense_4h_to_h", arch->intermediate, arch->hidden, true));
    fm_value *out = w_let(w, w->add(w, residual, w->dropout(w, down, arch->dropout_residual)));
    return w_leave(w, out);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    bool after = arch->residual_post_norm;
    fm_value *weights;
    fm_value *normed = w_let(w, w->layer_norm(w, hidden, "input_layernorm", arch->hidden, true));
    fm_value *residual = w_let(w, after ? normed : hidden);
    fm_value *attended = w_let(w, attention(w, arch, layer, normed, residual, args, &weights));
    weights = w_let(w, weights);
    w_set(w, &normed, w->layer_norm(w, attended, "post_attention_layernorm", arch->hidden, true));
    w_set(w, &residual, after ? normed : attended);
    fm_value *out = w_let(w, mlp(w, arch, normed, residual));
    w->carry(w, weights);
    return out;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    fm_value *slopes;
    w_enter(w, "");
    w_enter(w, "transformer");
    fm_value *embeds = w_let(w, w->embedding(w, "word_embeddings", arch->vocab, arch->hidden, w->ids(w)));
    fm_value *h = w_let(w, w->layer_norm(w, embeds, "word_embeddings_layernorm", arch->hidden, true));
    w->alibi(w, arch, FM_ALIBI_BLOOM, h, &slopes, &args.alibi);
    w_let(w, slopes);
    args.alibi = w_let(w, args.alibi);
    fm_masks(w, arch, embeds, &args, &masks);
    fm_blocks(w, arch, "h", block, &h, &args, &masks);
    w_let(w, h); // `outputs` still holds the last block's result
    w_set(w, &h, w->layer_norm(w, h, "ln_f", arch->hidden, true));
    fm_value *last = w_let(w, w_leave(w, h));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "transformer.word_embeddings.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 2048, true);
    fm_read_heads(r, a, 0, 0);
    a->intermediate = 4 * a->hidden;
    a->norm_eps = fm_read_positive(r, "layer_norm_epsilon", 1e-5);
    a->act = FM_ACT_BLOOM_GELU;
    a->attention_bias = a->out_bias = a->mlp_bias = a->alibi = true;
    a->residual_post_norm = fm_read_flag(r, "apply_residual_connection_post_layernorm", false);
    a->dropout_residual = fm_read_probability(r, "hidden_dropout", 0);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
}

static const char *const order[] = {
    "transformer.word_embeddings",
    "transformer.word_embeddings_layernorm",
    "transformer.h.*.input_layernorm",
    "transformer.h.*.self_attention.query_key_value",
    "transformer.h.*.self_attention.dense",
    "transformer.h.*.post_attention_layernorm",
    "transformer.h.*.mlp.dense_h_to_4h",
    "transformer.h.*.mlp.dense_4h_to_h",
    "transformer.ln_f",
    "lm_head",
    NULL,
};
const fm_family fm_family_bloom = {.id = "bloom",
                                   .model_types = "bloom",
                                   .title = "BLOOM",
                                   .read = read,
                                   .forward = forward,
                                   .order = order,
                                   .no_sdpa = true};
