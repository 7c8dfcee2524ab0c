#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/json_out.h"
#include "base/utf8.h"
#include "files/arena.h"
#include "files/stream.h"
#include "floodmark/safetensors.h"

struct fm_safetensors_writer {
    fm_arena arena;
    char *path;
    uint64_t shard_bytes;
    bool force, begun;
    struct pair {
        const char *key, *value;
    } * metadata;
    size_t n_metadata, metadata_capacity;
    fm_tensor_list tensors;
    size_t n_shards;
    fm_stream stream; // the shards, then the index when there is more than one
    uint64_t file_bytes;
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

fm_status fm_safetensors_writer_create(const char *path, uint64_t shard_bytes, bool force, fm_safetensors_writer **out,
                                       fm_err *err)
{
    if (!ends_with(path, ".safetensors"))
        return fm_fail(err, FM_ERR_USAGE, "%s: the name must end in .safetensors", path);
    fm_safetensors_writer *w = fm_calloc(1, sizeof *w);
    if (!w || !(w->path = fm_strdup(path))) {
        fm_free(w);
        return fm_fail_memory(err, path);
    }
    w->shard_bytes = shard_bytes;
    w->force = force;
    *out = w;
    return FM_OK;
}

void fm_safetensors_writer_destroy(fm_safetensors_writer *w)
{
    if (!w)
        return;
    fm_stream_reset(&w->stream);
    fm_tensor_list_reset(&w->tensors);
    fm_arena_reset(&w->arena);
    fm_free(w->metadata);
    fm_free(w->path);
    fm_free(w);
}

static fm_status check_text(const fm_safetensors_writer *w, const char *text, const char *what, fm_err *err)
{
    if (w->begun)
        return fm_fail(err, FM_ERR_USAGE, "%s: %s after the header was written", w->path, what);
    if (!fm_utf8_valid(text, strlen(text)))
        return fm_fail(err, FM_ERR_VALUE, "%s: %s is not UTF-8", w->path, what);
    return FM_OK;
}

fm_status fm_safetensors_writer_metadata(fm_safetensors_writer *w, const char *key, const char *value, fm_err *err)
{
    fm_status status = check_text(w, key, "a metadata key", err);
    status = status ? status : check_text(w, value, "a metadata value", err);
    if (status)
        return status;
    for (size_t i = 0; i < w->n_metadata; i++)
        if (!strcmp(w->metadata[i].key, key))
            return fm_fail(err, FM_ERR_CONFLICT, "%s: metadata \"%.100s\" is given twice", w->path, key);
    struct pair *grown = fm_grow(w->metadata, &w->metadata_capacity, w->n_metadata, sizeof *grown);
    if (!grown)
        return fm_fail_memory(err, "metadata");
    w->metadata = grown;
    struct pair pair = {fm_arena_text(&w->arena, key, strlen(key)), fm_arena_text(&w->arena, value, strlen(value))};
    if (!pair.key || !pair.value)
        return fm_fail_memory(err, "metadata");
    grown[w->n_metadata++] = pair;
    return FM_OK;
}

fm_status fm_safetensors_writer_add(fm_safetensors_writer *w, const char *name, fm_tensor_type type, uint32_t n_dims,
                                    const uint64_t *dims, size_t *index, fm_err *err)
{
    const fm_tensor_type_info *info = fm_tensor_type_of(type);
    fm_status status = check_text(w, name, "a tensor's name", err);
    if (status)
        return status;
    if (!strcmp(name, "__metadata__"))
        return fm_fail(err, FM_ERR_VALUE, "%s: __metadata__ cannot be the name of a tensor", w->path);
    if (!info || !info->safetensors)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "%s: tensor \"%.100s\": safetensors has no type for %s", w->path, name,
                       info ? info->name : "this");
    return fm_tensor_list_new(&w->tensors, &w->arena, name, type, n_dims, dims, index, err);
}

// ---- layout ----

// Shards in the order of adding, each filled as far as it goes.
static fm_status assign_shards(fm_safetensors_writer *w, fm_err *err)
{
    uint64_t used = 0;
    uint32_t shard = 0;
    for (size_t i = 0; i < w->tensors.n; i++) {
        fm_tensor_info *t = &w->tensors.items[i];
        uint64_t with;
        if (!fm_add_u64(used, t->bytes, &with))
            return fm_fail(err, FM_ERR_OVERFLOW, "%s: the tensors pass 2^64 bytes", w->path);
        if (w->shard_bytes && used && with > w->shard_bytes) {
            shard++;
            with = t->bytes;
        }
        used = with;
        t->file = shard;
    }
    w->n_shards = shard + 1;
    if (w->n_shards > 99999)
        return fm_fail(err, FM_ERR_VALUE, "%s: %zu shards; choose a larger shard size", w->path, w->n_shards);
    return FM_OK;
}

