// What several families share, word for word. A family uses a piece only where its reference code has the same operations
// in the same order with the same locals; otherwise it says its own.
// In all of these x and hidden are borrowed; results float, or are locals of the open scope where a comment says so.
#ifndef FM_MODEL_FAMILIES_COMMON_H
#define FM_MODEL_FAMILIES_COMMON_H
#include "model/family.h"

typedef fm_value *fm_attention_fn(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                                  const fm_attention *how, fm_value **weights);
typedef fm_value *fm_mlp_fn(fm_words *w, const fm_arch *arch, fm_value *x);

// What the attention core of block `layer` is told: scale head_dim^-1/2, dropout, window, fp32 softmax, core "llama".
fm_attention fm_attention_plain(const fm_arch *arch, uint32_t layer);

// NAME(x).view(B, S, n, d).transpose(1, 2)
fm_value *fm_project_heads(fm_words *w, const fm_arch *arch, fm_value *x, const char *name, uint32_t n, bool bias);

// The end of an attention module: core, then the output product. q, k, v and both results are locals of the open scope.
fm_value *fm_attend(fm_words *w, const fm_arch *arch, fm_value *q, fm_value *k, fm_value *v, const fm_block_args *args,
                    const fm_attention *how, const char *out_name, fm_value **weights);

// Module "self_attn" of Llama: q_proj, k_proj, v_proj, rotary, core, o_proj. *weights: the attention weights or NULL.
fm_value *fm_self_attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                            const fm_attention *how, fm_value **weights);

// down_proj(act(gate_proj(x)) * up_proj(x)) as a module of that name; fm_mlp: "mlp" of the configured width.
fm_value *fm_gated_mlp(fm_words *w, const fm_arch *arch, fm_value *x, const char *module, uint64_t intermediate);
fm_value *fm_mlp(fm_words *w, const fm_arch *arch, fm_value *x);

// Module "mlp": DOWN(act(UP(x))), every step rebinding its argument, then dropout unless that is negative.
fm_value *fm_plain_mlp(fm_words *w, const fm_arch *arch, fm_value *x, const char *up, const char *down, double dropout);

// mlp(post_attention_layernorm(x)) with a LayerNorm: the norm's result is held by the call alone.
fm_value *fm_normed_mlp(fm_words *w, const fm_arch *arch, fm_value *x);

// Rotates the first rope.dims of each head of *q and *k (locals) as Phi and StableLM do: both parts are slices, the rotated
// parts become locals that stay, then q and k are joined anew.
void fm_rotate_first_part(fm_words *w, const fm_arch *arch, fm_value **q, fm_value **k, const fm_block_args *args);

// The pre-norm block of the Llama line with a family's own attention and MLP; fm_llama_block: Llama's.
fm_value *fm_llama_like_block(fm_words *w, const fm_arch *arch, fm_value *hidden, const fm_block_args *args,
                              fm_norm_kind norm, const fm_attention *how, fm_attention_fn *attention, fm_mlp_fn *mlp);
fm_value *fm_llama_block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args);

// Module "rotary_emb": its buffers, and cos and sin as locals of the open scope.
void fm_rotary(fm_words *w, const fm_arch *arch, fm_value *like, fm_block_args *args);

// The masks of a model's forward, locals of the open scope: one for all blocks, or a dictionary by kind of block
// (arch->mask_by_layer), in which the full one is made even if no block uses it.
typedef struct {
    fm_value *full, *windowed;
} fm_masks_made;
void fm_masks(fm_words *w, const fm_arch *arch, fm_value *embeds, const fm_block_args *args, fm_masks_made *made);

// for block in list: h = block(h). *h is a local of the open scope.
void fm_blocks(fm_words *w, const fm_arch *arch, const char *list, fm_block_fn *block, fm_value **h,
               fm_block_args *args, const fm_masks_made *masks);

// "lm_head" (a local of the open scope), tied to `embedding` if the configuration ties; then the loss and the way out.
fm_value *fm_head(fm_words *w, const fm_arch *arch, fm_value *hidden, uint64_t width, const char *embedding);
fm_value *fm_finish(fm_words *w, const fm_arch *arch, fm_value *logits);

// Inside an open scope "model": embed_tokens(ids), a local. Then all the rest of Llama's model from its embeddings on:
// positions, mask, rotary_emb, layers, norm; leaves "model"; the result is a local of the scope around it.
fm_value *fm_embed_tokens(fm_words *w, const fm_arch *arch);
fm_value *fm_llama_like_model(fm_words *w, const fm_arch *arch, fm_norm_kind norm, fm_value *embeds,
                              fm_block_fn *block);

// The whole of Llama around a family's block.
fm_value *fm_llama_like_forward(fm_words *w, const fm_arch *arch, fm_block_fn *block);
#endif
