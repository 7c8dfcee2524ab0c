#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/checked.h"
#include "base/io.h"
#include "base/units.h"
#include "base/utf8.h"
#include "files/endian.h"
#include "files/gguf_file.h"

enum { MAX_NAME_BYTES = 64, HEADER_BYTES = 24 };

// ---- the header ----

static fm_status check_version(const fm_gguf_cursor *c, uint32_t version, fm_err *err)
{
    if (version == 2 || version == 3)
        return FM_OK;
    uint32_t swapped = __builtin_bswap32(version);
    if (version > 0xffff && swapped >= 1 && swapped <= 0xff)
        return fm_gguf_fail(
            c, err, FM_ERR_UNSUPPORTED,
            "a big-endian file (version %u); convert it to little endian (gguf-py: gguf_convert_endian)", swapped);
    if (version == 1)
        return fm_gguf_fail(c, err, FM_ERR_UNSUPPORTED, "GGUF version 1 is no longer read; convert the model again");
    return fm_gguf_fail(c, err, FM_ERR_UNSUPPORTED, "GGUF version %u is not 2 or 3", version);
}

static fm_status read_header(fm_gguf *g, fm_gguf_cursor *c, uint64_t *n_tensors, uint64_t *n_keys, fm_err *err)
{
    char a[FM_UNITS_TEXT_BYTES];
    fm_status status = fm_gguf_need(c, 4, "the magic number", err);
    if (status)
        return status;
    if (memcmp(fm_gguf_here(c), "GGUF", 4) != 0)
        return fm_gguf_fail(c, err, FM_ERR_SYNTAX, "does not start with \"GGUF\"; not a GGUF file?");
    if ((status = fm_gguf_need(c, HEADER_BYTES, "the header", err)))
        return status;
    const uint8_t *p = fm_gguf_here(c);
    g->version = fm_load_u32(p + 4);
    *n_tensors = fm_load_u64(p + 8);
    *n_keys = fm_load_u64(p + 16);
    if ((status = check_version(c, g->version, err)))
        return status;
    // The smallest key takes 8 + 1 + 4 + 1 bytes, the smallest tensor 8 + 4 + 4 + 8.
    uint64_t left = c->file_bytes - HEADER_BYTES;
    if (*n_tensors > left / 24)
        return fm_gguf_fail(c, err, FM_ERR_VALUE, "announces %s tensors, more than the file can hold (damaged or cut?)",
                            fm_format_count(a, *n_tensors));
    if (*n_keys > left / 14)
        return fm_gguf_fail(c, err, FM_ERR_VALUE, "announces %s keys, more than the file can hold (damaged or cut?)",
                            fm_format_count(a, *n_keys));
    c->at += HEADER_BYTES;
    return FM_OK;
}

// ---- keys ----

// A string that must be short and clean: copied, zero-ended.
static fm_status read_name(fm_gguf *g, fm_gguf_cursor *c, const char *what, const char **out, uint64_t *n, fm_err *err)
{
    fm_status status = fm_gguf_need(c, 8, what, err);
    if (status)
        return status;
    *n = fm_load_u64(fm_gguf_here(c));
    c->at += 8;
    if ((status = fm_gguf_need(c, *n, what, err)))
        return status;
    char *copy = fm_arena_text(&g->arena, (const char *)fm_gguf_here(c), *n);
    if (!copy)
        return fm_fail_memory(err, what);
    *out = copy;
    return FM_OK;
}

static fm_status read_key(fm_gguf *g, fm_gguf_cursor *c, fm_gguf_placed *out, fm_err *err)
{
    const char *key;
    uint64_t n;
    fm_status status = read_name(g, c, "a key", &key, &n, err);
    if (status)
        return status;
    const char *wrong = fm_gguf_wrong_key(key, n);
    if (wrong)
        return fm_gguf_fail(c, err, FM_ERR_VALUE, "a key %s", wrong);
    c->at += n;
    if ((status = fm_gguf_need(c, 4, "the type of a value", err)))
        return status;
    uint32_t type = fm_load_u32(fm_gguf_here(c));
    c->at += 4;
    return fm_gguf_read_value(c, type, key, out, err);
}