// Places in the data of each shard, widest values first; offsets from the start of the data.
static fm_status place(fm_safetensors_writer *w, uint64_t *data_bytes, fm_err *err)
{
    static const unsigned widths[] = {64, 32, 16, 8, 6, 4};
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
        for (size_t i = 0; i < w->tensors.n; i++) {
            fm_tensor_info *t = &w->tensors.items[i];
            if (fm_tensor_type_of(t->type)->block_bits != widths[k])
                continue;
            t->offset = data_bytes[t->file];
            if (!fm_add_u64(t->offset, t->bytes, &data_bytes[t->file]))
                return fm_fail(err, FM_ERR_OVERFLOW, "%s: the tensors pass 2^64 bytes", w->path);
        }
    return FM_OK;
}

static fm_status build_header(const fm_safetensors_writer *w, uint32_t shard, fm_buf *head, fm_err *err)
{
    fm_json j;
    fm_buf_add_u64(head, 0); // the length, once it is known
    fm_json_init(&j, head, false);
    fm_json_begin_object(&j);
    if (w->n_metadata) {
        fm_json_key(&j, "__metadata__");
        fm_json_begin_object(&j);
        for (size_t i = 0; i < w->n_metadata; i++)
            fm_json_put_text(&j, w->metadata[i].key, w->metadata[i].value);
        fm_json_end_object(&j);
    }
    for (size_t i = 0; i < w->tensors.n; i++) {
        const fm_tensor_info *t = &w->tensors.items[i];
        if (t->file != shard)
            continue;
        fm_json_key(&j, t->name);
        fm_json_begin_object(&j);
        fm_json_put_text(&j, "dtype", fm_tensor_type_of(t->type)->safetensors);
        fm_json_key(&j, "shape");
        fm_json_begin_array(&j);
        for (uint32_t d = 0; d < t->n_dims; d++)
            fm_json_u64(&j, t->dims[d]);
        fm_json_end_array(&j);
        fm_json_key(&j, "data_offsets");
        fm_json_begin_array(&j);
        fm_json_u64(&j, t->offset);
        fm_json_u64(&j, t->offset + t->bytes);
        fm_json_end_array(&j);
        fm_json_end_object(&j);
    }
    fm_json_end_object(&j);
    fm_status status = fm_json_finish(&j, err);
    if (status)
        return status;
    // The newline that ends a JSON text is white space; spaces fill up to where the data may start.
    head->data[head->size - 1] = ' ';
    while (head->size % 8 && !head->failed)
        fm_buf_add_char(head, ' ');
    if ((status = fm_buf_check(head, err)))
        return status;
    uint64_t length = head->size - 8;
    if (length > FM_SAFETENSORS_MAX_HEADER_BYTES)
        return fm_fail(err, FM_ERR_OVERFLOW, "%s: the header passes 100,000,000 bytes; write smaller shards", w->path);
    for (int i = 0; i < 8; i++)
        head->data[i] = (char)(length >> 8 * i);
    return FM_OK;
}

static fm_status write_header(fm_safetensors_writer *w, uint32_t shard, uint64_t data_bytes, fm_err *err)
{
    fm_buf head = {0};
    fm_stream_file *file = &w->stream.files[shard];
    fm_status status = build_header(w, shard, &head, err);
    if (!status && !fm_add_u64(data_bytes, head.size, &file->bytes))
        status = fm_fail(err, FM_ERR_OVERFLOW, "%s: the tensors pass 2^64 bytes", w->path);
    status = status ? status : fm_atomic_file_reserve(file->file, file->bytes, err);
    status = status ? status : fm_atomic_file_pwrite(file->file, head.data, head.size, 0, err);
    for (size_t i = 0; !status && i < w->tensors.n; i++)
        if (w->tensors.items[i].file == shard)
            w->tensors.items[i].offset += head.size;
    w->file_bytes += file->bytes;
    fm_buf_reset(&head);
    return status;
}

// ---- names ----

