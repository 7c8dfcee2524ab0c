#include "files/names.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const void *items;
    fm_name_of *name_of;
} context;

static int by_name(const void *a, const void *b, void *of)
{
    const context *c = of;
    return strcmp(c->name_of(c->items, *(const size_t *)a), c->name_of(c->items, *(const size_t *)b));
}

size_t fm_names_sort(size_t *sorted, size_t n, const void *items, fm_name_of *name_of)
{
    context c = {items, name_of};
    for (size_t i = 0; i < n; i++)
        sorted[i] = i;
    qsort_r(sorted, n, sizeof *sorted, by_name, &c);
    for (size_t i = 1; i < n; i++)
        if (!by_name(sorted + i - 1, sorted + i, &c))
            return sorted[i - 1] > sorted[i] ? sorted[i - 1] : sorted[i];
    return FM_NO_NAME;
}

size_t fm_names_find(const size_t *sorted, size_t n, const void *items, fm_name_of *name_of, const char *name)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, name_of(items, sorted[middle]));
        if (!order)
            return sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return FM_NO_NAME;
}
