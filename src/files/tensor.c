#include "floodmark/tensor.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ROW(name, st, ggml, elems, bits) [FM_TENSOR_##name] = {FM_TENSOR_##name, #name, st, ggml, elems, bits},
static const fm_tensor_type_info table[] = {FM_TENSOR_TYPE_LIST(ROW)};
#undef ROW

const fm_tensor_type_info *fm_tensor_type_of(fm_tensor_type type)
{
    return (unsigned)type < FM_TENSOR_TYPE_N ? &table[type] : NULL;
}

const fm_tensor_type_info *fm_tensor_type_by_name(const char *name)
{
    for (size_t i = 0; i < FM_TENSOR_TYPE_N; i++)
        if (!strcasecmp(table[i].name, name))
            return &table[i];
    return NULL;
}

const fm_tensor_type_info *fm_tensor_type_by_safetensors(const char *dtype)
{
    for (size_t i = 0; i < FM_TENSOR_TYPE_N; i++)
        if (table[i].safetensors && !strcmp(table[i].safetensors, dtype))
            return &table[i];
    return NULL;
}

const fm_tensor_type_info *fm_tensor_type_by_ggml(uint32_t number)
{
    for (size_t i = 0; i < FM_TENSOR_TYPE_N; i++)
        if (table[i].ggml >= 0 && (uint32_t)table[i].ggml == number)
            return &table[i];
    return NULL;
}

// The product, 0 as soon as any dimension is: what else the shape says is then no size at all.
static bool product(uint32_t n_dims, const uint64_t *dims, uint64_t *out)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < n_dims; i++)
        if (!dims[i])
            return *out = 0, true;
    for (uint32_t i = 0; i < n_dims; i++)
        if (__builtin_mul_overflow(n, dims[i], &n))
            return false;
    *out = n;
    return true;
}

fm_status fm_tensor_size(fm_tensor_type type, uint32_t n_dims, const uint64_t *dims, uint64_t *n_elems, uint64_t *bytes,
                         fm_err *err)
{
    const fm_tensor_type_info *info = fm_tensor_type_of(type);
    char shape[96];
    uint64_t n;
    if (!info)
        return fm_fail(err, FM_ERR_USAGE, "tensor type %d is not in the table", (int)type);
    fm_tensor_shape_text(n_dims, dims, shape, sizeof shape);
    if (!product(n_dims, dims, &n))
        return fm_fail(err, FM_ERR_OVERFLOW, "shape %s has more than 2^64 values", shape);
    if (info->block_elems > 1 && (!n_dims || dims[n_dims - 1] % info->block_elems))
        return fm_fail(err, FM_ERR_VALUE, "rows of shape %s are not whole blocks of %u values, as %s needs", shape,
                       info->block_elems, info->name);
    unsigned __int128 bits = (unsigned __int128)(n / info->block_elems) * info->block_bits;
    if (bits % 8)
        return fm_fail(err, FM_ERR_VALUE, "shape %s of %s does not fill whole bytes", shape, info->name);
    if (bits / 8 > INT64_MAX)
        return fm_fail(err, FM_ERR_OVERFLOW, "shape %s of %s has more than 2^63 bytes", shape, info->name);
    *n_elems = n;
    *bytes = (uint64_t)(bits / 8);
    return FM_OK;
}

const char *fm_tensor_shape_text(uint32_t n_dims, const uint64_t *dims, char *buffer, size_t n)
{
    size_t used = 0;
    if (!n)
        return buffer;
    used += (size_t)snprintf(buffer, n, "[");
    for (uint32_t i = 0; i < n_dims && used < n; i++) {
        // Room for a number of 20 digits, ", ...]" and the zero, or the list ends here.
        if (n - used < 32) {
            used += (size_t)snprintf(buffer + used, n - used, i ? ", ..." : "...");
            break;
        }
        used += (size_t)snprintf(buffer + used, n - used, "%s%llu", i ? ", " : "", (unsigned long long)dims[i]);
    }
    if (used < n)
        snprintf(buffer + used, n - used, "]");
    return buffer;
}
