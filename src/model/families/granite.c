// Granite: Llama with multipliers on embeddings, residuals, scores and logits (each a product even when it is 1).
// Source: transformers 5.24, models/granite/modeling_granite.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    how.scale = arch->attention_multiplier;
    fm_value *h = w_let(w, w->rms_norm(w, hidden, "input_layernorm", arch->hidden, FM_NORM_LLAMA)), *weights;
    w_set(w, &h, fm_self_attention(w, arch, h, args, &how, &weights));
    w_let(w, weights);
    w_set(w, &h, w->add(w, hidden, w->scale(w, h, arch->residual_multiplier)));
    fm_value *residual = w_let(w, h);
    w_set(w, &h, w->rms_norm(w, h, "post_attention_layernorm", arch->hidden, FM_NORM_LLAMA));
    w_set(w, &h, fm_mlp(w, arch, h));
    w_set(w, &h, w->add(w, residual, w->scale(w, h, arch->residual_multiplier)));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *embeds = fm_embed_tokens(w, arch);
    w_set(w, &embeds, w->scale(w, embeds, arch->embedding_multiplier));
    fm_value *last = fm_llama_like_model(w, arch, FM_NORM_LLAMA, embeds, block);
    fm_value *logits = fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight");
    w_set(w, &logits, w->scale(w, logits, 1.0 / arch->logits_scaling)); // the class divides
    return fm_finish(w, arch, logits);
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 2048, 1e-6, false);
    a->embedding_multiplier = fm_read_number(r, "embedding_multiplier", 1);
    a->residual_multiplier = fm_read_number(r, "residual_multiplier", 1);
    a->attention_multiplier = fm_read_number(r, "attention_multiplier", 1);
    a->logits_scaling = fm_read_positive(r, "logits_scaling", 1);
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.mlp.gate_proj",
    "model.layers.*.mlp.up_proj",
    "model.layers.*.mlp.down_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_granite = {
    .id = "granite", .model_types = "granite", .title = "Granite", .read = read, .forward = forward, .order = order};
