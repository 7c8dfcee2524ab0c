#include "model/families/common.h"
#include <math.h>
#include <stddef.h>

fm_attention fm_attention_plain(const fm_arch *arch, uint32_t layer)
{
    return (fm_attention){
        .n_heads = arch->n_heads,
        .n_kv_heads = arch->n_kv_heads,
        .qk_head_dim = arch->head_dim,
        .v_head_dim = arch->v_head_dim,
        .scale = 1.0 / sqrt((double)arch->head_dim),
        .dropout = arch->dropout_attention,
        .window = fm_arch_windowed(arch, layer) ? (uint32_t)arch->window : 0,
        .softmax_fp32 = true,
        .core = "llama",
    };
}

fm_value *fm_project_heads(fm_words *w, const fm_arch *arch, fm_value *x, const char *name, uint32_t n, bool bias)
{
    return w->heads(w, w->linear(w, x, name, arch->hidden, (uint64_t)n * arch->head_dim, bias), n, arch->head_dim);
}

fm_value *fm_attend(fm_words *w, const fm_arch *arch, fm_value *q, fm_value *k, fm_value *v, const fm_block_args *args,
                    const fm_attention *how, const char *out_name, fm_value **weights)
{
    fm_value *out = w_let(w, w->attention(w, q, k, v, args->mask, how, weights));
    *weights = w_let(w, *weights);
    w_set(w, &out, w->linear(w, out, out_name, (uint64_t)how->n_heads * how->v_head_dim, arch->hidden, arch->out_bias));
    return out;
}

fm_value *fm_self_attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                            const fm_attention *how, fm_value **weights)
{
    w_enter(w, "self_attn");
    fm_value *q = w_let(w, fm_project_heads(w, arch, x, "q_proj", arch->n_heads, arch->attention_bias));
    fm_value *k = w_let(w, fm_project_heads(w, arch, x, "k_proj", arch->n_kv_heads, arch->attention_bias));
    fm_value *v = w_let(w, fm_project_heads(w, arch, x, "v_proj", arch->n_kv_heads, arch->attention_bias));
    w->rotate(w, &q, &k, args->cos, args->sin, arch->head_dim, arch->rope.dims);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "o_proj", weights);
    return w_leave_pair(w, out, weights);
}

fm_value *fm_gated_mlp(fm_words *w, const fm_arch *arch, fm_value *x, const char *module, uint64_t intermediate)
{
    w_enter(w, module);
    fm_value *gate = w->act(w, w->linear(w, x, "gate_proj", arch->hidden, intermediate, arch->mlp_bias), arch->act);
    fm_value *product = w->mul(w, gate, w->linear(w, x, "up_proj", arch->hidden, intermediate, arch->mlp_bias));
    return w_leave(w, w_let(w, w->linear(w, product, "down_proj", intermediate, arch->hidden, arch->mlp_bias)));
}

fm_value *fm_plain_mlp(fm_words *w, const fm_arch *arch, fm_value *x, const char *up, const char *down, double dropout)
{
    w_enter(w, "mlp");
    fm_value *h = w_let(w, w->linear(w, x, up, arch->hidden, arch->intermediate, arch->mlp_bias));
    w_set(w, &h, w->act(w, h, arch->act));
    w_set(w, &h, w->linear(w, h, down, arch->intermediate, arch->hidden, arch->mlp_bias));
    if (dropout >= 0)
        w_set(w, &h, w->dropout(w, h, dropout));
    return w_leave(w, h);
}

fm_value *fm_normed_mlp(fm_words *w, const fm_arch *arch, fm_value *x)
{
    fm_value *normed = w->hold(w, w->layer_norm(w, x, "post_attention_layernorm", arch->hidden, true));
    fm_value *out = fm_mlp(w, arch, normed);
    w->unhold(w, normed);
    return out;
}

void fm_rotate_first_part(fm_words *w, const fm_arch *arch, fm_value **q, fm_value **k, const fm_block_args *args)
{
    fm_value *q_rot, *q_pass, *k_rot, *k_pass;
    w->slices(w, *q, arch->rope.dims, &q_rot, &q_pass);
    q_rot = w_let(w, q_rot);
    q_pass = w_let(w, q_pass);
    w->slices(w, *k, arch->rope.dims, &k_rot, &k_pass);
    k_rot = w_let(w, k_rot);
    k_pass = w_let(w, k_pass);
    w->rotate(w, &q_rot, &k_rot, args->cos, args->sin, arch->rope.dims, arch->rope.dims);
    w_set(w, q, w->cat(w, q_rot, q_pass));
    w_set(w, k, w->cat(w, k_rot, k_pass));
}

