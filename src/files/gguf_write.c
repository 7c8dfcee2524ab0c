#include <string.h>
#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "files/endian.h"
#include "files/gguf_file.h"
#include "files/stream.h"

enum { LONGEST_NAME = 63 }; // the specification allows 64; ggml's own buffer ends there

typedef struct {
    char *key;
    fm_gguf_type type;
    fm_buf raw;
} pair;

struct fm_gguf_writer {
    fm_arena arena;
    char *path;
    bool force, begun;
    pair *keys;
    size_t n_keys, key_capacity;
    fm_tensor_list tensors;
    fm_stream stream;
    uint64_t file_bytes;
};

fm_status fm_gguf_writer_create(const char *path, bool force, fm_gguf_writer **out, fm_err *err)
{
    fm_gguf_writer *w = fm_calloc(1, sizeof *w);
    if (!w || !(w->path = fm_strdup(path))) {
        fm_free(w);
        return fm_fail_memory(err, path);
    }
    w->force = force;
    *out = w;
    return FM_OK;
}

static void free_pair(pair *p)
{
    fm_free(p->key);
    fm_buf_reset(&p->raw);
}

void fm_gguf_writer_destroy(fm_gguf_writer *w)
{
    if (!w)
        return;
    fm_stream_reset(&w->stream);
    fm_tensor_list_reset(&w->tensors);
    fm_arena_reset(&w->arena);
    for (size_t i = 0; i < w->n_keys; i++)
        free_pair(&w->keys[i]);
    fm_free(w->keys);
    fm_free(w->path);
    fm_free(w);
}

// ---- keys ----

static pair *find_pair(const fm_gguf_writer *w, const char *key)
{
    for (size_t i = 0; i < w->n_keys; i++)
        if (!strcmp(w->keys[i].key, key))
            return &w->keys[i];
    return NULL;
}

// What a reader would say of this value: the reader is asked.
static fm_status check_value(const fm_gguf_writer *w, const char *key, fm_gguf_type type, fm_buf *raw, fm_err *err)
{
    fm_gguf_cursor c = {.path = w->path, .fd = -1, .head = raw, .file_bytes = raw->size};
    fm_gguf_placed placed;
    fm_status status = fm_gguf_read_value(&c, type, key, &placed, err);
    if (!status && c.at != raw->size)
        status = fm_fail(err, FM_ERR_VALUE, "%s: key \"%.100s\": bytes after the value", w->path, key);
    if (status || strcmp(key, "general.alignment") != 0)
        return status;
    uint32_t alignment = type == FM_GGUF_U32 ? fm_load_u32((const uint8_t *)raw->data) : 0;
    if (!fm_gguf_good_alignment(alignment) || (alignment & (alignment - 1)))
        return fm_fail(err, FM_ERR_VALUE, "%s: general.alignment must be a uint32 that is a power of two, 8 or more",
                       w->path);
    return FM_OK;
}

// Takes over *raw. `is_new`: the caller knows that no such key is there.
static fm_status set_key(fm_gguf_writer *w, const char *key, fm_gguf_type type, fm_buf *raw, bool is_new, fm_err *err)
{
    const char *wrong = fm_gguf_wrong_key(key, strlen(key));
    fm_status status = fm_buf_check(raw, err);
    if (!status && w->begun)
        status = fm_fail(err, FM_ERR_USAGE, "%s: a key after the header was written", w->path);
    if (!status && wrong)
        status = fm_fail(err, FM_ERR_VALUE, "%s: the key \"%.100s\" %s", w->path, key, wrong);
    status = status ? status : check_value(w, key, type, raw, err);
    pair *there = status || is_new ? NULL : find_pair(w, key);
    if (!status && !there) {
        pair *grown = fm_grow(w->keys, &w->key_capacity, w->n_keys, sizeof *grown);
        if (grown) {
            w->keys = grown;
            grown[w->n_keys] = (pair){.key = fm_strdup(key)};
        }
        if (grown && grown[w->n_keys].key)
            there = &grown[w->n_keys++];
        else
            status = fm_fail_memory(err, "the keys");
    }
    if (status) {
        fm_buf_reset(raw);
        return status;
    }
    fm_buf_reset(&there->raw);
    there->type = type;
    there->raw = *raw;
    *raw = (fm_buf){0};
    return FM_OK;
}

static fm_status set(fm_gguf_writer *w, const char *key, fm_gguf_type type, fm_buf *raw, fm_err *err)
{
    return set_key(w, key, type, raw, false, err);
}

fm_status fm_gguf_writer_raw(fm_gguf_writer *w, const char *key, fm_gguf_type type, const void *raw, size_t n,
                             fm_err *err)
{
    fm_buf copy = {0};
    fm_buf_add(&copy, raw, n);
    return set(w, key, type, &copy, err);
}

