// Mistral: Llama with a window that all blocks share.
// Source: transformers 5.24, models/mistral/modeling_mistral.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return fm_llama_like_forward(w, arch, fm_llama_block);
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 131072, 1e-6, false);
    a->attention_bias = a->out_bias = a->mlp_bias = false;
    a->window = fm_read_nullable_size(r, "sliding_window", 4096);
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
const fm_family fm_family_mistral = {
    .id = "mistral", .model_types = "mistral", .title = "Mistral", .read = read, .forward = forward, .order = order};
