#include "model/parts.h"
#include <string.h>
#include "base/alloc.h"
#include "base/checked.h"

// Types that weights and buffers of a model have in torch, with their bytes.
static const struct {
    const char *word;
    uint32_t bytes;
} dtypes[] = {
    {"float32", 4},     {"bfloat16", 2}, {"float16", 2}, {"float64", 8}, {"float8_e4m3fn", 1},
    {"float8_e5m2", 1}, {"bool", 1},     {"uint8", 1},   {"int8", 1},    {"int64", 8},
};

const char *fm_dtype_word(const char *torch_dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].word, torch_dtype))
            return dtypes[i].word;
    return dtypes[0].word;
}

uint32_t fm_dtype_bytes(const char *torch_dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].word, torch_dtype))
            return dtypes[i].bytes;
    return 0;
}

fm_status fm_parts_unit(fm_parts *parts, const char *name, size_t length, fm_unit_kind kind, uint32_t block,
                        fm_err *err)
{
    fm_model_unit *grown = fm_grow(parts->units, &parts->units_capacity, parts->n_units, sizeof *grown);
    if (grown)
        parts->units = grown;
    char *copy = grown ? fm_strndup(name, length) : NULL;
    if (!copy)
        return fm_fail_memory(err, "units of a model");
    parts->units[parts->n_units++] =
        (fm_model_unit){.name = copy, .kind = kind, .block = block, .first_param = (uint32_t)parts->n_params};
    return FM_OK;
}

fm_status fm_parts_take(fm_parts *parts, fm_model_param *param, fm_err *err)
{
    fm_model_param *grown = fm_grow(parts->params, &parts->params_capacity, parts->n_params, sizeof *grown);
    fm_model_unit *unit = &parts->units[parts->n_units - 1];
    if (!grown)
        return fm_fail_memory(err, "parameters of a model");
    parts->params = grown;
    if (param->tied_to < 0) {
        uint64_t elems, bytes;
        if (!fm_add_u64(parts->n_elems, param->n_elems, &elems) || !fm_add_u64(parts->bytes, param->bytes, &bytes))
            return fm_fail(err, FM_ERR_OVERFLOW, "the sizes of all parameters together pass 64 bits");
        parts->n_elems = elems;
        parts->bytes = bytes;
        unit->n_elems += param->n_elems;
        unit->bytes += param->bytes;
    }
    param->unit = (uint32_t)parts->n_units - 1;
    unit->n_params++;
    parts->params[parts->n_params++] = *param;
    param->name = NULL;
    return FM_OK;
}

void fm_parts_reset(fm_parts *parts)
{
    for (size_t i = 0; i < parts->n_units; i++)
        fm_free((char *)parts->units[i].name);
    for (size_t i = 0; i < parts->n_params; i++)
        fm_free((char *)parts->params[i].name);
    for (size_t i = 0; i < parts->n_buffers; i++)
        fm_free((char *)parts->buffers[i].name);
    fm_free(parts->units);
    fm_free(parts->params);
    fm_free(parts->buffers);
    *parts = (fm_parts){0};
}
