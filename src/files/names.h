// Looking things up by name: an array of indices sorted by the names of what they stand for.
#ifndef FM_FILES_NAMES_H
#define FM_FILES_NAMES_H
#include <stddef.h>
#include <stdint.h>

// The name of item i.
typedef const char *fm_name_of(const void *items, size_t i);

#define FM_NO_NAME SIZE_MAX

// Fills sorted[0..n) (never NULL). Returns the index of an item whose name another has too, or FM_NO_NAME.
size_t fm_names_sort(size_t *sorted, size_t n, const void *items, fm_name_of *name_of);

// The index of the item of that name, or FM_NO_NAME. O(log n).
size_t fm_names_find(const size_t *sorted, size_t n, const void *items, fm_name_of *name_of, const char *name);
#endif
