// Mixtral: Mistral with experts in every block.
// Source: transformers 5.24, models/mixtral/modeling_mixtral.py; the experts: integrations/moe.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *experts(fm_words *w, const fm_arch *arch, fm_value *x)
{
    fm_router how = {.kind = FM_ROUTER_MIXTRAL,
                     .n_in = arch->hidden,
                     .n_experts = arch->n_experts,
                     .top_k = arch->top_k,
                     .norm_topk = true};
    fm_value *logits, *weights, *indices;
    w_enter(w, "mlp");
    w->router(w, x, "gate", &how, &logits, &weights, &indices);
    w_let(w, logits);
    weights = w_let(w, weights);
    indices = w_let(w, indices);
    fm_value *out = w_let(
        w, w->experts(w, x, "experts", arch->n_experts, arch->hidden, arch->intermediate, arch->act, indices, weights));
    return w_leave(w, out);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_LLAMA, &how, fm_self_attention, experts);
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return fm_llama_like_forward(w, arch, block);
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 131072, 1e-5, false);
    if (!fm_read_node(r, "rope_theta|rope_parameters|rope_scaling"))
        a->rope.theta = 1e6;
    a->attention_bias = a->out_bias = a->mlp_bias = false;
    a->window = fm_read_nullable_size(r, "sliding_window", 0);
    a->n_experts = fm_read_size32(r, "num_local_experts|num_experts", 8);
    a->top_k = fm_read_size32(r, "num_experts_per_tok", 2);
    a->moe_intermediate = a->intermediate;
    a->norm_topk = true;
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.mlp.gate",
    "model.layers.*.mlp.experts.gate_up_proj",
    "model.layers.*.mlp.experts.down_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_mixtral = {
    .id = "mixtral", .model_types = "mixtral", .title = "Mixtral", .read = read, .forward = forward, .order = order};
