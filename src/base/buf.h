// A growing buffer of bytes, also usable as a string: `data` always ends with a zero byte that `size` does not count.
//
// Failure sticks: once memory is out, every further append is a no-op and `failed` stays true, so that a writer looks
// once, at the end (fm_buf_check). Threads: one at a time.
#ifndef FM_BASE_BUF_H
#define FM_BASE_BUF_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

// A zeroed fm_buf is an empty one: `fm_buf b = {0};`. Read the fields freely, write none of them.
typedef struct {
    char *data; // NULL until something was appended: print with fm_buf_text
    size_t size, capacity;
    bool failed;
} fm_buf;

// Frees the bytes and makes b empty and unfailed again.
void fm_buf_reset(fm_buf *b);

// Empties b and keeps its memory.
void fm_buf_clear(fm_buf *b);

// Appends. `bytes` may be NULL when n is 0. fm_buf_add_text takes a zero-ended string.
void fm_buf_add(fm_buf *b, const void *bytes, size_t n);
void fm_buf_add_text(fm_buf *b, const char *text);
void fm_buf_add_char(fm_buf *b, char c);
void fm_buf_fill(fm_buf *b, char c, size_t n);
void fm_buf_printf(fm_buf *b, const char *format, ...) FM_PRINTF(2, 3);
void fm_buf_vprintf(fm_buf *b, const char *format, va_list args);

// Integers in little-endian order, as in files.
void fm_buf_add_u8(fm_buf *b, uint8_t v);
void fm_buf_add_u16(fm_buf *b, uint16_t v);
void fm_buf_add_u32(fm_buf *b, uint32_t v);
void fm_buf_add_u64(fm_buf *b, uint64_t v);

// Appends zero bytes until size is a multiple of `alignment` (> 0).
void fm_buf_align(fm_buf *b, size_t alignment);

// Makes n uninitialised bytes at the end part of the buffer and returns where they start; NULL when it failed.
// The address is good until the next append.
void *fm_buf_extend(fm_buf *b, size_t n);

// The content as a string; "" when empty. Borrowed until the next append.
const char *fm_buf_text(const fm_buf *b);

// FM_OK, or FM_ERR_NO_MEMORY if any append failed.
fm_status fm_buf_check(const fm_buf *b, fm_err *err) FM_MUST_USE;

// Gives the bytes away (to be freed with fm_free; never NULL unless it failed) and leaves b empty.
char *fm_buf_take(fm_buf *b, size_t *size);
#endif
