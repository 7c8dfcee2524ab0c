// Words that only some families say.
#include "program/stacks/hf.h"
#include "program/ops_private.h"
#include <stdio.h>

// embedding(ids) * embed_scale.to(weight.dtype); the scale is a buffer of the module
static fm_value *scaled_embedding(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *ids,
                                  double factor)
{
    (void)factor;
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *out = fm_hf_tensor(w->embedding(w, name, rows, width, ids));
    if (out->elem == fm_elem_of(hf->run->recipe->param))
        return fm_hf_value(fm_op_mul_scalar(hf->t, out));
    // gathered in another type than the buffer's: the scale is cast, and the product keeps the copy
    return fm_hf_value(fm_op_mul(hf->t, out, fm_float(fm_tensor_new(hf->t, 0, NULL, (fm_elem)out->elem, "_to_copy"))));
}

// --- pieces and joins

static void slices(fm_words *w, fm_value *given, uint64_t n, fm_value **first, fm_value **second)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *x = fm_hf_tensor(given);
    bool floats = x->floating;
    x->floating = false;
    int64_t d = x->shape[x->n_dims - 1];
    *first = fm_hf_value(fm_op_slice(t, x, -1, 0, (int64_t)n, 1));
    *second = fm_hf_value(fm_op_slice(t, x, -1, (int64_t)n, d, 1));
    x->floating = floats;
    fm_tensor_take(t, x);
}

static void split2(fm_words *w, fm_value *given, uint64_t n, fm_value **first, fm_value **second)
{
    fm_tensor *x = fm_hf_tensor(given), *parts[2];
    const int64_t sizes[2] = {(int64_t)n, x->shape[x->n_dims - 1] - (int64_t)n};
    fm_op_split(fm_hf_of(w)->t, x, 2, sizes, -1, parts);
    *first = fm_hf_value(parts[0]);
    *second = fm_hf_value(parts[1]);
}

static fm_value *cat(fm_words *w, fm_value *a, fm_value *b)
{
    fm_tensor *parts[2] = {fm_hf_tensor(a), fm_hf_tensor(b)};
    return fm_hf_value(fm_op_cat(fm_hf_of(w)->t, 2, parts, -1));
}

static void add_into(fm_words *w, fm_value **a, fm_value *b)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *sum = fm_op_add_into(t, fm_hf_tensor(*a), fm_hf_tensor(b));
    w->set(w, a, fm_hf_value(sum));
}

static fm_value *view_heads(fm_words *w, fm_value *given, uint32_t n, uint32_t d)
{
    fm_tensor *x = fm_hf_tensor(given);
    return fm_hf_value(fm_op_view(fm_hf_of(w)->t, x, 4, (const int64_t[]){x->shape[0], x->shape[1], n, d}));
}

static fm_value *transpose_heads(fm_words *w, fm_value *x)
{
    return fm_hf_value(fm_op_transpose(fm_hf_of(w)->t, fm_hf_tensor(x), 1, 2));
}

static fm_value *one_head(fm_words *w, fm_value *given, uint32_t d)
{
    fm_tensor *x = fm_hf_tensor(given);
    return fm_hf_value(fm_op_view(fm_hf_of(w)->t, x, 4, (const int64_t[]){x->shape[0], 1, x->shape[1], d}));
}

// --- linears and norms of their own

// x @ weight.T; with a bias a second tensor, x + bias
static fm_value *linear_at(fm_words *w, fm_value *given, const char *name, uint64_t n_in, uint64_t n_out, bool bias)
{
    fm_hf *hf = fm_hf_of(w);
    (void)n_in;
    (void)n_out;
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_hf_begin(hf, name, &x);
    bool floats = x->floating; // the module's argument: it lives through both
    x->floating = false;
    fm_tensor *out = fm_op_matmul(hf->t, x, fm_op_t(hf->t, fm_hf_parameter(hf, "weight")));
    if (bias)
        out = fm_op_add(hf->t, out, fm_hf_parameter(hf, "bias"));
    x->floating = floats;
    fm_tensor_take(hf->t, x);
    return fm_hf_value(fm_hf_end(hf, previous, out));
}

static fm_value *layer_norm_plain(fm_words *w, fm_value *given, const char *name, uint64_t width)
{
    fm_hf *hf = fm_hf_of(w);
    (void)width;
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_hf_begin(hf, name, &x);
    return fm_hf_value(fm_hf_end(hf, previous, fm_op_layer_norm(hf->t, x, NULL, NULL)));
}

