// Qwen (the first): one product for q, k, v, fp32 rotation of untransposed heads, a gated MLP of half the stated width.
// Source: the model's published code (modeling_qwen.py on its page; it never became part of transformers).
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                           const fm_attention *how, fm_value **weights)
{
    uint64_t width = (uint64_t)arch->n_heads * arch->head_dim;
    fm_value *q, *k, *v;
    w_enter(w, "attn");
    fm_value *mixed = w_let(w, w->linear(w, x, "c_attn", arch->hidden, 3 * width, true));
    w->split_qkv(w, mixed, FM_QKV_FLAT_SPLIT, arch->n_heads, arch->n_heads, arch->head_dim, &q, &k, &v);
    q = w_let(w, q);
    k = w_let(w, k);
    v = w_let(w, v);
    w->rotate_as(w, FM_ROTATE_QWEN, &q, &k, args->cos, args->sin, arch->head_dim, arch->rope.dims);
    fm_value *context = w_let(w, w->attention(w, q, k, v, args->mask, how, weights));
    *weights = w_let(w, *weights);
    fm_value *out = w_let(w, w->linear(w, context, "c_proj", width, arch->hidden, arch->out_bias));
    return w_leave_pair(w, out, weights);
}

static fm_value *mlp(fm_words *w, const fm_arch *arch, fm_value *x)
{
    w_enter(w, "mlp");
    fm_value *a1 = w_let(w, w->linear(w, x, "w1", arch->hidden, arch->intermediate, arch->mlp_bias));
    fm_value *a2 = w_let(w, w->linear(w, x, "w2", arch->hidden, arch->intermediate, arch->mlp_bias));
    fm_value *product = w_let(w, w->mul(w, a1, w->act(w, a2, FM_ACT_SILU)));
    fm_value *out = w_let(w, w->linear(w, product, "c_proj", arch->intermediate, arch->hidden, arch->mlp_bias));
    return w_leave(w, out);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *weights;
    how.core = "qwen";
    how.softmax_fp32 = false;
    fm_value *normed = w_let(w, w->rms_norm(w, hidden, "ln_1", arch->hidden, FM_NORM_LLAMA));
    fm_value *attended = w_let(w, attention(w, arch, normed, args, &how, &weights));
    w_let(w, weights);
    fm_value *input = w_let(w, w->add(w, attended, hidden));
    w_set(w, &normed, w->rms_norm(w, input, "ln_2", arch->hidden, FM_NORM_LLAMA));
    fm_value *residual = w_let(w, input);
    fm_value *fed = w_let(w, mlp(w, arch, normed));
    fm_value *h = w_let(w, w->add(w, residual, fed));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    w_enter(w, "");
    w_enter(w, "transformer");
    fm_value *embeds = w_let(w, w->embedding(w, "wte", arch->vocab, arch->hidden, w->ids(w)));
    fm_value *h = w_let(w, embeds);
    args.positions = w_let(w, w->position_ids(w));
    fm_rotary(w, arch, h, &args);
    fm_masks(w, arch, embeds, &args, &masks);
    w_set(w, &h, w->dropout(w, h, arch->dropout_embed));
    fm_blocks(w, arch, "h", block, &h, &args, &masks);
    w_set(w, &h, w->rms_norm(w, h, "ln_f", arch->hidden, FM_NORM_LLAMA));
    fm_value *last = w_let(w, w_leave(w, h));
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "transformer.wte.weight"));
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 8192, false);
    fm_read_heads(r, a, 0, fm_read_optional_size(r, "kv_channels"));
    fm_read_rope(r, a, 10000, 1, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED) / 2;
    a->norm_eps = fm_read_positive(r, "layer_norm_epsilon", 1e-6);
    a->act = FM_ACT_SILU;
    a->attention_bias = true;
    a->out_bias = a->mlp_bias = !fm_read_flag(r, "no_bias", true);
    a->dropout_embed = fm_read_probability(r, "emb_dropout_prob", 0);
    a->dropout_attention = fm_read_probability(r, "attn_dropout_prob", 0);
}

static const char *const order[] = {
    "transformer.wte",
    "transformer.h.*.ln_1",
    "transformer.h.*.attn.c_attn",
    "transformer.h.*.attn.c_proj",
    "transformer.h.*.ln_2",
    "transformer.h.*.mlp.w1",
    "transformer.h.*.mlp.w2",
    "transformer.h.*.mlp.c_proj",
    "transformer.ln_f",
    "lm_head",
    NULL,
};
const fm_family fm_family_qwen = {
    .id = "qwen", .model_types = "qwen", .title = "Qwen", .read = read, .forward = forward, .order = order};