const char *fm_gguf_key_of(const void *keys, size_t i)
{
    return ((const fm_gguf_value *)keys)[i].key;
}

static fm_status sort_keys(fm_gguf *g, fm_err *err)
{
    g->sorted_keys = fm_alloc_array(g->n_keys, sizeof *g->sorted_keys);
    if (!g->sorted_keys)
        return fm_fail_memory(err, "the keys");
    size_t twice = fm_names_sort(g->sorted_keys, g->n_keys, g->keys, fm_gguf_key_of);
    if (twice != FM_NO_NAME)
        return fm_fail(err, FM_ERR_CONFLICT, "%s: key \"%.200s\" is there twice", g->path, g->keys[twice].key);
    return FM_OK;
}

static fm_status read_alignment(fm_gguf *g, fm_err *err)
{
    const fm_gguf_value *v = fm_gguf_find(g, "general.alignment");
    uint64_t alignment = FM_GGUF_DEFAULT_ALIGNMENT;
    if (v && v->type != FM_GGUF_U32)
        return fm_fail(err, FM_ERR_VALUE, "%s: general.alignment must be uint32, not %s", g->path,
                       fm_gguf_type_name(v->type));
    if (v)
        alignment = fm_load_u32(v->data);
    if (!fm_gguf_good_alignment(alignment))
        return fm_fail(err, FM_ERR_VALUE, "%s: general.alignment is %" PRIu64 ", must be a multiple of 8", g->path,
                       alignment);
    g->alignment = (uint32_t)alignment;
    return FM_OK;
}

static fm_status read_keys(fm_gguf *g, fm_gguf_cursor *c, uint64_t n, fm_gguf_placed **placed, fm_err *err)
{
    size_t capacity = 0;
    for (uint64_t i = 0; i < n; i++) {
        fm_gguf_placed *grown = fm_grow(*placed, &capacity, i, sizeof *grown);
        if (!grown)
            return fm_fail_memory(err, "the keys");
        *placed = grown;
        fm_status status = read_key(g, c, grown + i, err);
        if (status)
            return status;
    }
    return FM_OK;
}

// Now that `head` no longer moves, offsets become addresses.
static fm_status place_keys(fm_gguf *g, const fm_gguf_placed *placed, size_t n, fm_err *err)
{
    g->keys = fm_alloc_array(n, sizeof *g->keys);
    if (!g->keys)
        return fm_fail_memory(err, "the keys");
    g->n_keys = n;
    const uint8_t *base = (const uint8_t *)fm_buf_text(&g->head);
    for (size_t i = 0; i < n; i++) {
        g->keys[i] = placed[i].value;
        g->keys[i].data = base + placed[i].data_at;
        g->keys[i].raw = base + placed[i].raw_at;
    }
    return sort_keys(g, err);
}

// ---- tensors ----

static fm_status read_dims(fm_gguf *g, fm_gguf_cursor *c, fm_tensor_info *t, fm_err *err)
{
    fm_status status = fm_gguf_need(c, 4, "the infos of a tensor", err);
    if (status)
        return status;
    t->n_dims = fm_load_u32(fm_gguf_here(c));
    if (t->n_dims > FM_GGUF_MAX_DIMS)
        return fm_gguf_fail(c, err, FM_ERR_VALUE, "tensor \"%s\" has %u dimensions, over the limit of %d", t->name,
                            t->n_dims, FM_GGUF_MAX_DIMS);
    c->at += 4;
    if ((status = fm_gguf_need(c, 8 * t->n_dims + 12, "the infos of a tensor", err)))
        return status;
    uint64_t *dims = fm_arena_array(&g->arena, t->n_dims, sizeof *dims);
    if (!dims)
        return fm_fail_memory(err, "a shape");
    t->dims = dims;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        uint64_t dim = fm_load_u64(fm_gguf_here(c) + 8 * i);
        if (!dim || dim > INT64_MAX)
            return fm_gguf_fail(c, err, FM_ERR_VALUE, "tensor \"%s\": dimension %u is %" PRId64 ", must be at least 1",
                                t->name, i, (int64_t)dim);
        dims[t->n_dims - 1 - i] = dim;
    }
    c->at += 8 * t->n_dims;
    return FM_OK;
}

