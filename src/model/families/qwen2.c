// Qwen2 and Qwen2.5: Llama with biases on q, k, v and, if asked for, windows in the later blocks.
// Source: transformers 5.24, models/qwen2/modeling_qwen2.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return fm_llama_like_forward(w, arch, fm_llama_block);
}

// Blocks from max_window_layers on have the window, when windows are used at all.
static bool windowed(const fm_arch *a, uint32_t layer, uint64_t from)
{
    return (void)a, layer >= from;
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 32768, 1e-6, false);
    a->attention_bias = true;
    a->out_bias = a->mlp_bias = false;
    a->mask_by_layer = true;
    if (fm_read_flag(r, "use_sliding_window", false))
        a->window = fm_read_nullable_size(r, "sliding_window", 4096);
    fm_read_layer_types(r, a, windowed, fm_read_natural(r, "max_window_layers", 28));
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
const fm_family fm_family_qwen2 = {
    .id = "qwen2", .model_types = "qwen2", .title = "Qwen2", .read = read, .forward = forward, .order = order};
