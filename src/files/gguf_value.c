// Values of GGUF keys: read from the file with every length checked, and looked into afterwards.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/io.h"
#include "base/utf8.h"
#include "files/endian.h"
#include "files/gguf_file.h"

enum { LOAD_BYTES = 1 << 20, MAX_KEY_BYTES = 65535 };

#define ROW(name, words, bytes) {words, bytes},
static const struct {
    const char *words;
    unsigned bytes;
} types[] = {FM_GGUF_TYPE_LIST(ROW)};
#undef ROW

const char *fm_gguf_type_name(fm_gguf_type type)
{
    return (unsigned)type < FM_GGUF_TYPE_N ? types[type].words : "unknown";
}

unsigned fm_gguf_type_bytes(uint32_t type)
{
    return type < FM_GGUF_TYPE_N ? types[type].bytes : 0;
}

const char *fm_gguf_wrong_key(const char *key, size_t n)
{
    return !n                       ? "is empty"
           : n > MAX_KEY_BYTES      ? "is longer than 65,535 bytes"
           : memchr(key, 0, n)      ? "holds a zero byte"
           : !fm_utf8_valid(key, n) ? "is not UTF-8"
                                    : NULL;
}

bool fm_gguf_good_alignment(uint64_t alignment)
{
    return alignment && alignment % 8 == 0 && alignment <= UINT32_MAX;
}

fm_status(fm_gguf_fail)(const fm_gguf_cursor *c, fm_err *err, fm_status code, const char *format, ...)
{
    char words[FM_ERR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return fm_fail_at(err, code, c->at, 0, "%s: byte %llu: %s", c->path, (unsigned long long)c->at, words);
}

fm_status fm_gguf_need(fm_gguf_cursor *c, uint64_t n, const char *what, fm_err *err)
{
    if (n > c->file_bytes - c->at)
        return fm_gguf_fail(c, err, FM_ERR_SYNTAX, "the file's %llu bytes end inside %s (truncated download?)",
                            (unsigned long long)c->file_bytes, what);
    uint64_t end = c->at + n, have = c->head->size;
    if (end <= have)
        return FM_OK;
    uint64_t want = end - have < LOAD_BYTES ? LOAD_BYTES : end - have;
    if (want > c->file_bytes - have)
        want = c->file_bytes - have;
    char *to = fm_buf_extend(c->head, want);
    if (!to)
        return fm_fail_memory(err, c->path);
    ssize_t got = fm_io_pread(c->fd, to, want, have);
    if (got < 0)
        return fm_fail_path(err, c->path, "read", errno);
    if ((uint64_t)got < want)
        return fm_fail(err, FM_ERR_IO, "%s: the file shrank while it was read", c->path);
    return FM_OK;
}

const uint8_t *fm_gguf_here(const fm_gguf_cursor *c)
{
    return (const uint8_t *)fm_buf_text(c->head) + c->at;
}

// ---- reading ----

static fm_status read_string(fm_gguf_cursor *c, const char *key, uint64_t *n, fm_err *err)
{
    fm_status status = fm_gguf_need(c, 8, "the length of a string", err);
    if (status)
        return status;
    *n = fm_load_u64(fm_gguf_here(c));
    c->at += 8;
    if ((status = fm_gguf_need(c, *n, "a string", err)))
        return status;
    if (!fm_utf8_valid((const char *)fm_gguf_here(c), *n))
        return fm_gguf_fail(c, err, FM_ERR_VALUE, "key \"%.200s\": a string that is not UTF-8", key);
    c->at += *n;
    return FM_OK;
}

// n values of a type of fixed size.
static fm_status read_plain(fm_gguf_cursor *c, uint32_t type, uint64_t n, const char *key, fm_err *err)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n, (uint64_t)types[type].bytes, &bytes))
        bytes = UINT64_MAX;
    fm_status status = fm_gguf_need(c, bytes, n == 1 ? "a value" : "an array", err);
    if (status)
        return status;
    if (type == FM_GGUF_BOOL)
        for (uint64_t i = 0; i < n; i++)
            if (fm_gguf_here(c)[i] > 1)
                return fm_gguf_fail(c, err, FM_ERR_VALUE, "key \"%.200s\": a boolean is %u, neither 0 nor 1", key,
                                    fm_gguf_here(c)[i]);
    c->at += bytes;
    return FM_OK;
}

static fm_status check_type(const fm_gguf_cursor *c, uint32_t type, const char *key, fm_err *err)
{
    return type < FM_GGUF_TYPE_N ? FM_OK
                                 : fm_gguf_fail(c, err, FM_ERR_VALUE,
                                                "key \"%.200s\": value type %u is unknown (0 to 12 are)", key, type);
}

