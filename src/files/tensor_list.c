#include "files/tensor_list.h"
#include <string.h>
#include "base/alloc.h"
#include "files/names.h"

fm_status fm_tensor_list_add(fm_tensor_list *list, const fm_tensor_info *tensor, fm_err *err)
{
    fm_tensor_info *grown = fm_grow(list->items, &list->capacity, list->n, sizeof *grown);
    if (!grown)
        return fm_fail_memory(err, "the list of tensors");
    list->items = grown;
    grown[list->n++] = *tensor;
    return FM_OK;
}

fm_status fm_tensor_list_new(fm_tensor_list *list, fm_arena *arena, const char *name, fm_tensor_type type,
                             uint32_t n_dims, const uint64_t *dims, size_t *index, fm_err *err)
{
    fm_tensor_info t = {.type = type, .n_dims = n_dims};
    fm_status status = fm_tensor_size(type, n_dims, dims, &t.n_elems, &t.bytes, err);
    if (status) {
        fm_err_prefix(err, "tensor \"%.100s\"", name);
        return status;
    }
    uint64_t *copy = fm_arena_array(arena, n_dims, sizeof *copy);
    t.name = fm_arena_text(arena, name, strlen(name));
    if (!copy || !t.name)
        return fm_fail_memory(err, "the list of tensors");
    if (n_dims)
        memcpy(copy, dims, n_dims * sizeof *copy);
    t.dims = copy;
    size_t at = list->n;
    status = fm_tensor_list_add(list, &t, err);
    if (!status && index)
        *index = at;
    return status;
}

static const char *name_of(const void *items, size_t i)
{
    return ((const fm_tensor_info *)items)[i].name;
}

fm_status fm_tensor_list_seal(fm_tensor_list *list, fm_err *err)
{
    size_t *sorted = fm_alloc_array(list->n, sizeof *sorted);
    if (!sorted)
        return fm_fail_memory(err, "the list of tensors");
    size_t twice = fm_names_sort(sorted, list->n, list->items, name_of);
    if (twice != FM_NO_NAME) {
        fm_free(sorted);
        return fm_fail(err, FM_ERR_CONFLICT, "tensor \"%s\" is there twice", list->items[twice].name);
    }
    fm_free(list->sorted);
    list->sorted = sorted;
    return FM_OK;
}

const fm_tensor_info *fm_tensor_list_find(const fm_tensor_list *list, const char *name)
{
    size_t i = fm_names_find(list->sorted, list->sorted ? list->n : 0, list->items, name_of, name);
    return i != FM_NO_NAME ? &list->items[i] : NULL;
}

void fm_tensor_list_reset(fm_tensor_list *list)
{
    fm_free(list->items);
    fm_free(list->sorted);
    *list = (fm_tensor_list){0};
}