static fm_status read_tensor(fm_gguf *g, fm_gguf_cursor *c, fm_err *err)
{
    fm_tensor_info t = {0};
    uint64_t n;
    fm_status status = read_name(g, c, "the name of a tensor", &t.name, &n, err);
    if (status)
        return status;
    if (n > MAX_NAME_BYTES)
        return fm_gguf_fail(c, err, FM_ERR_VALUE,
                            "tensor name \"%.64s...\" has %" PRIu64 " bytes, over the limit of %d", t.name, n,
                            MAX_NAME_BYTES);
    if (!fm_utf8_valid(t.name, n) || memchr(t.name, 0, n))
        return fm_gguf_fail(c, err, FM_ERR_VALUE, "a tensor name that %s",
                            memchr(t.name, 0, n) ? "holds a zero byte" : "is not UTF-8");
    c->at += n;
    if ((status = read_dims(g, c, &t, err)))
        return status;
    uint32_t number = fm_load_u32(fm_gguf_here(c));
    const fm_tensor_type_info *type = fm_tensor_type_by_ggml(number);
    if (!type)
        return fm_gguf_fail(c, err, FM_ERR_VALUE,
                            "tensor \"%s\" has type %u, which is unknown or was removed from the format", t.name,
                            number);
    t.type = type->type;
    t.offset = fm_load_u64(fm_gguf_here(c) + 4); // in the data, for now
    if ((status = fm_tensor_size(t.type, t.n_dims, t.dims, &t.n_elems, &t.bytes, err))) {
        if (err)
            fm_gguf_fail(c, err, status, "tensor \"%s\": %s", t.name, err->message);
        return status;
    }
    c->at += 12;
    return fm_tensor_list_add(&g->tensors, &t, err);
}

