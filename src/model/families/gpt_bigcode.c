// GPT-BigCode (SantaCoder, StarCoder): GPT-2 with one head of keys and values.
// Source: transformers 5.24, models/gpt_bigcode/modeling_gpt_bigcode.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *x, const fm_block_args *args,
                           fm_value **weights)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *q, *k, *v;
    fm_qkv_layout layout = arch->multi_query ? FM_QKV_MQA_SPLIT : FM_QKV_PER_HEAD;
    uint64_t width = arch->hidden + 2 * (uint64_t)arch->n_kv_heads * arch->head_dim;
    how.scale = arch->scale_attention ? how.scale : 1.0;
    w_enter(w, "attn");
    w->split_qkv(w, w->linear(w, x, "c_attn", arch->hidden, width, true), layout, arch->n_heads, arch->n_kv_heads,
                 arch->head_dim, &q, &k, &v);
    q = w_let(w, q);
    k = w_let(w, k);
    v = w_let(w, v);
    fm_value *out = fm_attend(w, arch, q, k, v, args, &how, "c_proj", weights);
    w_set(w, &out, w->dropout(w, out, arch->dropout_residual));
    return w_leave_pair(w, out, weights);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_value *h = w_let(w, w->layer_norm(w, hidden, "ln_1", arch->hidden, true)), *weights;
    fm_value *attended = w_let(w, attention(w, arch, layer, h, args, &weights));
    w_let(w, weights);
    w_set(w, &h, w->add(w, attended, hidden));
    fm_value *residual = w_let(w, h);
    w_set(w, &h, w->layer_norm(w, h, "ln_2", arch->hidden, true));
    fm_value *fed = w_let(w, fm_plain_mlp(w, arch, h, "c_fc", "c_proj", arch->dropout_residual));
    w_set(w, &h, w->add(w, residual, fed));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    w_enter(w, "");
    w_enter(w, "transformer");
    w->buffer(w, "bias", "bool", arch->max_positions * arch->max_positions);
    fm_value *embeds = w_let(w, w->embedding(w, "wte", arch->vocab, arch->hidden, w->ids(w)));
    args.positions = w_let(w, w->position_ids(w));
    fm_masks(w, arch, embeds, &args, &masks);
    fm_value *placed = w_let(w, w->embedding(w, "wpe", arch->max_positions, arch->hidden, args.positions));
    fm_value *h = w_let(w, w->add(w, embeds, placed));
    w_set(w, &h, w->dropout(w, h, arch->dropout_embed));
    fm_blocks(w, arch, "h", block, &h, &args, &masks);
    w_set(w, &h, w->layer_norm(w, h, "ln_f", arch->hidden, true));
    fm_value *last = w_let(w, w_leave(w, h));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "transformer.wte.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 1024, true);
    if (a->max_positions > 1 << 20) // the class keeps a square table of them
        fm_read_fail(r, "n_positions|max_position_embeddings", FM_ERR_OVERFLOW, "must be at most %d", 1 << 20);
    a->multi_query = fm_read_flag(r, "multi_query", true);
    fm_read_heads(r, a, 0, 0);
    a->n_kv_heads = a->multi_query ? 1 : a->n_heads;
    a->intermediate = fm_read_size(r, "n_inner", 4 * a->hidden);
    a->norm_eps = fm_read_positive(r, "layer_norm_epsilon", 1e-5);
    a->act = fm_read_activation(r, "activation_function", "gelu_pytorch_tanh");
    a->attention_bias = a->out_bias = a->mlp_bias = true;
    a->dropout_embed = fm_read_probability(r, "embd_pdrop", 0.1);
    a->dropout_residual = fm_read_probability(r, "resid_pdrop", 0.1);
    a->dropout_attention = fm_read_probability(r, "attn_pdrop", 0.1);
    a->scale_attention = fm_read_flag(r, "scale_attn_weights", true);
    a->scale_fp32 = fm_read_flag(r, "attention_softmax_in_fp32", true);
    if (fm_read_flag(r, "add_cross_attention", false))
        fm_read_fail(r, "add_cross_attention", FM_ERR_UNSUPPORTED,
                     "cross attention is not described: only decoders without it are");
}

static const char *const order[] = {
    "transformer.wte",
    "transformer.wpe",
    "transformer.h.*.ln_1",
    "transformer.h.*.attn.c_attn",
    "transformer.h.*.attn.c_proj",
    "transformer.h.*.ln_2",
    "transformer.h.*.mlp.c_fc",
    "transformer.h.*.mlp.c_proj",
    "transformer.ln_f",
    "lm_head",
    NULL,
};
const fm_family fm_family_gpt_bigcode = {.id = "gpt_bigcode",
                                         .model_types = "gpt_bigcode",
                                         .title = "GPT-BigCode",
                                         .read = read,
                                         .forward = forward,
                                         .order = order};
