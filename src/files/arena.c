#include "files/arena.h"
#include <stdalign.h>
#include <string.h>
#include "base/alloc.h"

struct fm_arena_block {
    fm_arena_block *older;
    alignas(max_align_t) char bytes[];
};

enum { FIRST_BLOCK = 4 << 10, LARGEST_BLOCK = 1 << 20 };

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

void *fm_arena_take(fm_arena *a, size_t bytes)
{
    const size_t unit = alignof(max_align_t);
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + unit - 1) / unit * unit;
    if (!a->blocks || a->capacity - a->used < bytes) {
        // Blocks double, so that a small file takes little and a large one few calls.
        size_t next = a->blocks ? a->capacity * 2 : FIRST_BLOCK;
        size_t capacity = max_size(next > LARGEST_BLOCK ? LARGEST_BLOCK : next, bytes);
        fm_arena_block *block = fm_alloc(sizeof *block + capacity);
        if (!block)
            return NULL;
        block->older = a->blocks;
        a->blocks = block;
        a->used = 0;
        a->capacity = capacity;
    }
    void *at = a->blocks->bytes + a->used;
    a->used += bytes;
    return memset(at, 0, bytes);
}

void *fm_arena_array(fm_arena *a, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : fm_arena_take(a, bytes);
}

char *fm_arena_text(fm_arena *a, const char *bytes, size_t n)
{
    char *copy = n < SIZE_MAX ? fm_arena_take(a, n + 1) : NULL;
    if (copy && n)
        memcpy(copy, bytes, n);
    return copy;
}

void fm_arena_reset(fm_arena *a)
{
    while (a->blocks) {
        fm_arena_block *older = a->blocks->older;
        fm_free(a->blocks);
        a->blocks = older;
    }
    *a = (fm_arena){0};
}
