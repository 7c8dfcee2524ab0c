// Memory for all rooms: malloc and friends behind one door, so that a test can make the Nth allocation fail (fault.h).
// All return NULL when memory is out; none aborts. Threads: any. What they return is freed with fm_free (or free).
#ifndef FM_BASE_ALLOC_H
#define FM_BASE_ALLOC_H
#include <stddef.h>
#include "floodmark/status.h"

// `bytes` uninitialised bytes; never NULL for success, also when bytes is 0.
void *fm_alloc(size_t bytes);

// n elements of `size` bytes, zeroed; NULL also when n * size does not fit.
void *fm_calloc(size_t n, size_t size);

// n elements of `size` bytes, uninitialised; NULL also when n * size does not fit.
void *fm_alloc_array(size_t n, size_t size);

// As realloc, but bytes 0 keeps a (tiny) block and never frees. On failure p is untouched and still owned.
void *fm_realloc(void *p, size_t bytes);

// The same for n elements of `size` bytes, NULL also when n * size does not fit.
void *fm_realloc_array(void *p, size_t n, size_t size);

// `bytes` bytes at an address that is a multiple of `alignment` (a power of two >= sizeof(void *)).
void *fm_alloc_aligned(size_t alignment, size_t bytes);

// Copies of a string; fm_strndup copies at most n bytes and ends them with a zero.
char *fm_strdup(const char *s);
char *fm_strndup(const char *s, size_t n);

// NULL is fine.
void fm_free(void *p);

// Makes room in a growing array for one more element: *capacity at least doubles when `count` has reached it.
// Usage: if (!(grown = fm_grow(items, &capacity, count, sizeof *items))) fail; items = grown;
// NULL when memory is out (items and *capacity untouched).
void *fm_grow(void *items, size_t *capacity, size_t count, size_t size);

// Fails with FM_ERR_NO_MEMORY and one phrase for it everywhere: "out of memory (WHAT)".
fm_status fm_fail_memory(fm_err *err, const char *what);
#if defined(__GNUC__) // see fm_fail in status.h
#define fm_fail_memory(err, what) ((void)(fm_fail_memory)(err, what), FM_ERR_NO_MEMORY)
#endif
#endif
