#include "files/tensor_list.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"

fm_status fm_tensor_list_add(fm_tensor_list *list, const fm_tensor_info *tensor, fm_err *err)
{
    fm_tensor_info *grown = fm_grow(list->items, &list->capacity, list->n, sizeof *grown);
    if (!grown)
        return fm_fail_memory(err, "the list of tensors");
    list->items = grown;
    grown[list->n++] = *tensor;
    return FM_OK;
}

static int by_name(const void *a, const void *b, void *items)
{
    const fm_tensor_info *tensors = items;
    return strcmp(tensors[*(const size_t *)a].name, tensors[*(const size_t *)b].name);
}

fm_status fm_tensor_list_seal(fm_tensor_list *list, fm_err *err)
{
    size_t *sorted = fm_alloc_array(list->n, sizeof *sorted);
    if (!sorted)
        return fm_fail_memory(err, "the list of tensors");
    for (size_t i = 0; i < list->n; i++)
        sorted[i] = i;
    qsort_r(sorted, list->n, sizeof *sorted, by_name, list->items);
    for (size_t i = 1; i < list->n; i++)
        if (!by_name(sorted + i - 1, sorted + i, list->items)) {
            fm_fail(err, FM_ERR_CONFLICT, "tensor \"%s\" is there twice", list->items[sorted[i]].name);
            fm_free(sorted);
            return FM_ERR_CONFLICT;
        }
    fm_free(list->sorted);
    list->sorted = sorted;
    return FM_OK;
}

const fm_tensor_info *fm_tensor_list_find(const fm_tensor_list *list, const char *name)
{
    size_t low = 0, high = list->sorted ? list->n : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const fm_tensor_info *at = &list->items[list->sorted[middle]];
        int order = strcmp(name, at->name);
        if (!order)
            return at;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

void fm_tensor_list_reset(fm_tensor_list *list)
{
    fm_free(list->items);
    fm_free(list->sorted);
    *list = (fm_tensor_list){0};
}
