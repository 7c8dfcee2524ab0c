// Memory that is given back all at once: the nodes and strings of a tree, the tensors of a list.
#ifndef FM_FILES_ARENA_H
#define FM_FILES_ARENA_H
#include <stddef.h>
#include <stdint.h>

typedef struct fm_arena_block fm_arena_block;

// A zeroed arena is an empty one. Threads: one at a time.
typedef struct {
    fm_arena_block *blocks; // newest first
    size_t used, capacity;  // of the newest
} fm_arena;

// `bytes` bytes aligned for any object, zeroed; NULL when memory is out. Good until fm_arena_reset.
void *fm_arena_take(fm_arena *a, size_t bytes);

// n elements of `size` bytes; NULL also when n * size does not fit.
void *fm_arena_array(fm_arena *a, size_t n, size_t size);

// A copy of n bytes, with a zero after them.
char *fm_arena_text(fm_arena *a, const char *bytes, size_t n);

void fm_arena_reset(fm_arena *a);
#endif
