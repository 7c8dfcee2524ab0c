// Falcon: 7B (one key and value head, one norm feeds attention and MLP), 40B and 180B (the "new decoder": groups, two norms), RW (ALiBi, sequential).
// Source: transformers 5.24, models/falcon/modeling_falcon.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_qkv_layout layout_of(const fm_arch *arch)
{
    return arch->new_decoder ? FM_QKV_PER_GROUP : arch->multi_query ? FM_QKV_MULTIQUERY : FM_QKV_SELECT;
}

static fm_value *attention(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *x, const fm_block_args *args,
                           fm_value **weights)
{
    fm_attention how = fm_attention_plain(arch, layer);
    uint64_t width = ((uint64_t)arch->n_heads + 2 * (uint64_t)arch->n_kv_heads) * arch->head_dim;
    fm_value *q, *k, *v;
    how.core = arch->alibi ? "falcon_alibi" : "falcon";
    how.softmax_fp32 = false;
    how.inline_core = true;
    how.dropout = arch->alibi ? how.dropout : 0;
    how.alibi = arch->alibi;
    how.alibi_values = args->alibi;
    if (arch->new_decoder)
        how.n_kv_heads = arch->n_heads; // already repeated
    w_enter(w, "self_attention");
    fm_value *qkv = w_let(w, w->linear_at(w, x, "query_key_value", arch->hidden, width, arch->attention_bias));
    w->split_qkv(w, qkv, layout_of(arch), arch->n_heads, arch->n_kv_heads, arch->head_dim, &q, &k, &v);
    q = w_let(w, q);
    k = w_let(w, k);
    v = w_let(w, v);
    if (!arch->alibi)
        w->rotate(w, &q, &k, args->cos, args->sin, arch->head_dim, arch->rope.dims);
    fm_value *out = w_let(w, w->attention(w, q, k, v, args->mask, &how, weights));
    *weights = w_let(w, *weights);
    w_set(w, &out, w->linear_at(w, out, "dense", arch->hidden, arch->hidden, arch->out_bias));
    return w_leave_pair(w, out, weights);
}

static fm_value *mlp(fm_words *w, const fm_arch *arch, fm_value *x)
{
    w_enter(w, "mlp");
    fm_value *h = w_let(
        w, w->act(w, w->linear_at(w, x, "dense_h_to_4h", arch->hidden, arch->intermediate, arch->mlp_bias), arch->act));
    w_set(w, &h, w->linear_at(w, h, "dense_4h_to_h", arch->intermediate, arch->hidden, arch->mlp_bias));
    return w_leave(w, h);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    bool two_norms = arch->new_decoder && arch->n_block_norms == 2,
         sequential = !arch->new_decoder && !arch->parallel_residual;
    fm_value *weights, *for_mlp = NULL;
    fm_value *for_attention =
        w_let(w, w->layer_norm(w, hidden, two_norms ? "ln_attn" : "input_layernorm", arch->hidden, true));
    if (two_norms)
        for_mlp = w_let(w, w->layer_norm(w, hidden, "ln_mlp", arch->hidden, true));
    fm_value *attended = w_let(w, attention(w, arch, layer, for_attention, args, &weights)), *residual = hidden;
    weights = w_let(w, weights);
    if (sequential) {
        residual = w_let(w, w->add(w, hidden, w->dropout(w, attended, arch->dropout_attention)));
        for_mlp = w_let(w, w->layer_norm(w, residual, "post_attention_layernorm", arch->hidden, true));
    } else if (!two_norms) {
        for_mlp = w_let(w, for_attention);
    }
    fm_value *fed = w_let(w, mlp(w, arch, for_mlp));
    if (!sequential)
        w->add_into(w, &fed, attended);
    fm_value *out = w_let(w, w->add(w, residual, w->dropout(w, fed, arch->dropout_residual)));
    w->carry(w, weights);
    return out;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    fm_value *ones;
    w_enter(w, "");
    w_enter(w, "transformer");
    fm_value *embeds = w_let(w, w->embedding(w, "word_embeddings", arch->vocab, arch->hidden, w->ids(w)));
    if (arch->alibi) {
        w->alibi(w, arch, FM_ALIBI_FALCON, embeds, &ones, &args.alibi);
        w_let(w, ones);
        args.alibi = w_let(w, args.alibi);
    }
    args.positions = w_let(w, w->position_ids(w));
    fm_masks(w, arch, embeds, &args, &masks);
    if (arch->alibi && masks.full) {
        w_set(w, &masks.full, w->alibi_mask(w, arch, args.alibi, masks.full));
        masks.windowed = masks.full;
    }
    fm_value *h = w_let(w, embeds);
    fm_rotary(w, arch, h, &args); // made with ALiBi too, and not used then
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
    a->new_decoder = fm_read_flag(r, "new_decoder_architecture", false);
    a->multi_query = fm_read_flag(r, "multi_query", true);
    uint32_t kv = fm_read_size32(r, "num_kv_heads|n_head_kv", a->n_heads ? a->n_heads : 1);
    a->n_kv_heads = a->new_decoder ? kv : a->multi_query ? 1 : a->n_heads;
    fm_read_rope(r, a, 10000, 1, 0);
    a->alibi = fm_read_flag(r, "alibi", false);
    a->parallel_residual = fm_read_flag(r, "parallel_attn", true);
    uint64_t norms = fm_read_size(r, "num_ln_in_parallel_attn", a->new_decoder ? 2 : 1);
    a->n_block_norms = norms == 2 ? 2 : 1;
    a->intermediate = fm_read_size(r, "ffn_hidden_size", 4 * a->hidden);
    a->norm_eps = fm_read_positive(r, "layer_norm_epsilon", 1e-5);
    a->act = fm_read_activation(r, "activation", "gelu");
    a->attention_bias = a->out_bias = a->mlp_bias = fm_read_flag(r, "bias", false);
    a->dropout_residual = fm_read_probability(r, "hidden_dropout", 0);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
    if (a->new_decoder && !a->parallel_residual)
        fm_read_fail(r, "parallel_attn", FM_ERR_UNSUPPORTED,
                     "the new decoder is described with parallel attention only");
}

static const char *const order[] = {
    "transformer.word_embeddings",
    "transformer.h.*.self_attention.query_key_value",
    "transformer.h.*.self_attention.dense",
    "transformer.h.*.mlp.dense_h_to_4h",
    "transformer.h.*.mlp.dense_4h_to_h",
    "transformer.h.*.ln_attn",
    "transformer.h.*.ln_mlp",
    "transformer.h.*.post_attention_layernorm",
    "transformer.h.*.input_layernorm",
    "transformer.ln_f",
    "lm_head",
    NULL,
};
const fm_family fm_family_falcon = {.id = "falcon",
                                    .model_types = "falcon|RefinedWeb|RefinedWebModel",
                                    .title = "Falcon",
                                    .read = read,
                                    .forward = forward,
                                    .order = order,
                                    .always_mask = true};