fm_value *fm_llama_like_block(fm_words *w, const fm_arch *arch, fm_value *hidden, const fm_block_args *args,
                              fm_norm_kind norm, const fm_attention *how, fm_attention_fn *attention, fm_mlp_fn *mlp)
{
    fm_value *h = w_let(w, w->rms_norm(w, hidden, "input_layernorm", arch->hidden, norm)), *weights;
    w_set(w, &h, attention(w, arch, h, args, how, &weights));
    w_let(w, weights);
    w_set(w, &h, w->add(w, hidden, h));
    fm_value *residual = w_let(w, h);
    w_set(w, &h, w->rms_norm(w, h, "post_attention_layernorm", arch->hidden, norm));
    w_set(w, &h, mlp(w, arch, h));
    w_set(w, &h, w->add(w, residual, h));
    return h;
}

fm_value *fm_mlp(fm_words *w, const fm_arch *arch, fm_value *x)
{
    return fm_gated_mlp(w, arch, x, "mlp", arch->intermediate);
}

fm_value *fm_llama_block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_LLAMA, &how, fm_self_attention, fm_mlp);
}

void fm_rotary(fm_words *w, const fm_arch *arch, fm_value *like, fm_block_args *args)
{
    w_enter(w, "rotary_emb");
    w->buffer(w, "inv_freq", "float32", arch->rope.dims / 2);
    w->buffer(w, "original_inv_freq", "float32", arch->rope.dims / 2);
    w->rotary_tables(w, arch, like, args->positions, &args->cos, &args->sin);
    args->cos = w_leave_pair(w, args->cos, &args->sin);
    args->cos = w_let(w, args->cos);
    args->sin = w_let(w, args->sin);
}

void fm_masks(fm_words *w, const fm_arch *arch, fm_value *embeds, const fm_block_args *args, fm_masks_made *made)
{
    if (!arch->mask_by_layer) {
        made->full = made->windowed =
            w_let(w, w->causal_mask(w, arch, (uint32_t)arch->window, args->positions, embeds));
        return;
    }
    made->full = w_let(w, w->causal_mask(w, arch, 0, args->positions, embeds));
    made->windowed = NULL;
    bool any = false;
    for (uint32_t i = 0; i < arch->n_layers && !any; i++)
        any = fm_arch_windowed(arch, i);
    if (any)
        made->windowed = w_let(w, w->causal_mask(w, arch, (uint32_t)arch->window, args->positions, embeds));
}

void fm_blocks(fm_words *w, const fm_arch *arch, const char *list, fm_block_fn *block, fm_value **h,
               fm_block_args *args, const fm_masks_made *masks)
{
    uint32_t n = w->n_blocks(w, arch);
    for (uint32_t i = 0; i < n; i++) {
        args->mask = fm_arch_windowed(arch, i) ? masks->windowed : masks->full;
        w_set(w, h, w->block(w, arch, list, i, block, *h, args));
    }
}

fm_value *fm_finish(fm_words *w, const fm_arch *arch, fm_value *logits)
{
    w->loss(w, arch, logits);
    return w_leave(w, logits);
}

fm_value *fm_head(fm_words *w, const fm_arch *arch, fm_value *hidden, uint64_t width, const char *embedding)
{
    return w_let(
        w, w->head(w, hidden, "lm_head", width, arch->vocab, arch->head_bias, arch->tie_embeddings ? embedding : NULL));
}

fm_value *fm_llama_like_model(fm_words *w, const fm_arch *arch, fm_norm_kind norm, fm_value *embeds, fm_block_fn *block)
{
    fm_block_args args = {0};
    fm_masks_made masks;
    args.positions = w_let(w, w->position_ids(w));
    fm_masks(w, arch, embeds, &args, &masks);
    fm_value *h = w_let(w, embeds);
    fm_rotary(w, arch, h, &args);
    fm_blocks(w, arch, "layers", block, &h, &args, &masks);
    w_set(w, &h, w->rms_norm(w, h, "norm", arch->hidden, norm));
    return w_let(w, w_leave(w, h));
}

fm_value *fm_embed_tokens(fm_words *w, const fm_arch *arch)
{
    return w_let(w, w->embedding(w, "embed_tokens", arch->vocab, arch->hidden, w->ids(w)));
}

fm_value *fm_llama_like_forward(fm_words *w, const fm_arch *arch, fm_block_fn *block)
{
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *last = fm_llama_like_model(w, arch, FM_NORM_LLAMA, fm_embed_tokens(w, arch), block);
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
}