static int by_offset(const void *a, const void *b)
{
    const fm_tensor_info *x = *(const fm_tensor_info *const *)a, *y = *(const fm_tensor_info *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static fm_status check_overlap(const fm_gguf *g, fm_err *err)
{
    size_t n = g->tensors.n;
    const fm_tensor_info **order = fm_alloc_array(n, sizeof(fm_tensor_info *));
    fm_status status = FM_OK;
    if (!order)
        return fm_fail_memory(err, "the order of tensors");
    for (size_t i = 0; i < n; i++)
        order[i] = &g->tensors.items[i];
    qsort(order, n, sizeof(fm_tensor_info *), by_offset);
    for (size_t i = 1; !status && i < n; i++)
        if (order[i]->offset - order[i - 1]->offset < order[i - 1]->bytes)
            status = fm_fail_at(err, FM_ERR_CONFLICT, order[i]->offset, 0,
                                "%s: tensors \"%.64s\" and \"%.64s\" overlap at byte %" PRIu64 " (damaged file?)",
                                g->path, order[i - 1]->name, order[i]->name, order[i]->offset);
    fm_free(order);
    return status;
}

// Offsets in the data become offsets in the file, each range inside it.
static fm_status place_tensors(fm_gguf *g, uint64_t infos_end, fm_err *err)
{
    char a[FM_UNITS_TEXT_BYTES], b[FM_UNITS_TEXT_BYTES];
    if (!fm_round_up_u64(infos_end, g->alignment, &g->data_offset))
        return fm_fail(err, FM_ERR_OVERFLOW, "%s: general.alignment is too large", g->path);
    for (size_t i = 0; i < g->tensors.n; i++) {
        fm_tensor_info *t = &g->tensors.items[i];
        uint64_t start, end;
        if (t->offset % g->alignment)
            return fm_fail(err, FM_ERR_VALUE, "%s: tensor \"%s\" is at offset %s, not a multiple of the alignment %u",
                           g->path, t->name, fm_format_count(a, t->offset), g->alignment);
        if (!fm_add_u64(g->data_offset, t->offset, &start) || !fm_add_u64(start, t->bytes, &end))
            return fm_fail(err, FM_ERR_OVERFLOW, "%s: tensor \"%s\" is at offset %s, past any file", g->path, t->name,
                           fm_format_count(a, t->offset));
        if (end > g->file_bytes)
            return fm_fail_at(err, FM_ERR_VALUE, start, 0,
                              "%s: tensor \"%s\" ends at %s, past the file's %s bytes (truncated download?)", g->path,
                              t->name, fm_format_count(a, end), fm_format_count(b, g->file_bytes));
        t->offset = start;
    }
    return check_overlap(g, err);
}

// ---- the whole ----

static fm_status read_all(fm_gguf *g, fm_gguf_cursor *c, fm_gguf_placed **placed, fm_err *err)
{
    uint64_t n_tensors = 0, n_keys = 0;
    fm_status status = read_header(g, c, &n_tensors, &n_keys, err);
    status = status ? status : read_keys(g, c, n_keys, placed, err);
    for (uint64_t i = 0; !status && i < n_tensors; i++)
        status = read_tensor(g, c, err);
    if (status)
        return status;
    // What was loaded past the infos is data: let it go.
    size_t end = (size_t)c->at;
    g->head.size = end;
    char *smaller = fm_realloc(g->head.data, end + 1);
    if (smaller) {
        g->head.data = smaller;
        g->head.capacity = end + 1;
    }
    g->head.data[end] = 0;
    status = place_keys(g, *placed, (size_t)n_keys, err);
    status = status ? status : read_alignment(g, err);
    status = status ? status : place_tensors(g, end, err);
    if (!status && (status = fm_tensor_list_seal(&g->tensors, err)))
        fm_err_prefix(err, "%s", g->path);
    return status;
}

// Takes over `head`, which holds what is known of the file already.
static fm_status open_from(int fd, fm_buf *head, uint64_t file_bytes, const char *path, fm_gguf **out, fm_err *err)
{
    fm_gguf_placed *placed = NULL;
    fm_gguf *g = fm_calloc(1, sizeof *g);
    if (!g || !(g->path = fm_strdup(path))) {
        fm_buf_reset(head);
        fm_free(g);
        return fm_fail_memory(err, path);
    }
    g->head = *head;
    *head = (fm_buf){0};
    g->file_bytes = file_bytes;
    fm_gguf_cursor c = {.path = g->path, .fd = fd, .head = &g->head, .file_bytes = file_bytes};
    fm_status status = read_all(g, &c, &placed, err);
    fm_free(placed);
    if (status)
        fm_gguf_destroy(g);
    else
        *out = g;
    return status;
}

fm_status fm_gguf_open(const char *path, fm_gguf **out, fm_err *err)
{
    struct stat about;
    fm_buf head = {0};
    int fd = fm_io_open(path, O_RDONLY, 0);
    if (fd < 0)
        return fm_fail_path(err, path, "open", errno);
    fm_status status;
    if (fstat(fd, &about))
        status = fm_fail_path(err, path, "read", errno);
    else if (!S_ISREG(about.st_mode))
        status = fm_fail(err, FM_ERR_IO, "%s: not a regular file", path);
    else
        status = open_from(fd, &head, (uint64_t)about.st_size, path, out, err);
    close(fd);
    return status;
}

fm_status fm_gguf_parse(const void *bytes, size_t n, const char *name, fm_gguf **out, fm_err *err)
{
    fm_buf head = {0};
    fm_buf_add(&head, bytes, n);
    fm_status status = fm_buf_check(&head, err);
    if (status) {
        fm_buf_reset(&head);
        return status;
    }
    return open_from(-1, &head, n, name, out, err);
}

void fm_gguf_destroy(fm_gguf *g)
{
    if (!g)
        return;
    fm_tensor_list_reset(&g->tensors);
    fm_arena_reset(&g->arena);
    fm_buf_reset(&g->head);
    fm_free(g->sorted_keys);
    fm_free(g->keys);
    fm_free(g->path);
    fm_free(g);
}
