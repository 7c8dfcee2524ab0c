#include "floodmark/block_format.h"
#include <string.h>
#include "base/checked.h"
#include "quantize/blocks/kernels.h"
#include "quantize/blocks/measure.h"

#define FM_BLOCK_ROW(NAME, name, ggml, elems, bytes, exact) {#name, FM_BLOCK_##NAME, ggml, elems, bytes, exact},
static const fm_block_format formats[FM_BLOCK_N] = {FM_BLOCK_LIST(FM_BLOCK_ROW)};
#undef FM_BLOCK_ROW

// Best last.
static const fm_block_level levels[] = {
    [FM_CPU_SCALAR] = {fm_block_exact_scalar, fm_block_search_scalar, fm_block_decoders_scalar,
                       fm_block_largest_scalar},
#if defined(__x86_64__)
    [FM_CPU_AVX2] = {fm_block_exact_avx2, fm_block_search_avx2, fm_block_decoders_avx2, fm_block_largest_avx2},
    [FM_CPU_AVX512] = {fm_block_exact_avx512, fm_block_search_avx512, fm_block_decoders_avx512,
                       fm_block_largest_avx512},
#endif
};
static const int n_levels = sizeof levels / sizeof levels[0];

const fm_block_format *fm_block_format_of(fm_block_type type)
{
    return (unsigned)type < FM_BLOCK_N ? &formats[type] : NULL;
}

const fm_block_format *fm_block_format_by_name(const char *name)
{
    if (!strcmp(name, "fp16"))
        name = "f16";
    for (int i = 0; i < FM_BLOCK_N; i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

const fm_block_format *fm_block_format_by_ggml_type(uint32_t ggml_type)
{
    for (int i = 0; i < FM_BLOCK_N; i++)
        if (formats[i].ggml_type == ggml_type)
            return &formats[i];
    return NULL;
}

double fm_block_bits_per_weight(const fm_block_format *f)
{
    return 8.0 * f->block_bytes / f->block_elems;
}

fm_status fm_block_bytes(const fm_block_format *f, uint64_t n_elems, uint64_t *bytes, fm_err *err)
{
    if (n_elems % f->block_elems)
        return fm_fail(err, FM_ERR_VALUE, "%s: %llu values are not whole blocks of %u", f->name,
                       (unsigned long long)n_elems, f->block_elems);
    if (!fm_mul_u64(n_elems / f->block_elems, f->block_bytes, bytes))
        return fm_fail(err, FM_ERR_OVERFLOW, "%s: the bytes of %llu values do not fit 64 bits", f->name,
                       (unsigned long long)n_elems);
    return FM_OK;
}

bool fm_block_kernels_at(fm_cpu_level level, fm_block_type type, fm_block_kernels *out)
{
    if ((int)level >= n_levels || level > fm_cpu_features()->best)
        return false;
    fm_block_encoder *exact = NULL, *search = NULL;
    for (int l = 0; l <= (int)level; l++) {
        exact = levels[l].exact[type] ? levels[l].exact[type] : exact;
        search = levels[l].search[type] ? levels[l].search[type] : search;
    }
    *out = (fm_block_kernels){exact ? exact : search, search ? search : exact, levels[level].decode[type],
                              levels[level].largest};
    return true;
}

static fm_cpu_level level_in_use(void)
{
    fm_cpu_level level = fm_cpu_level_chosen();
    return (int)level < n_levels ? level : (fm_cpu_level)(n_levels - 1);
}

static fm_block_kernels kernels_of(const fm_block_format *f)
{
    fm_block_kernels k = {0};
    if (!fm_block_kernels_at(level_in_use(), f->type, &k))
        (void)fm_block_kernels_at(FM_CPU_SCALAR, f->type, &k);
    return k;
}

const char *fm_block_kernel(const fm_block_format *f)
{
    (void)f;
    return fm_cpu_level_name(level_in_use());
}

// Values encoded before the block headers are looked at: small enough that both are still in the first cache.
enum { TILE_ELEMS = 4096 };

fm_status fm_block_encode(const fm_block_format *f, uint64_t n_rows, uint64_t n_per_row, const float *x,
                          const float *weights, void *blocks, fm_block_faults *faults, fm_block_error *error,
                          fm_err *err)
{
    uint64_t row_bytes, n, total;
    fm_status status = fm_block_bytes(f, n_per_row, &row_bytes, err);
    if (status != FM_OK)
        return status;
    if (!fm_mul_u64(n_rows, n_per_row, &n) || !fm_mul_u64(n_rows, row_bytes, &total) || n > SIZE_MAX / 4)
        return fm_fail(err, FM_ERR_OVERFLOW, "%s: %llu rows of %llu values do not fit in memory", f->name,
                       (unsigned long long)n_rows, (unsigned long long)n_per_row);
    fm_block_kernels k = kernels_of(f);
    if (!k.encode || !k.encode_weighted)
        return fm_fail(err, FM_ERR_INTERNAL, "%s: no encoder", f->name);
    uint8_t *out = blocks;
    // Without weights a row's end means nothing: all rows are one.
    uint64_t rows = weights ? n_rows : 1, length = weights ? n_per_row : n;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < length; i += TILE_ELEMS) {
            size_t m = length - i < TILE_ELEMS ? (size_t)(length - i) : TILE_ELEMS, n_blocks = m / f->block_elems;
            if (weights)
                k.encode_weighted(n_blocks, x, weights + i, out);
            else
                k.encode(n_blocks, x, NULL, out);
            if (faults)
                fm_block_find_faults(f, k.largest, n_blocks, x, out, faults);
            if (error)
                fm_block_measure(f, k.decode, n_blocks, x, out, error);
            x += m;
            out += n_blocks * f->block_bytes;
        }
    return FM_OK;
}

fm_status fm_block_decode(const fm_block_format *f, uint64_t n_elems, const void *blocks, float *out, fm_err *err)
{
    uint64_t bytes;
    fm_status status = fm_block_bytes(f, n_elems, &bytes, err);
    if (status != FM_OK)
        return status;
    if (n_elems > SIZE_MAX / 4 || bytes > SIZE_MAX)
        return fm_fail(err, FM_ERR_OVERFLOW, "%s: %llu values do not fit in memory", f->name,
                       (unsigned long long)n_elems);
    kernels_of(f).decode((size_t)(n_elems / f->block_elems), blocks, out);
    return FM_OK;
}
