// Llama 1, 2, 3.x and everything that says model_type "llama" (Yi, SmolLM2, TinyLlama, ...).
// Source: transformers 5.24, models/llama/modeling_llama.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

// A bare size is Llama's shape plus, where no Llama has exactly that many parameters, a vector of what is left.
static fm_value *sized_forward(fm_words *w, const fm_arch *arch)
{
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *embeds = w_let(w, w->remainder(w, fm_embed_tokens(w, arch), "remainder", arch->remainder));
    fm_value *last = fm_llama_like_model(w, arch, FM_NORM_LLAMA, embeds, fm_llama_block);
    return fm_finish(w, arch, fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight"));
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return arch->remainder ? sized_forward(w, arch) : fm_llama_like_forward(w, arch, fm_llama_block);
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 2048, 1e-6, false);
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
    "model.remainder",
    "lm_head",
    NULL,
};
const fm_family fm_family_llama = {
    .id = "llama", .model_types = "llama", .title = "Llama", .read = read, .forward = forward, .order = order};
