// Qwen2 and Qwen2.5: Llama with biases on q, k, v and, if asked for, windows in the later blocks.
// Source: transformers 5.24, models/qwen2/modeling_qwen2.py.
#include <stddef.h>
#include "model/families/common.h"

static fm_value *forward(fm_words *w, const fm_arch *arch) { return fm_llama_like_forward(w, arch, fm_llama_block); }

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
const fm_family fm_family_qwen2 = {.id = "qwen2", .model_types = "qwen2", .title = "Qwen2", .forward = forward, .order = order};
