// Gemma 2: norms before and after both halves of a block, windows in every other block, soft caps.
// Source: transformers 5.24, models/gemma2/modeling_gemma2.py.
#include <math.h>
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    how.core = "gemma2";
    how.softcap = arch->softcap_attention;
    how.scale = 1.0 / sqrt(arch->query_scalar);
    fm_value *h = w_let(w, w->rms_norm(w, hidden, "input_layernorm", arch->hidden, FM_NORM_GEMMA)), *weights;
    w_set(w, &h, fm_self_attention(w, arch, h, args, &how, &weights));
    w_let(w, weights);
    w_set(w, &h, w->rms_norm(w, h, "post_attention_layernorm", arch->hidden, FM_NORM_GEMMA));
    w_set(w, &h, w->add(w, hidden, h));
    fm_value *residual = w_let(w, h);
    w_set(w, &h, w->rms_norm(w, h, "pre_feedforward_layernorm", arch->hidden, FM_NORM_GEMMA));
    w_set(w, &h, fm_mlp(w, arch, h));
    w_set(w, &h, w->rms_norm(w, h, "post_feedforward_layernorm", arch->hidden, FM_NORM_GEMMA));
    w_set(w, &h, w->add(w, residual, h));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    w_enter(w, "");
    w_enter(w, "model");
    fm_value *embeds = w_let(
        w, w->scaled_embedding(w, "embed_tokens", arch->vocab, arch->hidden, w->ids(w), sqrt((double)arch->hidden)));
    fm_value *last = fm_llama_like_model(w, arch, FM_NORM_GEMMA, embeds, block);
    fm_value *logits = fm_head(w, arch, last, arch->hidden, "model.embed_tokens.weight");
    if (arch->softcap_logits > 0)
        w->softcap(w, &logits, arch->softcap_logits);
    return fm_finish(w, arch, logits);
}

static bool windowed(const fm_arch *a, uint32_t layer, uint64_t extra)
{
    return (void)a, (void)extra, layer % 2 == 0;
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_common(r, a, 8192, true);
    fm_read_heads(r, a, 4, 256);
    fm_read_rope(r, a, 10000, 1, 0);
    a->intermediate = fm_read_size(r, "intermediate_size", FM_NEEDED);
    a->norm_eps = fm_read_positive(r, "rms_norm_eps", 1e-6);
    a->act = fm_read_activation(r, "hidden_activation", "gelu_pytorch_tanh"); // the class does not look at hidden_act
    a->attention_bias = a->out_bias = fm_read_flag(r, "attention_bias", false);
    a->dropout_attention = fm_read_probability(r, "attention_dropout", 0);
    a->query_scalar = fm_read_positive(r, "query_pre_attn_scalar", 256);
    a->softcap_attention = fm_read_nullable_number(r, "attn_logit_softcapping", 50);
    a->softcap_logits = fm_read_nullable_number(r, "final_logit_softcapping", 30);
    a->mask_by_layer = true;
    a->window = fm_read_nullable_size(r, "sliding_window", 4096);
    fm_read_layer_types(r, a, windowed, 0);
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
    "model.layers.*.pre_feedforward_layernorm",
    "model.layers.*.post_feedforward_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_gemma2 = {.id = "gemma2",
                                    .model_types = "gemma2",
                                    .title = "Gemma 2",
                                    .read = read,
                                    .forward = forward,
                                    .order = order,
                                    .no_sdpa = true};