// split(1, dim=1); one LayerNorm a head; cat(dim=1)
static fm_value *layer_norm_per_head(fm_words *w, fm_value *given, const char *name, uint32_t n, uint32_t d)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    (void)d;
    fm_tensor *x = fm_hf_tensor(given), **parts = fm_tape_alloc(t, n * sizeof *parts),
              **normed = fm_tape_alloc(t, n * sizeof *normed);
    int64_t *sizes = fm_tape_alloc(t, n * sizeof *sizes);
    for (uint32_t i = 0; i < n; i++)
        sizes[i] = 1;
    uint32_t previous = fm_tape_enter(t, name);
    fm_op_split(t, x, n, sizes, 1, parts);
    for (uint32_t i = 0; i < n; i++)
        fm_sink(parts[i]);
    for (uint32_t i = 0; i < n; i++) {
        char module[32];
        snprintf(module, sizeof module, "norms.%u", i);
        uint32_t outer = fm_tape_enter(t, module);
        normed[i] = fm_op_layer_norm(t, parts[i], fm_hf_parameter(hf, "weight"), NULL);
        fm_tape_leave(t, outer);
    }
    fm_tensor *out = fm_op_cat(t, n, normed, 1);
    for (uint32_t i = 0; i < n; i++)
        fm_tensor_release(t, parts[i]);
    fm_tape_leave(t, previous);
    return fm_hf_value(out);
}

// --- positions

static void opt_positions(fm_words *w, fm_value **ones, fm_value **ids)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    const int64_t *shape = hf->run->ids->shape;
    fm_tensor *mask = fm_tensor_new(t, 2, shape, FM_ELEM_F32, "ones");
    fm_tensor *count = fm_sink(fm_op_plain(t, mask, NULL, FM_ELEM_F32, "cumsum")); // the name that the ids take over
    fm_tensor *x = fm_op_plain(t, fm_op_plain(t, count, mask, FM_ELEM_F32, "mul"), NULL, FM_ELEM_F32, "sub");
    *ids = fm_hf_value(fm_op_plain(t, x, NULL, FM_ELEM_I64, "_to_copy"));
    fm_tensor_release(t, count);
    *ones = fm_hf_value(fm_float(mask));
}

static fm_value *offset_ids(fm_words *w, fm_value *ids, int64_t by)
{
    (void)by;
    return fm_hf_value(fm_op_plain(fm_hf_of(w)->t, fm_hf_tensor(ids), NULL, FM_ELEM_I64, "add"));
}

// --- ALiBi

static fm_tensor *flat(fm_tape *t, int64_t n, fm_elem elem, const char *op)
{
    return fm_tensor_new(t, 1, &n, elem, op);
}

// base ** (1, 2, ...); where heads are no power of two a second set, joined
// `made` gets what that took, owned: locals of whoever wrote it.
static fm_tensor *alibi_slopes(fm_tape *t, int64_t heads, fm_tensor *made[4])
{
    int64_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    fm_tensor *base = fm_tensor_new(t, 0, NULL, FM_ELEM_F32, "full"), *powers = flat(t, power, FM_ELEM_I32, "arange");
    fm_tensor *slopes = flat(t, power, FM_ELEM_F32, "pow"), *extra_base = NULL, *extra_powers = NULL;
    if (power != heads) {
        int64_t rest = heads - power < power ? heads - power : power;
        extra_base = fm_tensor_new(t, 0, NULL, FM_ELEM_F32, "full");
        extra_powers = flat(t, rest, FM_ELEM_I32, "arange");
        fm_tensor *extra = flat(t, rest, FM_ELEM_F32, "pow"), *joined = flat(t, power + rest, FM_ELEM_F32, "cat");
        fm_tensor_release(t, extra);
        fm_tensor_release(t, slopes);
        slopes = joined;
    }
    made[0] = base;
    made[1] = powers;
    made[2] = extra_base;
    made[3] = extra_powers;
    return slopes;
}

static void drop_all(fm_tape *t, unsigned n, fm_tensor *const *tensors)
{
    for (unsigned i = 0; i < n; i++)
        fm_tensor_release(t, tensors[i]);
}

static void bloom_alibi(fm_tape *t, const fm_tensor *hidden, int64_t heads, fm_value **slopes_out, fm_value **alibi_out)
{
    int64_t b = hidden->shape[0], s = hidden->shape[1];
    fm_tensor *made[4], *slopes = alibi_slopes(t, heads, made);
    drop_all(t, 4, made);
    fm_tensor *positions = flat(t, s, FM_ELEM_I64, "arange");
    fm_tensor *product = fm_tensor_new(t, 3, (const int64_t[]){heads, 1, s}, FM_ELEM_F32, "mul");
    fm_tensor_release(t, positions);
    fm_tensor *repeated = fm_sink(fm_tensor_new(t, 3, (const int64_t[]){b * heads, 1, s}, FM_ELEM_F32, "repeat"));
    fm_tensor *alibi = fm_op_to(t, repeated, (fm_elem)hidden->elem);
    if (alibi != repeated)
        fm_tensor_release(t, repeated);
    fm_tensor_release(t, product);
    *slopes_out = fm_hf_value(fm_float(slopes));
    *alibi_out = fm_hf_value(fm_float(alibi));
}

