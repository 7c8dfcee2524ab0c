// Gemma: embeddings times sqrt(hidden), norms whose weight is an offset from one.
// Source: transformers 5.24, models/gemma/modeling_gemma.py.
#include <stddef.h>
#include "model/families/common.h"
#include <math.h>

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_GEMMA, &how, fm_self_attention, fm_mlp);
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *embeds = w_let(w, w->scaled_embedding(w, "embed_tokens", arch->vocab, arch->hidden, w->ids(w), sqrt((double)arch->hidden)));
    fm_value *last = fm_llama_like_model(w, arch, FM_NORM_GEMMA, embeds, block);
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
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
const fm_family fm_family_gemma = {.id = "gemma", .model_types = "gemma", .title = "Gemma", .forward = forward, .order = order};