static fm_status shard_name(const fm_safetensors_writer *w, size_t shard, fm_buf *out, fm_err *err)
{
    size_t stem = strlen(w->path) - strlen(".safetensors");
    if (w->n_shards == 1)
        fm_buf_add_text(out, w->path);
    else if (shard == w->n_shards)
        fm_buf_printf(out, "%s.index.json", w->path);
    else
        fm_buf_printf(out, "%.*s-%05zu-of-%05zu.safetensors", (int)stem, w->path, shard + 1, w->n_shards);
    return fm_buf_check(out, err);
}

static fm_status open_files(fm_safetensors_writer *w, fm_err *err)
{
    size_t n = w->n_shards > 1 ? w->n_shards + 1 : 1;
    fm_status status = FM_OK;
    char **paths = fm_calloc(n, sizeof(char *));
    fm_buf *names = fm_calloc(n, sizeof *names);
    if (!paths || !names)
        status = fm_fail_memory(err, "the names of shards");
    for (size_t i = 0; !status && i < n; i++) {
        status = shard_name(w, i, &names[i], err);
        paths[i] = names[i].data;
    }
    status = status ? status : fm_stream_open(&w->stream, n, paths, w->tensors.n, w->force, err);
    for (size_t i = 0; names && i < n; i++)
        fm_buf_reset(&names[i]);
    fm_free(names);
    fm_free(paths);
    return status;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static fm_status write_index(fm_safetensors_writer *w, const uint64_t *data_bytes, fm_err *err)
{
    fm_buf text = {0};
    fm_json j;
    uint64_t total = 0;
    for (size_t i = 0; i < w->n_shards; i++)
        total += data_bytes[i];
    fm_json_init(&j, &text, true);
    fm_json_begin_object(&j);
    fm_json_key(&j, "metadata");
    fm_json_begin_object(&j);
    fm_json_put_u64(&j, "total_size", total);
    fm_json_end_object(&j);
    fm_json_key(&j, "weight_map");
    fm_json_begin_object(&j);
    for (size_t i = 0; i < w->tensors.n; i++)
        fm_json_put_text(&j, w->tensors.items[i].name, last_part(w->stream.files[w->tensors.items[i].file].path));
    fm_json_end_object(&j);
    fm_json_end_object(&j);
    fm_status status = fm_json_finish(&j, err);
    if (!status)
        status = fm_atomic_file_pwrite(w->stream.files[w->n_shards].file, text.data, text.size, 0, err);
    w->file_bytes += text.size;
    fm_buf_reset(&text);
    return status;
}

fm_status fm_safetensors_writer_begin(fm_safetensors_writer *w, fm_err *err)
{
    if (w->begun)
        return fm_fail(err, FM_ERR_USAGE, "%s: begun twice", w->path);
    w->begun = true;
    fm_status status = fm_tensor_list_seal(&w->tensors, err);
    if (status) {
        fm_err_prefix(err, "%s", w->path);
        return status;
    }
    if ((status = assign_shards(w, err)))
        return status;
    uint64_t *data_bytes = fm_calloc(w->n_shards, sizeof *data_bytes);
    if (!data_bytes)
        return fm_fail_memory(err, "shards");
    status = place(w, data_bytes, err);
    status = status ? status : open_files(w, err);
    for (uint32_t i = 0; !status && i < w->n_shards; i++)
        status = write_header(w, i, data_bytes[i], err);
    if (!status && w->n_shards > 1)
        status = write_index(w, data_bytes, err);
    fm_free(data_bytes);
    return status;
}

fm_status fm_safetensors_writer_write(fm_safetensors_writer *w, size_t index, uint64_t offset, const void *bytes,
                                      size_t n, fm_err *err)
{
    if (!w->stream.n_files || index >= w->tensors.n)
        return fm_fail(err, FM_ERR_USAGE, "%s: no tensor %zu to write", w->path, index);
    return fm_stream_write(&w->stream, &w->tensors.items[index], index, offset, bytes, n, err);
}

fm_status fm_safetensors_writer_finish(fm_safetensors_writer *w, double *sync_seconds, fm_err *err)
{
    if (!w->stream.n_files)
        return fm_fail(err, FM_ERR_USAGE, "%s: finished before it was begun", w->path);
    return fm_stream_finish(&w->stream, &w->tensors, sync_seconds, err);
}

uint64_t fm_safetensors_writer_file_bytes(const fm_safetensors_writer *w)
{
    return w->file_bytes;
}
