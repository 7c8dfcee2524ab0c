// What tape.c and autograd.c share and nobody else needs.
#ifndef FM_PROGRAM_TAPE_PRIVATE_H
#define FM_PROGRAM_TAPE_PRIVATE_H
#include "program/tape.h"

typedef enum { FM_POOL_STORAGE, FM_POOL_TENSOR, FM_POOL_NODE, FM_POOL_OTHER, FM_N_POOLS } fm_pool_kind;

typedef struct fm_pool {
    struct slab *slabs;
    void *free_list[FM_N_POOLS];
    uint32_t *slots; // module paths by hash: index + 1
    size_t n_slots;
} fm_pool;

void *fm_pool_take(fm_pool *pool, fm_pool_kind kind, size_t bytes); // zeroed; NULL when memory is gone
void fm_pool_give(fm_pool *pool, fm_pool_kind kind, void *object);

// Weights cast by autocast in this region: leaf -> its copy.
typedef struct fm_cast_cache {
    struct fm_cast_entry {
        fm_tensor *leaf, *copy; // copy owned
        uint32_t layer;         // round in which it was made, FM_NO_ROUND outside of loops
        struct fm_cast_entry *next;
    } * first, **last;
} fm_cast_cache;

fm_grad_node *fm_tape_new_node_object(fm_tape *t);
void fm_tape_free_node_object(fm_tape *t, fm_grad_node *n);
#endif
