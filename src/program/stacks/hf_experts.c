// Mixtures of experts as transformers 5.24 runs them by default: integrations/moe.py, grouped_mm_experts_forward. All tokens' rows are
// copied once per chosen expert, whatever the routing.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

// x viewed as rows [T, H]
static fm_tensor *as_rows(fm_tape *t, fm_tensor *x)
{
    int64_t width = x->shape[x->n_dims - 1];
    return fm_op_view(t, x, 2, (const int64_t[]){fm_tensor_numel(x) / width, width});
}

// weights /= weights.sum(-1, keepdim=True), in place
static fm_tensor *normalised(fm_tape *t, fm_tensor *weights)
{
    return fm_op_div_into(t, weights, fm_op_sum_dim(t, weights, -1, true));
}

static void rebind(fm_tape *t, fm_tensor **name, fm_tensor *x)
{
    if (x == *name)
        return;
    fm_sink(x);
    fm_tensor_release(t, *name);
    *name = x;
}

static void softmax_router(fm_hf *hf, fm_tensor *rows, const fm_router *how, fm_tensor **logits, fm_tensor **weights,
                           fm_tensor **indices)
{
    fm_tape *t = hf->t;
    *logits = fm_sink(fm_op_linear(t, rows, fm_hf_parameter(hf, "weight"), NULL));
    fm_tensor *p = fm_sink(fm_op_softmax(t, *logits, FM_ELEM_F32));
    *weights = fm_sink(fm_op_topk(t, p, how->top_k, indices));
    fm_sink(*indices);
    if (how->norm_topk)
        rebind(t, weights, normalised(t, *weights));
    if (how->kind == FM_ROUTER_QWEN3)
        rebind(t, weights, fm_op_to(t, *weights, (fm_elem)(*logits)->elem));
    fm_tensor_release(t, p);
}

static void router(fm_words *w, fm_value *given, const char *name, const fm_router *how, fm_value **logits,
                   fm_value **weights, fm_value **indices)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *x = fm_hf_tensor(given), *found[3] = {NULL};
    uint32_t previous = fm_hf_begin(hf, name, &x);
    fm_tensor *rows = fm_sink(as_rows(hf->t, x));
    if (how->kind == FM_ROUTER_DEEPSEEK)
        fm_hf_deepseek_router(hf, rows, how, &found[0], &found[1], &found[2]);
    else
        softmax_router(hf, rows, how, &found[0], &found[1], &found[2]);
    fm_tensor_release(hf->t, rows);
    fm_hf_end(hf, previous, NULL);
    *logits = fm_hf_value(fm_float(found[0]));
    *weights = fm_hf_value(fm_float(found[1]));
    *indices = fm_hf_value(fm_float(found[2]));
}

static fm_tensor *int_rows(fm_tape *t, int64_t n, fm_elem elem, const char *op)
{
    return fm_tensor_new(t, 1, &n, elem, op);
}

static fm_tensor *activated(fm_tape *t, fm_tensor *x, fm_activation act)
{
    return act == FM_ACT_SILU ? fm_op_silu(t, x) : act == FM_ACT_RELU ? fm_op_relu(t, x) : fm_op_gelu(t, x);
}

static fm_value *experts(fm_words *w, fm_value *given, const char *name, uint32_t n_experts, uint64_t n_in,
                         uint64_t intermediate, fm_activation act, fm_value *indices_given, fm_value *weights_given)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    fm_tensor *x = fm_hf_tensor(given), *indices = fm_hf_tensor(indices_given), *weights = fm_hf_tensor(weights_given);
    int64_t shape[FM_MAX_DIMS];
    unsigned n_dims = x->n_dims;
    memcpy(shape, x->shape, sizeof shape);
    (void)n_in;
    (void)intermediate;
    fm_elem elem = (fm_elem)x->elem;
    uint32_t previous = fm_hf_begin(hf, name, &x);
    fm_tensor *rows = fm_sink(as_rows(t, x));
    int64_t tokens = rows->shape[0], top_k = indices->shape[1], chosen = tokens * top_k;
    fm_tensor *sample_weights = fm_sink(fm_op_reshape(t, weights, 1, &chosen));
    fm_tensor *sorted = int_rows(t, chosen, FM_ELEM_I64, "sort"), *order = int_rows(t, chosen, FM_ELEM_I64, "sort");
    fm_tensor *tokens_of = fm_float(int_rows(t, chosen, FM_ELEM_I64, "floor_divide"));
    fm_tensor *gathered = fm_sink(fm_op_index_rows(t, rows, tokens_of));
    fm_tensor *gathered_weights = fm_sink(fm_op_index_rows(t, sample_weights, order));
    fm_tensor *ids = int_rows(t, chosen, FM_ELEM_I32, "_to_copy"),
              *counts = int_rows(t, n_experts, FM_ELEM_I32, "histc");
    fm_tensor *offsets = int_rows(t, n_experts, FM_ELEM_I32, "cumsum");
    fm_tensor *out =
        fm_sink(fm_op_grouped_mm(t, gathered, fm_op_transpose(t, fm_hf_parameter(hf, "gate_up_proj"), 1, 2), offsets));
    fm_tensor *halves[2];
    fm_op_chunk(t, out, 2, -1, halves);
    fm_sink(halves[0]);
    fm_sink(halves[1]);
    fm_tensor *product = fm_op_mul(t, activated(t, halves[0], act), halves[1]);
    fm_sink(product);
    fm_tensor_release(t, halves[0]);
    fm_tensor_release(t, halves[1]);
    rebind(t, &out, product);
    rebind(t, &out, fm_op_grouped_mm(t, out, fm_op_transpose(t, fm_hf_parameter(hf, "down_proj"), 1, 2), offsets));
    fm_tensor *weighted = fm_sink(fm_op_mul(t, out, fm_op_unsqueeze(t, gathered_weights, -1)));
    fm_tensor *inverse = int_rows(t, chosen, FM_ELEM_I64, "empty_like");
    fm_tensor_release(t, int_rows(t, chosen, FM_ELEM_I64, "arange"));
    rebind(t, &weighted, fm_op_index_rows(t, weighted, inverse));
    fm_tensor *summed = fm_sink(
        fm_op_sum_dim(t, fm_op_view(t, weighted, 3, (const int64_t[]){tokens, top_k, rows->shape[1]}), 1, false));
    fm_tensor *result = fm_op_to(t, summed, elem);
    if (result == summed)
        fm_tensor_retain(result);
    else
        fm_sink(result);
    fm_tensor *locals[] = {sorted,         order, ids,      counts,  offsets, gathered, gathered_weights,
                           sample_weights, out,   weighted, inverse, summed,  rows};
    for (unsigned i = 0; i < sizeof locals / sizeof *locals; i++)
        fm_tensor_release(t, locals[i]);
    fm_hf_end(hf, previous, NULL);
    return fm_hf_value(fm_op_view(t, fm_float(result), n_dims, shape));
}

void fm_hf_words_experts(fm_words *w)
{
    w->router = router;
    w->experts = experts;
}
