#include "program/cuda_scratch.h"

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 511) & ~511ull;
}
static uint64_t blocks(uint64_t n, uint64_t size)
{
    return (n + size - 1) / size;
}
static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t fm_cublas_workspace_bytes(uint32_t capability)
{
    uint32_t major = capability / 10;
    return major == 9 || major == 10 || major == 12 ? 32u << 20 : (8u << 20) + (128u << 10);
}

void fm_cuda_product(fm_tape *t)
{
    unsigned thread = t->phase == FM_PHASE_BACKWARD;
    if (t->mute || !t->record_scratch || t->cublas_workspace[thread])
        return;
    t->cublas_workspace[thread] = true;
    uint8_t stream = t->stream;
    t->stream = FM_STREAM_MAIN;
    fm_tensor_on(t, FM_TIER_DEVICE, FM_ROLE_SCRATCH, fm_cublas_workspace_bytes(t->capability), FM_ELEM_U8,
                 "cublas_workspace"); // alive to the end
    t->stream = stream;
}

uint64_t fm_embedding_backward_scratch(uint64_t n, uint64_t rows, uint64_t width)
{
    enum { ROWS_A_PIECE = 10 };
    if (n <= 3072)
        return 0;
    uint64_t segments = smaller(n, rows), pieces = n / ROWS_A_PIECE + segments;
    uint64_t scratch = 3 * rounded(8 * n);        // sorted indices, where they were, where each index's run begins
    scratch += 2 * rounded(8 * segments);         // pieces of each run, and where they begin
    scratch += rounded(8 * pieces) + 2 * 512;     // where each piece begins; two counts
    return scratch + rounded(4 * pieces * width); // the pieces' sums
}

// Tile of a thread block: queries x keys. GPUs with the shared memory of a data centre's (8.0, 9.0, 10.0) take the larger ones.
static void efficient_tile(uint64_t width, bool half, uint32_t capability, uint64_t *queries, uint64_t *keys)
{
    bool large = capability >= 80 && capability % 10 == 0 && capability < 120;
    *queries = *keys = 64;
    if (width <= 64)
        return;
    if (half && width <= 96 && (capability == 86 || capability == 89)) {
        *queries = 128;
    } else if (large) {
        *queries = 128;
        *keys = half && width <= 128 ? 128 : 64;
    }
}

uint64_t fm_efficient_backward_scratch(const fm_attention_shape *s, fm_elem elem, uint32_t capability)
{
    bool half = elem == FM_ELEM_BF16 || elem == FM_ELEM_F16;
    uint64_t heads = s->batch * s->heads, width = s->width > s->value_width ? s->width : s->value_width, tile_q, tile_k;
    efficient_tile(width, half, capability, &tile_q, &tile_k);
    // Floats a head: tiles of dq, each with four words before it; and where dk and dv do not stay in registers, one tile of each per split of the keys.
    uint64_t floats = blocks(s->queries, tile_q) * blocks(s->width, tile_k) * (tile_q * tile_k + 4);
    if (half && width > 128) {
        uint64_t splits = blocks(s->keys, tile_k);
        if (heads >= 256 && s->keys <= 2 * tile_k)
            splits = 1;
        splits = heads ? smaller(splits, 200 / heads) : splits;
        splits = splits ? splits : 1;
        floats += splits * tile_k * (blocks(s->width, tile_q) + blocks(s->value_width, tile_q)) * tile_q;
    }
    uint64_t workspace = rounded(heads * ((floats + 3) & ~3ull) * 4), delta = rounded(heads * s->queries * 4);
    if (half)
        return delta + workspace;
    // In fp32 delta is made outside of the kernel: a product of the outputs' size, its sum, and the sum laid out anew, together.
    uint64_t product = rounded(heads * s->queries * s->value_width * 4) + 2 * delta;
    return delta + workspace > product ? delta + workspace : product;
}

uint64_t fm_foreach_norm_scratch(uint64_t n, uint64_t largest)
{
    return rounded(4 * n * blocks(largest, 65536));
}
