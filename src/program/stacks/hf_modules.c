// Modules with parameters, activations and arithmetic.
#include "program/stacks/hf.h"
#include "program/ops_private.h"

static fm_value *ids(fm_words *w)
{
    return fm_hf_value(fm_hf_of(w)->run->ids);
}

static fm_value *embedding(fm_words *w, const char *name, uint64_t rows, uint64_t width, fm_value *given)
{
    fm_hf *hf = fm_hf_of(w);
    (void)rows;
    (void)width;
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_hf_begin(hf, name, &x);
    fm_tensor *out = fm_op_embedding(hf->t, fm_hf_parameter(hf, "weight"), x);
    return fm_hf_value(fm_hf_end(hf, previous, out));
}

static fm_value *linear(fm_words *w, fm_value *given, const char *name, uint64_t n_in, uint64_t n_out, bool bias)
{
    fm_hf *hf = fm_hf_of(w);
    (void)n_in;
    (void)n_out;
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_hf_begin(hf, name, &x);
    fm_tensor *out = fm_op_linear(hf->t, x, fm_hf_parameter(hf, "weight"), bias ? fm_hf_parameter(hf, "bias") : NULL);
    return fm_hf_value(fm_hf_end(hf, previous, out));
}

// Conv1D: addmm over flattened tokens with the weight as it is stored, [in, out].
static fm_value *conv1d(fm_words *w, fm_value *given, const char *name, uint64_t n_in, uint64_t n_out)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_hf_begin(hf, name, &x);
    int64_t shape[FM_MAX_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->n_dims - 1] = (int64_t)n_out;
    unsigned n_dims = x->n_dims;
    int64_t rows = fm_tensor_numel(x) / (int64_t)n_in;
    fm_tensor *flat = fm_op_view(hf->t, x, 2, (const int64_t[]){rows, (int64_t)n_in});
    fm_tensor *out = fm_op_addmm(hf->t, fm_hf_parameter(hf, "bias"), flat, fm_hf_parameter(hf, "weight"));
    out = fm_op_view(hf->t, out, n_dims, shape);
    return fm_hf_value(fm_hf_end(hf, previous, out));
}

static fm_value *layer_norm(fm_words *w, fm_value *given, const char *name, uint64_t width, bool bias)
{
    fm_hf *hf = fm_hf_of(w);
    (void)width;
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_hf_begin(hf, name, &x);
    fm_tensor *out =
        fm_op_layer_norm(hf->t, x, fm_hf_parameter(hf, "weight"), bias ? fm_hf_parameter(hf, "bias") : NULL);
    return fm_hf_value(fm_hf_end(hf, previous, out));
}

// hidden = x.to(fp32); variance = hidden.pow(2).mean(-1, keepdim); hidden = hidden * rsqrt(variance + eps);
// return weight * hidden.to(input type)
static fm_tensor *rms_norm_llama(fm_tape *t, fm_tensor *x, fm_tensor *weight, bool cast_last)
{
    fm_elem given = (fm_elem)x->elem;
    bool floats = x->floating;
    x->floating = false;
    fm_tensor *hidden = fm_local(fm_op_to(t, x, FM_ELEM_F32));
    fm_tensor *variance = fm_local(fm_op_mean_last(t, fm_op_pow(t, hidden)));
    fm_tensor *scaled = fm_local(fm_op_mul(t, hidden, fm_op_rsqrt(t, fm_op_add_scalar(t, variance))));
    fm_tensor_release(t, hidden);
    // OLMo 2: (weight * hidden).to(input type)
    fm_tensor *out =
        cast_last ? fm_op_to(t, fm_op_mul(t, weight, scaled), given) : fm_op_mul(t, weight, fm_op_to(t, scaled, given));
    fm_sink(out);
    fm_tensor_release(t, scaled);
    fm_tensor_release(t, variance);
    x->floating = floats;
    fm_tensor_take(t, x);
    return fm_float(out);
}

// output = norm(x.float()) = f * rsqrt(f.pow(2).mean(-1, keepdim) + eps); output = output * (1.0 + weight.float()); output.type_as(x)
static fm_tensor *rms_norm_gemma(fm_tape *t, fm_tensor *x, fm_tensor *weight)
{
    fm_elem given = (fm_elem)x->elem;
    bool floats = x->floating;
    x->floating = false;
    fm_tensor *f = fm_local(fm_op_to(t, x, FM_ELEM_F32)); // the argument of _norm
    fm_tensor *output =
        fm_local(fm_op_mul(t, f, fm_op_rsqrt(t, fm_op_add_scalar(t, fm_op_mean_last(t, fm_op_pow(t, f))))));
    fm_tensor_release(t, f);
    fm_tensor *scaled = fm_local(fm_op_mul(t, output, fm_op_add_scalar(t, fm_op_to(t, weight, FM_ELEM_F32))));
    fm_tensor_release(t, output);
    fm_tensor *out = fm_op_to(t, scaled, given);
    if (out != scaled) {
        fm_sink(out);
        fm_tensor_release(t, scaled);
    }
    x->floating = floats;
    fm_tensor_take(t, x);
    return fm_float(out);
}