static void falcon_alibi(fm_tape *t, const fm_tensor *hidden, int64_t heads, fm_value **mask_out, fm_value **alibi_out)
{
    int64_t b = hidden->shape[0], s = hidden->shape[1];
    const int64_t rows[2] = {b, s};
    fm_tensor *mask = fm_tensor_new(t, 2, rows, FM_ELEM_I64, "ones"), *made[4], *slopes = alibi_slopes(t, heads, made);
    fm_tensor *positions = fm_op_plain(t, fm_op_plain(t, mask, NULL, FM_ELEM_I64, "cumsum"), NULL, FM_ELEM_I64, "sub");
    positions = fm_sink(fm_op_plain(t, positions, mask, FM_ELEM_I64, "mul"));
    fm_tensor *low = flat(t, heads, FM_ELEM_BF16, "_to_copy");
    fm_tensor *product = fm_sink(fm_tensor_new(t, 3, (const int64_t[]){b * heads, 1, s}, FM_ELEM_BF16, "mul"));
    fm_tensor_release(t, low);
    fm_tensor *alibi = fm_op_to(t, product, (fm_elem)hidden->elem);
    if (alibi != product) {
        fm_sink(alibi);
        fm_tensor_release(t, product);
    }
    drop_all(t, 4, made);
    fm_tensor_release(t, slopes);
    fm_tensor_release(t, positions);
    *mask_out = fm_hf_value(fm_float(mask));
    *alibi_out = fm_hf_value(fm_float(alibi));
}

static void alibi(fm_words *w, const fm_arch *arch, fm_alibi_kind kind, fm_value *hidden, fm_value **slopes,
                  fm_value **values)
{
    fm_tape *t = fm_hf_of(w)->t;
    if (kind == FM_ALIBI_BLOOM)
        bloom_alibi(t, fm_hf_tensor(hidden), arch->n_heads, slopes, values);
    else
        falcon_alibi(t, fm_hf_tensor(hidden), arch->n_heads, slopes, values);
}

// masked_fill(alibi.reshape(B, a, 1, S) / sqrt(d), mask < -1, min): [B, a, S, S]
static fm_value *alibi_mask(fm_words *w, const fm_arch *arch, fm_value *given, fm_value *mask_given)
{
    fm_tape *t = fm_hf_of(w)->t;
    fm_tensor *values = fm_hf_tensor(given), *mask = fm_hf_tensor(mask_given);
    int64_t b = mask->shape[0], s = mask->shape[3];
    b = values->shape[0] / (int64_t)arch->n_heads > b ? values->shape[0] / (int64_t)arch->n_heads : b;
    fm_tensor *scaled = fm_tensor_new(t, 4, (const int64_t[]){b, arch->n_heads, 1, s}, (fm_elem)values->elem, "div");
    fm_tensor *hidden =
        fm_sink(fm_op_plain(t, mask, NULL, FM_ELEM_BOOL, mask->elem == FM_ELEM_BOOL ? "bitwise_not" : "lt"));
    fm_tensor *out =
        fm_tensor_new(t, 4, (const int64_t[]){b, arch->n_heads, s, s}, (fm_elem)values->elem, "masked_fill");
    fm_tensor_release(t, scaled);
    fm_tensor_release(t, hidden);
    return fm_hf_value(fm_float(out));
}

// A vector with state and gradient and no other cost (a bare size's remainder).
static fm_value *remainder_of_size(fm_words *w, fm_value *x, const char *name, uint64_t n)
{
    (void)n;
    fm_hf *hf = fm_hf_of(w);
    uint32_t previous = fm_tape_enter(hf->t, name);
    fm_tensor *weight = fm_hf_parameter(hf, "weight"),
              *out = weight ? fm_op_touch(hf->t, fm_hf_tensor(x), weight) : fm_hf_tensor(x);
    fm_tape_leave(hf->t, previous);
    return fm_hf_value(out);
}

void fm_hf_words_families(fm_words *w)
{
    w->scaled_embedding = scaled_embedding;
    w->slices = slices;
    w->split2 = split2;
    w->cat = cat;
    w->add_into = add_into;
    w->view_heads = view_heads;
    w->transpose_heads = transpose_heads;
    w->one_head = one_head;
    w->linear_at = linear_at;
    w->layer_norm_plain = layer_norm_plain;
    w->layer_norm_per_head = layer_norm_per_head;
    w->opt_positions = opt_positions;
    w->offset_ids = offset_ids;
    w->alibi = alibi;
    w->alibi_mask = alibi_mask;
    w->remainder = remainder_of_size;
}
