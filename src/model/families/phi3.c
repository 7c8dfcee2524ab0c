// Phi-3: Llama with q, k, v in one product and gate, up in another.
// Source: transformers 5.24, models/phi3/modeling_phi3.py.
#include <stddef.h>
#include "model/families/common.h"
#include "model/read.h"

static fm_value *attention(fm_words *w, const fm_arch *arch, fm_value *x, const fm_block_args *args,
                           const fm_attention *how, fm_value **weights)
{
    uint64_t width = ((uint64_t)arch->n_heads + 2 * (uint64_t)arch->n_kv_heads) * arch->head_dim;
    w_enter(w, "self_attn");
    fm_value *qkv = w_let(w, w->linear(w, x, "qkv_proj", arch->hidden, width, false)), *q, *k, *v;
    w->split_qkv(w, qkv, FM_QKV_SLICES, arch->n_heads, arch->n_kv_heads, arch->head_dim, &q, &k, &v);
    q = w_let(w, q);
    k = w_let(w, k);
    v = w_let(w, v);
    w->rotate_as(w, FM_ROTATE_PHI3, &q, &k, args->cos, args->sin, arch->head_dim, arch->rope.dims);
    fm_value *out = fm_attend(w, arch, q, k, v, args, how, "o_proj", weights);
    return w_leave_pair(w, out, weights);
}

static fm_value *mlp(fm_words *w, const fm_arch *arch, fm_value *x)
{
    fm_value *gate, *half;
    w_enter(w, "mlp");
    fm_value *up = w_let(w, w->linear(w, x, "gate_up_proj", arch->hidden, 2 * arch->intermediate, false));
    w->halves(w, up, &gate, &half);
    gate = w_let(w, gate);
    w_set(w, &up, half);
    w_set(w, &up, w->mul(w, up, w->act(w, gate, arch->act)));
    return w_leave(w, w->linear(w, up, "down_proj", arch->intermediate, arch->hidden, false));
}

static fm_value *block(fm_words *w, const fm_arch *arch, uint32_t layer, fm_value *hidden, const fm_block_args *args)
{
    fm_attention how = fm_attention_plain(arch, layer);
    fm_value *h = w_let(w, w->rms_norm(w, hidden, "input_layernorm", arch->hidden, FM_NORM_LLAMA)), *weights;
    w_set(w, &h, attention(w, arch, h, args, &how, &weights));
    w_let(w, weights);
    w_set(w, &h, w->add(w, hidden, w->dropout(w, h, arch->dropout_residual)));
    fm_value *residual = w_let(w, h);
    w_set(w, &h, w->rms_norm(w, h, "post_attention_layernorm", arch->hidden, FM_NORM_LLAMA));
    w_set(w, &h, mlp(w, arch, h));
    w_set(w, &h, w->add(w, residual, w->dropout(w, h, arch->dropout_residual)));
    return h;
}

static fm_value *forward(fm_words *w, const fm_arch *arch)
{
    return fm_llama_like_forward(w, arch, block);
}

static void read(fm_reader *r, fm_arch *a)
{
    fm_read_llama_like(r, a, 4096, 1e-5, false);
    a->attention_bias = a->out_bias = a->mlp_bias = false;
    a->dropout_residual = fm_read_probability(r, "resid_pdrop", 0);
    a->window = fm_read_nullable_size(r, "sliding_window", 0);
}

static const char *const order[] = {
    "model.embed_tokens",
    "model.layers.*.self_attn.o_proj",
    "model.layers.*.self_attn.qkv_proj",
    "model.layers.*.mlp.gate_up_proj",
    "model.layers.*.mlp.down_proj",
    "model.layers.*.input_layernorm",
    "model.layers.*.post_attention_layernorm",
    "model.norm",
    "lm_head",
    NULL,
};
const fm_family fm_family_phi3 = {
    .id = "phi3", .model_types = "phi3", .title = "Phi-3", .read = read, .forward = forward, .order = order};
