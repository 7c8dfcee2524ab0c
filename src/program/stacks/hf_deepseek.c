// DeepSeek-V3: its router and its latent attention. Source: transformers 5.24, models/deepseek_v3/modeling_deepseek_v3.py.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

// sigmoid scores; a bias (a buffer) that only helps to choose; the best groups by the sum of their two best; the best experts inside them.
// Choosing has no gradient: it ends in indices.
void fm_hf_deepseek_router(fm_hf *hf, fm_tensor *rows, const fm_router *how, fm_tensor **logits, fm_tensor **weights,
                           fm_tensor **indices)
{
    fm_tape *t = hf->t;
    int64_t tokens = rows->shape[0], experts = how->n_experts, groups = how->n_groups;
    const int64_t by_expert[2] = {tokens, experts}, by_group[2] = {tokens, groups},
                  in_groups[3] = {tokens, groups, experts / groups};
    fm_tensor *x = fm_op_to(t, rows, FM_ELEM_F32);
    fm_tensor *weight = fm_op_to(t, fm_hf_parameter(hf, "weight"), FM_ELEM_F32); // gathered in 16 bits by a policy
    *logits = fm_sink(fm_op_linear(t, x, weight, NULL));
    fm_tensor *scores = fm_sink(fm_op_sigmoid(t, *logits));
    fm_tensor *choice = fm_tensor_new(t, 2, by_expert, FM_ELEM_F32, "add");
    const int64_t two_best[3] = {tokens, groups, 2}, chosen_groups[2] = {tokens, how->top_k_groups};
    fm_tensor *best = fm_tensor_new(t, 3, two_best, FM_ELEM_F32, "topk"),
              *best_at = fm_tensor_new(t, 3, two_best, FM_ELEM_I64, "topk");
    // What only the graph holds: a checkpointed forward keeps nothing.
    bool graph_holds = !t->packing || t->recomputing;
    if (!graph_holds) {
        fm_tensor_release(t, best_at);
        best_at = NULL;
    }
    fm_tensor *group_scores = fm_tensor_new(t, 2, by_group, FM_ELEM_F32, "sum");
    fm_tensor_release(t, best);
    fm_tensor *unused = fm_tensor_new(t, 2, chosen_groups, FM_ELEM_F32, "topk"),
              *group_at = fm_tensor_new(t, 2, chosen_groups, FM_ELEM_I64, "topk");
    fm_tensor_release(t, unused);
    fm_tensor *group_mask = fm_tensor_new(t, 2, by_group, FM_ELEM_F32, "zeros_like"),
              *mask = fm_tensor_new(t, 3, in_groups, FM_ELEM_F32, "clone");
    fm_tensor *kept = fm_tensor_new(t, 2, by_expert, FM_ELEM_BOOL, "_to_copy"),
              *dropped = fm_tensor_new(t, 2, by_expert, FM_ELEM_BOOL, "bitwise_not");
    fm_tensor_release(t, kept);
    fm_tensor *masked = fm_tensor_new(t, 2, by_expert, FM_ELEM_F32, "masked_fill");
    if (!graph_holds) {
        fm_tensor_release(t, dropped);
        dropped = NULL;
    }
    fm_tensor_release(t, choice);
    const int64_t picked[2] = {tokens, how->top_k};
    unused = fm_tensor_new(t, 2, picked, FM_ELEM_F32, "topk");
    *indices = fm_tensor_new(t, 2, picked, FM_ELEM_I64, "topk");
    fm_tensor_release(t, unused);
    fm_tensor *w = fm_sink(fm_op_gather(t, scores, *indices)), *denominator = NULL;
    if (how->norm_topk) {
        denominator = fm_sink(fm_op_add_scalar(t, fm_op_sum_dim(t, w, -1, true)));
        fm_tensor *divided = fm_sink(fm_op_div_into(t, w, denominator));
        fm_tensor_release(t, w);
        w = divided;
    }
    *weights = fm_sink(fm_op_mul_scalar(t, w));
    fm_tensor *locals[] = {w, dropped, masked, best_at, group_scores, group_at, group_mask, mask, denominator, scores};
    for (unsigned i = 0; i < sizeof locals / sizeof *locals; i++)
        fm_tensor_release(t, locals[i]);
}

// Keys: the latent's product split into a part without position and the values; the rotated part, one head, spread to all; both copied
// into one new tensor.
static void mla_keys(fm_words *w, const fm_arch *arch, fm_value *latent, fm_value *rotated, const char *name,
                     fm_value **k_out, fm_value **v_out)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    fm_tensor *x = fm_hf_tensor(latent), *k_rot = fm_hf_tensor(rotated);
    int64_t b = x->shape[0], s = x->shape[1], a = arch->n_heads, nope = arch->qk_nope_dim, rope = arch->qk_rope_dim,
            v = arch->v_head_dim;
    fm_tensor *one = fm_op_view(t, x, 4, (const int64_t[]){b, 1, s, x->shape[2]});
    fm_value *product = w->linear(w, fm_hf_value(one), name, (uint64_t)x->shape[2], (uint64_t)(a * (nope + v)), false);
    fm_tensor *kv = fm_sink(
        fm_op_transpose(t, fm_op_view(t, fm_hf_tensor(product), 4, (const int64_t[]){b, s, a, nope + v}), 1, 2));
    fm_tensor *parts[2];
    fm_op_split(t, kv, 2, (const int64_t[]){nope, v}, -1, parts);
    fm_sink(parts[0]);
    fm_tensor *spread = fm_sink(fm_op_expand(t, k_rot, 4, (const int64_t[]){b, a, s, rope}));
    fm_tensor *keys = fm_tensor_new(t, 4, (const int64_t[]){b, a, s, nope + rope}, (fm_elem)kv->elem, "new_empty");
    fm_tensor *first = fm_sink(fm_op_copy_into(t, keys, parts[0])),
              *second = fm_sink(fm_op_copy_into(t, first, spread));
    fm_tensor *locals[] = {keys, first, kv, parts[0], spread};
    for (unsigned i = 0; i < sizeof locals / sizeof *locals; i++)
        fm_tensor_release(t, locals[i]);
    *k_out = fm_hf_value(fm_float(second));
    *v_out = fm_hf_value(parts[1]);
}

void fm_hf_words_deepseek(fm_words *w)
{
    w->mla_keys = mla_keys;
}