// An array from its element type on; the cursor moves past it. Sets *elem, *count and where the first element is.
static fm_status read_array(fm_gguf_cursor *c, const char *key, unsigned depth, uint32_t *elem, uint64_t *count,
                            uint64_t *data_at, fm_err *err)
{
    if (depth > FM_GGUF_MAX_DEPTH)
        return fm_gguf_fail(c, err, FM_ERR_VALUE, "key \"%.200s\": arrays nested deeper than %d", key,
                            FM_GGUF_MAX_DEPTH);
    fm_status status = fm_gguf_need(c, 12, "the head of an array", err);
    if (status)
        return status;
    *elem = fm_load_u32(fm_gguf_here(c));
    *count = fm_load_u64(fm_gguf_here(c) + 4);
    if ((status = check_type(c, *elem, key, err)))
        return status;
    c->at += 12;
    *data_at = c->at;
    if (types[*elem].bytes)
        return read_plain(c, *elem, *count, key, err);
    // The least that an element can take bounds the count before a loop believes it.
    uint64_t least = *elem == FM_GGUF_STRING ? 8 : 12;
    if (*count > (c->file_bytes - c->at) / least)
        return fm_gguf_fail(c, err, FM_ERR_SYNTAX,
                            "key \"%.200s\": an array of %llu elements passes the end of the file", key,
                            (unsigned long long)*count);
    for (uint64_t i = 0; !status && i < *count; i++) {
        uint32_t inner;
        uint64_t n, at;
        status = *elem == FM_GGUF_STRING ? read_string(c, key, &n, err)
                                         : read_array(c, key, depth + 1, &inner, &n, &at, err);
    }
    return status;
}

fm_status fm_gguf_read_value(fm_gguf_cursor *c, uint32_t type, const char *key, fm_gguf_placed *out, fm_err *err)
{
    fm_gguf_placed p = {.raw_at = c->at, .data_at = c->at};
    uint32_t elem = type;
    p.value.count = 1;
    fm_status status = check_type(c, type, key, err);
    if (status)
        return status;
    if (type == FM_GGUF_ARRAY) {
        status = read_array(c, key, 1, &elem, &p.value.count, &p.data_at, err);
    } else if (type == FM_GGUF_STRING) {
        status = read_string(c, key, &p.value.count, err);
        p.data_at += 8;
    } else {
        status = read_plain(c, type, 1, key, err);
    }
    if (status)
        return status;
    p.value.key = key;
    p.value.type = (fm_gguf_type)type;
    p.value.elem = (fm_gguf_type)elem;
    p.value.bytes = c->at - p.data_at;
    p.value.raw_bytes = c->at - p.raw_at;
    *out = p;
    return FM_OK;
}

// ---- looking into a value ----

bool fm_gguf_value_i64(const fm_gguf_value *v, uint64_t i, int64_t *out)
{
    unsigned n = types[v->elem].bytes;
    bool is_plain = v->type != FM_GGUF_STRING && n && v->elem != FM_GGUF_F32 && v->elem != FM_GGUF_F64;
    if (!is_plain || i >= v->count)
        return false;
    uint64_t bits = fm_load_le(v->data + i * n, n);
    bool is_signed =
        v->elem == FM_GGUF_I8 || v->elem == FM_GGUF_I16 || v->elem == FM_GGUF_I32 || v->elem == FM_GGUF_I64;
    if (is_signed && n < 8 && bits >> (8 * n - 1))
        bits |= ~(uint64_t)0 << 8 * n;
    if (!is_signed && bits > INT64_MAX)
        return false;
    *out = (int64_t)bits;
    return true;
}

bool fm_gguf_value_u64(const fm_gguf_value *v, uint64_t i, uint64_t *out)
{
    int64_t s;
    if (v->elem == FM_GGUF_U64 && i < v->count) {
        *out = fm_load_u64(v->data + i * 8);
        return true;
    }
    if (!fm_gguf_value_i64(v, i, &s) || s < 0)
        return false;
    *out = (uint64_t)s;
    return true;
}

bool fm_gguf_value_double(const fm_gguf_value *v, uint64_t i, double *out)
{
    int64_t s;
    uint64_t u;
    if (v->elem == FM_GGUF_F32 && i < v->count) {
        float f;
        uint32_t bits = fm_load_u32(v->data + i * 4);
        memcpy(&f, &bits, sizeof f);
        *out = f;
    } else if (v->elem == FM_GGUF_F64 && i < v->count) {
        uint64_t bits = fm_load_u64(v->data + i * 8);
        memcpy(out, &bits, sizeof *out);
    } else if (fm_gguf_value_i64(v, i, &s)) {
        *out = (double)s;
    } else if (fm_gguf_value_u64(v, i, &u)) {
        *out = (double)u;
    } else {
        return false;
    }
    return true;
}

bool fm_gguf_value_next_string(const fm_gguf_value *v, const uint8_t **cursor, const char **out, size_t *n)
{
    if (v->type != FM_GGUF_ARRAY || v->elem != FM_GGUF_STRING || *cursor >= v->data + v->bytes)
        return false;
    *n = fm_load_u64(*cursor);
    *out = (const char *)*cursor + 8;
    *cursor += 8 + *n;
    return true;
}
