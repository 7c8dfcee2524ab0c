// Qwen3-MoE: Qwen3 with experts in (most) blocks.
// Source: transformers 5.24, models/qwen3_moe/modeling_qwen3_moe.py; the experts: integrations/moe.py.
#include <stddef.h>
#include "model/families/qwen3_common.h"
#include "model/read.h"

static fm_value *experts(fm_words *w, const fm_arch *arch, fm_value *x)
{
    fm_router how = {.kind = FM_ROUTER_QWEN3,
                     .n_in = arch->hidden,
                     .n_experts = arch->n_experts,
                     .top_k = arch->top_k,
                     .norm_topk = arch->norm_topk};
    fm_value *logits, *weights, *indices;
    w_enter(w, "mlp");
    w->router(w, x, "gate", &how, &logits, &weights, &indices);
    w_let(w, logits);
    weights = w_let(w, weights);
    indices = w_let(w, indices);
    fm_value *out = w_let(w, w->experts(w, x, "experts", arch->n_experts, arch->hidden, arch->moe_intermediate,
                                        arch->act, indices, weights));
    return w_leave(w, out);
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_mlp_fn *mlp = fm_arch_sparse(arch, layer) ? experts : fm_mlp;
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_LLAMA, &how, fm_qwen3_attention, mlp);
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return fm_llama_like_forward(w, arch, block);
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 32768, 1e-6, false);
    a->mlp_bias = false;
    if (fm_read_flag(r, "use_sliding_window", false))
        a->window = fm_read_nullable_size(r, "sliding_window", 4096);
    a->n_experts = fm_read_size32(r, "num_experts|num_local_experts", 128);
    a->top_k = fm_read_size32(r, "num_experts_per_tok", 8);
    a->moe_intermediate = fm_read_size(r, "moe_intermediate_size", 768);
    a->sparse_step = fm_read_size32(r, "decoder_sparse_step", 1);
    a->norm_topk = fm_read_flag(r, "norm_topk_prob", false);
    fm_read_dense_layers(r, a, "mlp_only_layers");
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.k_proj",
    "model.layers.*.self_attn.v_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.self_attn.q_norm",
    "model.layers.*.self_attn.k_norm",
    "model.layers.*.mlp.experts.gate_up_proj",
    "model.layers.*.mlp.experts.down_proj",
    "model.layers.*.mlp.gate",
    "model.layers.*.mlp.gate_proj",
    "model.layers.*.mlp.up_proj",
    "model.layers.*.mlp.down_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_qwen3_moe = {.id = "qwen3_moe",
                                       .model_types = "qwen3_moe",
                                       .title = "Qwen3-MoE",
                                       .read = read,
                                       .forward = forward,
                                       .order = order};
