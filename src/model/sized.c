#include "model/sized.h"
#include <stdio.h>
#include "model/family.h"

// Published shapes, smallest first: what a size looks like. Sources: the configurations of SmolLM2-135M, Llama-3.2-1B and -3B,
// Llama-3.1-8B, -70B and -405B (data/models), and steps between them and beyond in the same proportions.
static const struct {
    uint64_t n_params;
    uint32_t hidden, layers;
} shapes[] = {
    {1000000, 64, 4},
    {10000000, 192, 8},
    {50000000, 384, 12},
    {135000000, 576, 30},
    {350000000, 1024, 24},
    {1000000000, 2048, 16},
    {3000000000, 3072, 28},
    {8000000000, 4096, 32},
    {14000000000, 5120, 40},
    {34000000000, 6144, 60},
    {70000000000, 8192, 80},
    {180000000000, 12288, 96},
    {405000000000, 16384, 126},
    {1000000000000, 24576, 128},
    {5000000000000, 49152, 160},
    {20000000000000, 81920, 200},
    {100000000000000, 163840, 300},
};

// The row whose size is nearest in ratio.
static size_t nearest_shape(uint64_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < sizeof shapes / sizeof *shapes; i++) {
        long double before = (long double)n / (long double)shapes[best].n_params,
                    here = (long double)n / (long double)shapes[i].n_params;
        before = before < 1 ? 1 / before : before;
        here = here < 1 ? 1 / here : here;
        if (here < before)
            best = i;
    }
    return best;
}

static uint64_t block_params(const fm_arch *a)
{
    uint64_t h = a->hidden, kv = (uint64_t)a->n_kv_heads * a->head_dim;
    return 2 * h * h + 2 * h * kv + 3 * h * a->intermediate + 2 * h;
}

static uint64_t abs_diff(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

// Chooses the MLP's width: the multiple of `step` that leaves the vocabulary nearest `wanted`. False: nothing fits.
static bool fit(fm_arch *a, uint64_t n, uint64_t wanted)
{
    uint64_t h = a->hidden, best = 0, best_distance = UINT64_MAX, step = h >= 256 ? 64 : 8;
    for (uint64_t width = step; width <= 8 * h; width += step) {
        a->intermediate = width;
        uint64_t used = a->n_layers * block_params(a) + h;
        if (used + 2 * h > n)
            break;
        uint64_t distance = abs_diff((n - used) / (2 * h), wanted);
        if (distance < best_distance) {
            best_distance = distance;
            best = width;
        }
    }
    if (!best)
        return false;
    a->intermediate = best;
    uint64_t used = a->n_layers * block_params(a) + h;
    a->vocab = (n - used) / (2 * h);
    a->remainder = (n - used) % (2 * h);
    return true;
}

static void set_heads(fm_arch *a)
{
    a->head_dim = a->v_head_dim = a->hidden % 128 == 0 && a->hidden >= 2048 ? 128
                                  : a->hidden % 64 == 0 && a->hidden >= 512 ? 64
                                                                            : 32;
    a->n_heads = (uint32_t)(a->hidden / a->head_dim);
    a->n_kv_heads = a->n_heads % 8 == 0 && a->n_heads >= 32 ? 8 : a->n_heads;
}

fm_status fm_arch_sized(const char *text, uint64_t n, uint32_t layers, fm_arch *out, fm_err *err)
{
    if (n < 10000 || n > 1000000000000000)
        return fm_fail(err, FM_ERR_VALUE, "a model of %llu parameters has no shape here; sizes from 10K to 1000T do",
                       (unsigned long long)n);
    fm_arch a = {.family = &fm_family_llama,
                 .dtype = "bfloat16",
                 .max_positions = 8192,
                 .act = FM_ACT_SILU,
                 .norm_eps = 1e-5,
                 .norm_before = true,
                 .norm_affine = true,
                 .final_norm = true,
                 .norm_bias = true,
                 .embedding_multiplier = 1,
                 .residual_multiplier = 1,
                 .attention_multiplier = 1,
                 .logits_scaling = 1};
    snprintf(a.name, sizeof a.name, "%s", text);
    // Walk down from the nearest published shape until everything fits.
    for (size_t i = nearest_shape(n) + 1; i-- > 0;) {
        a.hidden = a.embed_width = shapes[i].hidden;
        a.n_layers = layers ? layers : shapes[i].layers;
        set_heads(&a);
        uint64_t wanted = n / (8 * a.hidden);
        if (fit(&a, n, wanted < 128256 ? wanted : 128256))
            goto fits;
    }
    a.hidden = a.embed_width = 32;
    a.n_layers = layers ? layers : 1;
    set_heads(&a);
    if (!fit(&a, n, n / (8 * 32)))
        return fm_fail(err, FM_ERR_VALUE, "%llu parameters do not make a model of %u layers; ask for fewer",
                       (unsigned long long)n, a.n_layers);
fits:
    a.rope =
        (fm_rope){.kind = FM_ROPE_DEFAULT, .theta = 500000, .dims = a.head_dim, .factor = 1, .attention_factor = 1};
    *out = a;
    return FM_OK;
}
