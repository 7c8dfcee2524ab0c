// A growing list of tensors with lookup by name: what both readers fill.
#ifndef FM_FILES_TENSOR_LIST_H
#define FM_FILES_TENSOR_LIST_H
#include "files/arena.h"
#include "floodmark/tensor.h"

// A zeroed list is an empty one. Names and dims live in the owner's arena.
typedef struct {
    fm_tensor_info *items;
    size_t n, capacity;
    size_t *sorted; // [n] indices by name, after fm_tensor_list_seal
} fm_tensor_list;

fm_status fm_tensor_list_add(fm_tensor_list *list, const fm_tensor_info *tensor, fm_err *err) FM_MUST_USE;

// Adds a tensor by its shape, with copies of name and dims in the arena; *index (may be NULL) is its place in the list.
fm_status fm_tensor_list_new(fm_tensor_list *list, fm_arena *arena, const char *name, fm_tensor_type type,
                             uint32_t n_dims, const uint64_t *dims, size_t *index, fm_err *err) FM_MUST_USE;

// Prepares lookup. FM_ERR_CONFLICT names a tensor that is there twice.
fm_status fm_tensor_list_seal(fm_tensor_list *list, fm_err *err) FM_MUST_USE;

const fm_tensor_info *fm_tensor_list_find(const fm_tensor_list *list, const char *name);

void fm_tensor_list_reset(fm_tensor_list *list);
#endif
