#include "base/alloc.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/fault.h"

void *fm_alloc(size_t bytes)
{
    return fm_fault(FM_FAULT_ALLOC) ? NULL : malloc(bytes ? bytes : 1);
}

void *fm_calloc(size_t n, size_t size)
{
    size_t bytes; // looked at here: a sanitizer takes calloc's own refusal for a defect
    if (__builtin_mul_overflow(n, size, &bytes) || fm_fault(FM_FAULT_ALLOC))
        return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

void *fm_alloc_array(size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : fm_alloc(bytes);
}

void *fm_realloc(void *p, size_t bytes)
{
    return fm_fault(FM_FAULT_ALLOC) ? NULL : realloc(p, bytes ? bytes : 1);
}

void *fm_realloc_array(void *p, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : fm_realloc(p, bytes);
}

void *fm_alloc_aligned(size_t alignment, size_t bytes)
{
    void *p;
    return fm_fault(FM_FAULT_ALLOC) || posix_memalign(&p, alignment, bytes ? bytes : 1) != 0 ? NULL : p;
}

char *fm_strndup(const char *s, size_t n)
{
    n = strnlen(s, n);
    char *copy = n < SIZE_MAX ? fm_alloc(n + 1) : NULL;
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = 0;
    }
    return copy;
}

char *fm_strdup(const char *s)
{
    return fm_strndup(s, strlen(s));
}

void fm_free(void *p)
{
    free(p);
}

void *fm_grow(void *items, size_t *capacity, size_t count, size_t size)
{
    if (items && count < *capacity)
        return items;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted <= count)
        if (__builtin_mul_overflow(wanted, (size_t)2, &wanted))
            return NULL;
    void *grown = fm_realloc_array(items, wanted, size);
    if (grown)
        *capacity = wanted;
    return grown;
}

fm_status(fm_fail_memory)(fm_err *err, const char *what)
{
    return fm_fail(err, FM_ERR_NO_MEMORY, "out of memory (%s)", what);
}
