// DeepSeek-V3: latent attention (MLA), experts behind a sigmoid gate with a shared expert; its prediction layer (MTP) is left out.
// Source: transformers 5.24, models/deepseek_v3/modeling_deepseek_v3.py; the experts: integrations/moe.py.
#include <math.h>
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *queries(fm_words *w, const fm_arch *arch, fm_value *x)
{
    uint64_t width = (uint64_t)arch->n_heads * arch->head_dim;
    if (!arch->q_lora_rank)
        return w->linear(w, x, "q_proj", arch->hidden, width, false);
    fm_value *low = w->linear(w, x, "q_a_proj", arch->hidden, arch->q_lora_rank, arch->attention_bias);
    return w->linear(w, w->rms_norm(w, low, "q_a_layernorm", arch->q_lora_rank, FM_NORM_LLAMA), "q_b_proj",
                     arch->q_lora_rank, width, false);
}

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                           const fm_attention *how, fm_value **weights)
{
    fm_value *q_pass, *q_rot, *latent, *k_rot, *k, *v;
    w_enter(w, "self_attn");
    fm_value *q_states = w_let(w, queries(w, arch, x));
    w_set(w, &q_states, w->heads(w, q_states, arch->n_heads, arch->head_dim));
    w->split2(w, q_states, arch->qk_nope_dim, &q_pass, &q_rot);
    q_pass = w_let(w, q_pass);
    q_rot = w_let(w, q_rot);
    fm_value *compressed = w_let(w, w->linear(w, x, "kv_a_proj_with_mqa", arch->hidden,
                                              arch->kv_lora_rank + arch->qk_rope_dim, arch->attention_bias));
    w->split2(w, compressed, arch->kv_lora_rank, &latent, &k_rot);
    latent = w_let(w, latent);
    k_rot = w_let(w, k_rot);
    w_set(w, &latent, w->rms_norm(w, latent, "kv_a_layernorm", arch->kv_lora_rank, FM_NORM_LLAMA));
    w_set(w, &k_rot, w->one_head(w, k_rot, arch->qk_rope_dim));
    if (arch->rope_interleave)
        w->rotate_as(w, FM_ROTATE_INTERLEAVE, &q_rot, &k_rot, args->cos, args->sin, arch->qk_rope_dim,
                     arch->qk_rope_dim);
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
    fm_router how = {.kind = FM_ROUTER_DEEPSEEK,
                     .n_in = arch->hidden,
                     .n_experts = arch->n_experts,
                     .top_k = arch->top_k,
                     .norm_topk = arch->norm_topk,
                     .n_groups = arch->n_groups,
                     .top_k_groups = arch->top_k_groups,
                     .scaling = arch->routed_scaling};
    fm_value *logits, *weights, *indices;
    w_enter(w, "mlp");
    w->router(w, x, "gate", &how, &logits, &weights, &indices);
    w_let(w, logits);
    weights = w_let(w, weights);
    indices = w_let(w, indices);
    fm_value *h = w_let(w, w->experts(w, x, "experts", arch->n_experts, arch->hidden, arch->moe_intermediate, arch->act,
                                      indices, weights));
    w_set(w, &h,
          w->add(w, h, fm_gated_mlp(w, arch, x, "shared_experts", arch->moe_intermediate * arch->n_shared_experts)));
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
    return fm_llama_like_block(w, arch, hidden, args, FM_NORM_LLAMA, &how, attention,
                               fm_arch_sparse(arch, layer) ? experts : fm_mlp);
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return fm_llama_like_forward(w, arch, block);
}

static void read_experts(fm_reader *r, fm_arch *a)
{
    a->n_experts = fm_read_size32(r, "n_routed_experts|num_local_experts", 256);
    a->n_shared_experts = fm_read_size32(r, "n_shared_experts", 1);
    a->top_k = fm_read_size32(r, "num_experts_per_tok", 8);
    a->moe_intermediate = fm_read_size(r, "moe_intermediate_size", 2048);
    a->first_k_dense = (uint32_t)fm_read_natural(r, "first_k_dense_replace", 3);
    a->norm_topk = fm_read_flag(r, "norm_topk_prob", true);
    a->n_groups = fm_read_size32(r, "n_group", 8);
    a->top_k_groups = fm_read_size32(r, "topk_group", 4);
    a->routed_scaling = fm_read_number(r, "routed_scaling_factor", 2.5);
    if (a->n_experts % a->n_groups)
        fm_read_fail(r, "n_group", FM_ERR_CONFLICT, "%u experts do not split into %u groups", a->n_experts,
                     a->n_groups);
    if (a->top_k_groups > a->n_groups)
        fm_read_fail(r, "topk_group", FM_ERR_CONFLICT, "%u of %u groups cannot be chosen", a->top_k_groups,
                     a->n_groups);
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 4096, false);
    a->n_kv_heads = a->n_heads;
    a->q_lora_rank = fm_read_nullable_size(r, "q_lora_rank", 1536);
    a->kv_lora_rank = fm_read_size(r, "kv_lora_rank", 512);
    a->qk_nope_dim = fm_read_size32(r, "qk_nope_head_dim", 128);
    a->qk_rope_dim = fm_read_size32(r, "qk_rope_head_dim", 64);
    a->v_head_dim = fm_read_size32(r, "v_head_dim", 128);
    a->head_dim = a->qk_nope_dim + a->qk_rope_dim;
    fm_read_rope(r, a, 10000, 1, a->qk_rope_dim);
    a->rope_interleave = fm_read_flag(r, "rope_interleave", true);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "rms_norm_eps", 1e-6);
    a->act = fm_read_activation(r, "hidden_act", "silu");
    a->attention_bias = a->out_bias = fm_read_flag(r, "attention_bias", false);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
    read_experts(r, a);
}

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
const fm_family fm_family_deepseek_v3 = {.id = "deepseek_v3",
                                         .model_types = "deepseek_v3",
                                         .title = "DeepSeek-V3",
                                         .read = read,
                                         .forward = forward,
                                         .order = order};
