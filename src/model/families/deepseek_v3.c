// DeepSeek-V3: latent attention (MLA), experts behind a sigmoid gate with a shared expert; its prediction layer (MTP) is left out.
// Source: transformers 5.24, models/deepseek_v3/modeling_deepseek_v3.py; the experts: integrations/moe.py.
#include <stddef.h>
#include "model/families/common.h"
#include <math.h>

static fm_value *queries(fm_words *w, const fm_arch *arch, fm_value *x)
{
    uint64_t width = (uint64_t)arch->n_heads * arch->head_dim;
    if (!arch->q_lora_rank)
        return w->linear(w, x, "q_proj", arch->hidden, width, false);
    fm_value *low = w->linear(w, x, "q_a_proj", arch->hidden, arch->q_lora_rank, arch->attention_bias);
    return w->linear(w, w->rms_norm(w, low, "q_a_layernorm", arch->q_lora_rank, FM_NORM_LLAMA), "q_b_proj", arch->q_lora_rank, width, false);
}

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args, const fm_attention *how, fm_value **weights)
{
    fm_value *q_pass, *q_rot, *latent, *k_rot, *k, *v;
    w_enter(w, "self_attn");
    fm_value *q_states = w_let(w, queries(w, arch, x));
    w_set(w, &q_states, w->heads(w, q_states, arch->n_heads, arch->head_dim));
    w->split2(w, q_states, arch->qk_nope_dim, &q_pass, &q_rot);
    q_pass = w_let(w, q_pass);
    q_rot = w_let(w, q_rot);
    fm_value *compressed = w_let(w, w->linear(w, x, "kv_a_proj_with_mqa", arch->hidden, arch->kv_lora_rank + arch->qk_rope_dim, arch->attention_bias));
    w->split2(w, compressed, arch->kv_lora_rank, &latent, &k_rot);
    latent = w_let(w, latent);
    k_rot = w_let(w, k_rot);
    w_set(w, &latent, w->rms_norm(w, latent, "kv_a_layernorm", arch->kv_lora_rank, FM_NORM_LLAMA));
    w_set(w, &k_rot, w->one_head(w, k_rot, arch->qk_rope_dim));
    if (arch->rope_interleave)
        w->rotate_as(w, FM_ROTATE_INTERLEAVE, &q_rot, &k_rot, args->cos, args->sin, arch->qk_rope_dim, arch->qk_rope_dim);
    else
        w->rotate(w, &q_rot, &k_rot, args->cos, args->sin, arch->qk_rope_dim, arch->qk_rope_dim);
    fm_value *q = w_let(w, w->cat(w, q_pass, q_rot));
    w->mla_keys(w, arch, latent, k_rot, "kv_b_proj", &k, &v);
    k = w_let(w, k);
    v = w_let(w, v);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "o_proj", weights);
    return w_leave_pair(w, out, weights);
}

static fm_value *experts(fm_words *w, const fm_arch *arch, fm_value *x)
{
    fm_router how = {.kind = FM_ROUTER_DEEPSEEK, .n_in = arch->hidden, .n_experts = arch->n_experts, .top_k = arch->top_k, .norm_topk = arch->norm_topk,
                     .n_groups = arch->n_groups, .top_k_groups = arch->top_k_groups, .scaling = arch->routed_scaling};
    fm_value *logits, *weights, *indices;
    w_enter(w, "mlp");
    w->router(w, x, "gate", &how, &logits, &weights, &indices);
    w_let(w, logits);
    weights = w_let(w, weights);
    indices = w_let(w, indices);
    fm_value *h = w_let(w, w->experts(w, x, "experts", arch->n_experts, arch->hidden, arch->moe_intermediate, arch->act, indices, weights));
    w_set(w, &h, w->add(w, h, fm_gated_mlp(w, arch, x, "shared_experts", arch->moe_intermediate * arch->n_shared_experts)));
    return w_leave(w, h);
}

// yarn with mscale_all_dim also scales the scores, by the square of 0.1 m log(factor) + 1.
static double score_scale(const fm_arch *arch)
{
    double scale = 1.0 / sqrt((double)arch->head_dim), m = arch->rope.mscale_all_dim;
    if (arch->rope.kind == FM_ROPE_DEFAULT || m == 0 || arch->rope.factor <= 1)
        return scale;
    double mscale = 0.1 * m * log(arch->rope.factor) + 1.0;
    return scale * mscale * mscale;
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    how.scale = score_scale(arch);
    how.n_kv_heads = arch->n_heads; // keys and values are expanded for every head
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_LLAMA, &how, attention, fm_arch_sparse(arch, layer) ? experts : fm_mlp);
}

static fm_value *forward(fm_words *w, const fm_arch *arch) { return fm_llama_like_forward(w, arch, block); }

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.q_proj",
    "model.layers.*.self_attn.q_a_proj",
    "model.layers.*.self_attn.q_a_layernorm",
    "model.layers.*.self_attn.q_b_proj",
    "model.layers.*.self_attn.kv_a_proj_with_mqa",
    "model.layers.*.self_attn.kv_a_layernorm",
    "model.layers.*.self_attn.kv_b_proj",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.mlp.experts.gate_up_proj",
    "model.layers.*.mlp.experts.down_proj",
    "model.layers.*.mlp.gate",
    "model.layers.*.mlp.shared_experts.gate_proj",
    "model.layers.*.mlp.shared_experts.up_proj",
    "model.layers.*.mlp.shared_experts.down_proj",
    "model.layers.*.mlp.gate_proj",
    "model.layers.*.mlp.up_proj",
    "model.layers.*.mlp.down_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_deepseek_v3 = {.id = "deepseek_v3", .model_types = "deepseek_v3", .title = "DeepSeek-V3", .forward = forward, .order = order};