fm_status fm_gguf_writer_u32(fm_gguf_writer *w, const char *key, uint32_t v, fm_err *err)
{
    fm_buf raw = {0};
    fm_buf_add_u32(&raw, v);
    return set(w, key, FM_GGUF_U32, &raw, err);
}

fm_status fm_gguf_writer_u64(fm_gguf_writer *w, const char *key, uint64_t v, fm_err *err)
{
    fm_buf raw = {0};
    fm_buf_add_u64(&raw, v);
    return set(w, key, FM_GGUF_U64, &raw, err);
}

fm_status fm_gguf_writer_f32(fm_gguf_writer *w, const char *key, float v, fm_err *err)
{
    fm_buf raw = {0};
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    fm_buf_add_u32(&raw, bits);
    return set(w, key, FM_GGUF_F32, &raw, err);
}

fm_status fm_gguf_writer_bool(fm_gguf_writer *w, const char *key, bool v, fm_err *err)
{
    fm_buf raw = {0};
    fm_buf_add_u8(&raw, v);
    return set(w, key, FM_GGUF_BOOL, &raw, err);
}

fm_status fm_gguf_writer_string(fm_gguf_writer *w, const char *key, const char *text, size_t n, fm_err *err)
{
    fm_buf raw = {0};
    fm_buf_add_u64(&raw, n);
    fm_buf_add(&raw, text, n);
    return set(w, key, FM_GGUF_STRING, &raw, err);
}

fm_status fm_gguf_writer_value(fm_gguf_writer *w, const fm_gguf_value *v, fm_err *err)
{
    return fm_gguf_writer_raw(w, v->key, v->type, v->raw, v->raw_bytes, err);
}

fm_status fm_gguf_writer_copy_keys(fm_gguf_writer *w, const fm_gguf *g, fm_err *err)
{
    fm_status status = FM_OK;
    bool is_new = !w->n_keys; // a file's keys differ from one another
    for (size_t i = 0; !status && i < fm_gguf_n_keys(g); i++) {
        const fm_gguf_value *v = fm_gguf_key(g, i);
        fm_buf raw = {0};
        fm_buf_add(&raw, v->raw, v->raw_bytes);
        status = set_key(w, v->key, v->type, &raw, is_new, err);
    }
    return status;
}

bool fm_gguf_writer_remove(fm_gguf_writer *w, const char *key)
{
    pair *there = find_pair(w, key);
    if (!there || w->begun)
        return false;
    free_pair(there);
    size_t i = (size_t)(there - w->keys);
    memmove(there, there + 1, (--w->n_keys - i) * sizeof *there);
    return true;
}

// ---- tensors ----

static fm_status check_tensor(const fm_gguf_writer *w, const char *name, const fm_tensor_type_info *type,
                              uint32_t n_dims, const uint64_t *dims, fm_err *err)
{
    if (w->begun)
        return fm_fail(err, FM_ERR_USAGE, "%s: a tensor after the header was written", w->path);
    if (strlen(name) > LONGEST_NAME)
        return fm_fail(err, FM_ERR_VALUE, "%s: the name \"%.100s\" has %zu bytes, GGUF readers allow %d", w->path, name,
                       strlen(name), LONGEST_NAME);
    if (!fm_utf8_valid(name, strlen(name)))
        return fm_fail(err, FM_ERR_VALUE, "%s: a tensor's name is not UTF-8", w->path);
    if (n_dims > FM_GGUF_MAX_DIMS)
        return fm_fail(err, FM_ERR_VALUE, "%s: tensor \"%s\" has %u dimensions, GGUF allows %d", w->path, name, n_dims,
                       FM_GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < n_dims; i++)
        if (!dims[i])
            return fm_fail(err, FM_ERR_VALUE,
                           "%s: tensor \"%s\" holds nothing (a dimension is 0), GGUF cannot say that", w->path, name);
    if (!type || type->ggml < 0)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "%s: tensor \"%s\": GGUF has no type for %s", w->path, name,
                       type ? type->name : "this");
    return FM_OK;
}

fm_status fm_gguf_writer_add(fm_gguf_writer *w, const char *name, fm_tensor_type type, uint32_t n_dims,
                             const uint64_t *dims, size_t *index, fm_err *err)
{
    fm_status status = check_tensor(w, name, fm_tensor_type_of(type), n_dims, dims, err);
    if (status)
        return status;
    return fm_tensor_list_new(&w->tensors, &w->arena, name, type, n_dims, dims, index, err);
}

// ---- the file ----

static void add_string(fm_buf *b, const char *text)
{
    fm_buf_add_u64(b, strlen(text));
    fm_buf_add_text(b, text);
}

static uint32_t alignment_of(const fm_gguf_writer *w)
{
    const pair *p = find_pair(w, "general.alignment");
    return p ? fm_load_u32((const uint8_t *)p->raw.data) : FM_GGUF_DEFAULT_ALIGNMENT;
}

