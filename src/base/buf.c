#include "base/buf.h"
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"

void fm_buf_reset(fm_buf *b)
{
    fm_free(b->data);
    *b = (fm_buf){0};
}

void fm_buf_clear(fm_buf *b)
{
    b->size = 0;
    if (b->data)
        b->data[0] = 0;
}

// Room for n more bytes and the closing zero.
static bool reserve(fm_buf *b, size_t n)
{
    size_t need;
    if (b->failed)
        return false;
    if (__builtin_add_overflow(b->size, n, &need) || __builtin_add_overflow(need, (size_t)1, &need)) {
        b->failed = true;
        return false;
    }
    if (b->data && need <= b->capacity)
        return true;
    size_t capacity = b->capacity < 64 ? 64 : b->capacity;
    while (capacity < need)
        if (__builtin_mul_overflow(capacity, (size_t)2, &capacity))
            capacity = need;
    char *data = fm_realloc(b->data, capacity);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void *fm_buf_extend(fm_buf *b, size_t n)
{
    if (!reserve(b, n))
        return NULL;
    char *at = b->data + b->size;
    b->size += n;
    b->data[b->size] = 0;
    return at;
}

void fm_buf_add(fm_buf *b, const void *bytes, size_t n)
{
    void *at = fm_buf_extend(b, n);
    if (at && n)
        memcpy(at, bytes, n);
}

void fm_buf_add_text(fm_buf *b, const char *text)
{
    fm_buf_add(b, text, strlen(text));
}

void fm_buf_add_char(fm_buf *b, char c)
{
    fm_buf_add(b, &c, 1);
}

void fm_buf_fill(fm_buf *b, char c, size_t n)
{
    void *at = fm_buf_extend(b, n);
    if (at)
        memset(at, c, n);
}

void fm_buf_vprintf(fm_buf *b, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        b->failed = true;
    else if (reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->size, (size_t)n + 1, format, again);
        b->size += (size_t)n;
    }
    va_end(again);
}

void fm_buf_printf(fm_buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fm_buf_vprintf(b, format, args);
    va_end(args);
}

static void add_little_endian(fm_buf *b, uint64_t v, size_t n)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(v >> 8 * i);
    fm_buf_add(b, bytes, n);
}

void fm_buf_add_u8(fm_buf *b, uint8_t v)
{
    add_little_endian(b, v, 1);
}

void fm_buf_add_u16(fm_buf *b, uint16_t v)
{
    add_little_endian(b, v, 2);
}

void fm_buf_add_u32(fm_buf *b, uint32_t v)
{
    add_little_endian(b, v, 4);
}

void fm_buf_add_u64(fm_buf *b, uint64_t v)
{
    add_little_endian(b, v, 8);
}

void fm_buf_align(fm_buf *b, size_t alignment)
{
    size_t rest = b->size % alignment;
    if (rest)
        fm_buf_fill(b, 0, alignment - rest);
}

const char *fm_buf_text(const fm_buf *b)
{
    return b->data ? b->data : "";
}

fm_status fm_buf_check(const fm_buf *b, fm_err *err)
{
    return b->failed ? fm_fail_memory(err, "a growing text or byte buffer") : FM_OK;
}

char *fm_buf_take(fm_buf *b, size_t *size)
{
    bool ok = reserve(b, 0);
    char *data = ok ? b->data : NULL;
    if (size)
        *size = ok ? b->size : 0;
    if (ok)
        data[b->size] = 0;
    else
        fm_free(b->data);
    *b = (fm_buf){0};
    return data;
}