static fm_value *rms_norm(fm_words *w, fm_value *given, const char *name, uint64_t width, fm_norm_kind kind)
{
    fm_hf *hf = fm_hf_of(w);
    (void)width;
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_hf_begin(hf, name, &x);
    fm_tensor *weight = fm_hf_parameter(hf, "weight");
    fm_tensor *out = kind == FM_NORM_GEMMA ? rms_norm_gemma(hf->t, x, weight)
                                           : rms_norm_llama(hf->t, x, weight, kind == FM_NORM_OLMO2);
    return fm_hf_value(fm_hf_end(hf, previous, out));
}

// x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x ** 3))): seven operators, left to right
static fm_tensor *gelu_new(fm_tape *t, fm_tensor *x)
{
    bool floats = x->floating;
    x->floating = false;
    fm_tensor *half = fm_op_mul_scalar(t, x);
    fm_sink(half);
    fm_tensor *inner = fm_op_mul_scalar(t, fm_op_add(t, x, fm_op_mul_scalar(t, fm_op_pow(t, x))));
    fm_tensor *out = fm_op_mul(t, fm_float(half), fm_op_add_scalar(t, fm_op_tanh(t, inner)));
    x->floating = floats;
    fm_tensor_take(t, x);
    return out;
}

static fm_value *act(fm_words *w, fm_value *given, fm_activation kind)
{
    fm_hf *hf = fm_hf_of(w);
    fm_tape *t = hf->t;
    fm_tensor *x = fm_hf_tensor(given);
    uint32_t previous = fm_tape_enter(t, "act");
    fm_tensor *out;
    switch (kind) {
    case FM_ACT_SILU:
        out = fm_op_silu(t, x);
        break;
    case FM_ACT_RELU:
        out = fm_op_relu(t, x);
        break;
    case FM_ACT_BLOOM_GELU:
        out = fm_op_bloom_gelu(t, x);
        break;
    case FM_ACT_GELU_NEW:
        out = gelu_new(t, x);
        break;
    default:
        out = fm_op_gelu(t, x);
    }
    fm_tape_leave(t, previous);
    return fm_hf_value(out);
}

static fm_value *add(fm_words *w, fm_value *a, fm_value *b)
{
    return fm_hf_value(fm_op_add(fm_hf_of(w)->t, fm_hf_tensor(a), fm_hf_tensor(b)));
}
static fm_value *mul(fm_words *w, fm_value *a, fm_value *b)
{
    return fm_hf_value(fm_op_mul(fm_hf_of(w)->t, fm_hf_tensor(a), fm_hf_tensor(b)));
}
static fm_value *scale(fm_words *w, fm_value *x, double factor)
{
    (void)factor;
    if (fm_hf_of(w)->no_logits)
        return x;
    return fm_hf_value(fm_op_mul_scalar(fm_hf_of(w)->t, fm_hf_tensor(x)));
}
// Three assignments to one name: each value dies when the next exists.
static void softcap(fm_words *w, fm_value **variable, double cap)
{
    fm_tape *t = fm_hf_of(w)->t;
    (void)cap;
    if (fm_hf_of(w)->no_logits)
        return;
    w->set(w, variable, fm_hf_value(fm_op_div_scalar(t, fm_hf_tensor(*variable))));
    w->set(w, variable, fm_hf_value(fm_op_tanh(t, fm_hf_tensor(*variable))));
    w->set(w, variable, fm_hf_value(fm_op_mul_scalar(t, fm_hf_tensor(*variable))));
}
static fm_value *dropout(fm_words *w, fm_value *x, double p)
{
    fm_tape *t = fm_hf_of(w)->t;
    uint32_t previous = fm_tape_enter(t, "dropout");
    fm_tensor *out = fm_op_dropout(t, fm_hf_tensor(x), p);
    fm_tape_leave(t, previous);
    return fm_hf_value(out);
}
static void halves(fm_words *w, fm_value *x, fm_value **first, fm_value **second)
{
    fm_tensor *parts[2];
    fm_op_chunk(fm_hf_of(w)->t, fm_hf_tensor(x), 2, -1, parts);
    *first = fm_hf_value(parts[0]);
    *second = fm_hf_value(parts[1]);
}

// Buffers are made by the engine in init; nothing happens in forward.
static void buffer(fm_words *w, const char *name, const char *dtype, uint64_t n_elems)
{
    (void)w;
    (void)name;
    (void)dtype;
    (void)n_elems;
}

void fm_hf_words_modules(fm_words *w)
{
    w->ids = ids;
    w->embedding = embedding;
    w->linear = linear;
    w->conv1d = conv1d;
    w->layer_norm = layer_norm;
    w->rms_norm = rms_norm;
    w->act = act;
    w->add = add;
    w->mul = mul;
    w->scale = scale;
    w->softcap = softcap;
    w->dropout = dropout;
    w->halves = halves;
    w->buffer = buffer;
}