// Places in the data, and how many bytes it takes with the padding after the last tensor.
static fm_status place(fm_gguf_writer *w, uint64_t *data_bytes, fm_err *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < w->tensors.n; i++) {
        fm_tensor_info *t = &w->tensors.items[i];
        t->offset = at;
        if (!fm_add_u64(at, t->bytes, &at) || !fm_round_up_u64(at, alignment_of(w), &at))
            return fm_fail(err, FM_ERR_OVERFLOW, "%s: the tensors pass 2^64 bytes", w->path);
    }
    *data_bytes = at;
    return FM_OK;
}

static fm_status build_header(const fm_gguf_writer *w, fm_buf *head, fm_err *err)
{
    fm_buf_add_text(head, "GGUF");
    fm_buf_add_u32(head, 3);
    fm_buf_add_u64(head, w->tensors.n);
    fm_buf_add_u64(head, w->n_keys);
    for (size_t i = 0; i < w->n_keys; i++) {
        add_string(head, w->keys[i].key);
        fm_buf_add_u32(head, (uint32_t)w->keys[i].type);
        fm_buf_add(head, w->keys[i].raw.data, w->keys[i].raw.size);
    }
    for (size_t i = 0; i < w->tensors.n; i++) {
        const fm_tensor_info *t = &w->tensors.items[i];
        add_string(head, t->name);
        fm_buf_add_u32(head, t->n_dims);
        for (uint32_t d = t->n_dims; d-- > 0;)
            fm_buf_add_u64(head, t->dims[d]);
        fm_buf_add_u32(head, (uint32_t)fm_tensor_type_of(t->type)->ggml);
        fm_buf_add_u64(head, t->offset);
    }
    fm_buf_align(head, alignment_of(w));
    return fm_buf_check(head, err);
}

// Zeros between the end of each tensor and the start of the next.
static fm_status write_padding(fm_gguf_writer *w, fm_err *err)
{
    uint32_t alignment = alignment_of(w);
    void *zeros = fm_calloc(1, alignment);
    if (!zeros)
        return fm_fail_memory(err, "padding");
    fm_status status = FM_OK;
    for (size_t i = 0; !status && i < w->tensors.n; i++) {
        uint64_t end = w->tensors.items[i].offset + w->tensors.items[i].bytes, rest = end % alignment;
        if (rest)
            status = fm_atomic_file_pwrite(w->stream.files[0].file, zeros, alignment - rest, end, err);
    }
    fm_free(zeros);
    return status;
}

fm_status fm_gguf_writer_begin(fm_gguf_writer *w, fm_err *err)
{
    fm_buf head = {0};
    uint64_t data_bytes = 0;
    if (w->begun)
        return fm_fail(err, FM_ERR_USAGE, "%s: begun twice", w->path);
    w->begun = true;
    fm_status status = fm_tensor_list_seal(&w->tensors, err);
    if (status) {
        fm_err_prefix(err, "%s", w->path);
        return status;
    }
    status = place(w, &data_bytes, err);
    status = status ? status : build_header(w, &head, err);
    if (!status && !fm_add_u64(head.size, data_bytes, &w->file_bytes))
        status = fm_fail(err, FM_ERR_OVERFLOW, "%s: the tensors pass 2^64 bytes", w->path);
    status = status ? status : fm_stream_open(&w->stream, 1, &w->path, w->tensors.n, w->force, err);
    status = status ? status : fm_atomic_file_reserve(w->stream.files[0].file, w->file_bytes, err);
    status = status ? status : fm_atomic_file_pwrite(w->stream.files[0].file, head.data, head.size, 0, err);
    for (size_t i = 0; !status && i < w->tensors.n; i++)
        w->tensors.items[i].offset += head.size;
    status = status ? status : write_padding(w, err);
    fm_buf_reset(&head);
    return status;
}

fm_status fm_gguf_writer_write(fm_gguf_writer *w, size_t index, uint64_t offset, const void *bytes, size_t n,
                               fm_err *err)
{
    if (!w->stream.n_files || index >= w->tensors.n)
        return fm_fail(err, FM_ERR_USAGE, "%s: no tensor %zu to write", w->path, index);
    return fm_stream_write(&w->stream, &w->tensors.items[index], index, offset, bytes, n, err);
}

fm_status fm_gguf_writer_finish(fm_gguf_writer *w, double *sync_seconds, fm_err *err)
{
    if (!w->stream.n_files)
        return fm_fail(err, FM_ERR_USAGE, "%s: finished before it was begun", w->path);
    return fm_stream_finish(&w->stream, &w->tensors, sync_seconds, err);
}

uint64_t fm_gguf_writer_file_bytes(const fm_gguf_writer *w)
{
    return w->file_bytes;
}
