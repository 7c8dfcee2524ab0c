#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/checked.h"
#include "base/units.h"
#include "files/endian.h"
#include "files/safetensors_set.h"

// What is often mistaken for a safetensors file, by its first bytes; NULL when nothing comes to mind.
static const char *looks_like(const uint8_t *head, size_t n)
{
    static const struct {
        const char *magic, *what;
    } rows[] = {
        {"GGUF", "this is a GGUF file"},
        {"PK\3\4", "this is a zip archive (a PyTorch .bin or .pt?); convert it to safetensors first"},
        {"version https://git-lfs", "this is a Git LFS pointer, not the file; fetch it with `git lfs pull`"},
        {"<!DOCTYPE", "this is a web page; the download went wrong"},
        {"<html", "this is a web page; the download went wrong"},
        {"{", "this is JSON without a safetensors length field"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t m = strlen(rows[i].magic);
        if (n >= m && !memcmp(head, rows[i].magic, m))
            return rows[i].what;
    }
    return NULL;
}

static fm_status check_length(const uint8_t *head, size_t n, uint64_t file_bytes, const char *name, uint64_t *out,
                              fm_err *err)
{
    char have[FM_UNITS_TEXT_BYTES], want[FM_UNITS_TEXT_BYTES];
    const char *like = looks_like(head, n);
    if (n < 8 || file_bytes < 8)
        return fm_fail_at(err, FM_ERR_SYNTAX, 0, 0, "%s: only %zu bytes, shorter than the length field%s%s", name, n,
                          like ? "; " : " (empty download?)", like ? like : "");
    uint64_t length = fm_load_u64(head);
    if (length > FM_SAFETENSORS_MAX_HEADER_BYTES)
        return fm_fail_at(err, FM_ERR_VALUE, 0, 0, "%s: header length %s is over the limit of 100,000,000 bytes; %s",
                          name, fm_format_count(want, length), like ? like : "not a safetensors file?");
    if (length > file_bytes - 8)
        return fm_fail_at(err, FM_ERR_VALUE, 0, 0,
                          "%s: header length %s reaches past the file's %s bytes (truncated download?)", name,
                          fm_format_count(want, length), fm_format_count(have, file_bytes));
    *out = length;
    return FM_OK;
}

// ---- one tensor ----

static fm_status fail_tensor(const fm_node *at, const char *tensor, fm_err *err, fm_status code, const char *words)
{
    return fm_node_fail(at, err, code, "tensor \"%.200s\": %s", tensor, words);
}

static fm_status read_shape(fm_safetensors *st, const fm_node *shape, fm_tensor_info *t, fm_err *err)
{
    if (fm_node_type_of(shape) != FM_NODE_ARRAY)
        return fail_tensor(shape, t->name, err, FM_ERR_VALUE, "shape must be a list");
    size_t n = fm_node_count(shape);
    uint64_t *dims = fm_arena_array(&st->arena, n, sizeof *dims);
    if (!dims)
        return fm_fail_memory(err, "a shape");
    for (size_t i = 0; i < n; i++) {
        fm_status status = fm_node_u64(fm_node_at(shape, i), dims + i, err);
        if (status)
            return status;
    }
    t->dims = dims;
    t->n_dims = (uint32_t)n;
    return FM_OK;
}

static fm_status read_range(const fm_node *offsets, const fm_tensor_info *t, uint64_t *begin, uint64_t *end,
                            fm_err *err)
{
    if (fm_node_type_of(offsets) != FM_NODE_ARRAY || fm_node_count(offsets) != 2)
        return fail_tensor(offsets, t->name, err, FM_ERR_VALUE, "data_offsets must be a list of two numbers");
    fm_status status = fm_node_u64(fm_node_at(offsets, 0), begin, err);
    status = status ? status : fm_node_u64(fm_node_at(offsets, 1), end, err);
    if (!status && *end < *begin)
        status = fail_tensor(offsets, t->name, err, FM_ERR_VALUE, "data_offsets end before they begin");
    return status;
}

static fm_status check_size(const fm_node *entry, const fm_st_file *file, fm_tensor_info *t, uint64_t begin,
                            uint64_t end, fm_err *err)
{
    char a[FM_UNITS_TEXT_BYTES], b[FM_UNITS_TEXT_BYTES];
    fm_status status = fm_tensor_size(t->type, t->n_dims, t->dims, &t->n_elems, &t->bytes, err);
    if (status && err)
        return fm_node_fail(entry, err, status, "tensor \"%.200s\": %s", t->name, err->message);
    if (status)
        return status;
    if (t->bytes != end - begin)
        return fm_node_fail(entry, err, FM_ERR_CONFLICT,
                            "tensor \"%.200s\" takes %s bytes by its shape and type, but its range has %s", t->name,
                            fm_format_count(a, t->bytes), fm_format_count(b, end - begin));
    if (end > file->bytes - file->header_bytes) {
        uint64_t end_in_file = UINT64_MAX;
        fm_add_u64(end, file->header_bytes, &end_in_file);
        return fm_fail_at(err, FM_ERR_VALUE, fm_node_offset(entry), 0,
                          "%s: tensor \"%.200s\" ends at %s, past the file's %s bytes (truncated download?)",
                          file->path, t->name, fm_format_count(a, end_in_file), fm_format_count(b, file->bytes));
    }
    t->offset = file->header_bytes + begin;
    return FM_OK;
}

static fm_status read_tensor(fm_safetensors *st, const fm_st_file *file, const char *name, const fm_node *entry,
                             fm_err *err)
{
    fm_tensor_info t = {.file = (uint32_t)(st->n_files - 1)};
    if (fm_node_type_of(entry) != FM_NODE_OBJECT)
        return fail_tensor(entry, name, err, FM_ERR_VALUE, "its entry must be an object");
    if (!(t.name = fm_arena_text(&st->arena, name, strlen(name))))
        return fm_fail_memory(err, "the name of a tensor");
    const fm_node *dtype = NULL, *shape = NULL, *offsets = NULL;
    const char *dtype_name = NULL;
    fm_status status = fm_node_need(entry, "dtype", &dtype, err);
    status = status ? status : fm_node_string(dtype, &dtype_name, err);
    status = status ? status : fm_node_need(entry, "shape", &shape, err);
    status = status ? status : fm_node_need(entry, "data_offsets", &offsets, err);
    if (status)
        return status;
    const fm_tensor_type_info *type = fm_tensor_type_by_safetensors(dtype_name);
    if (!type)
        return fm_node_fail(dtype, err, FM_ERR_VALUE,
                            "tensor \"%.200s\": dtype \"%.40s\" is none of safetensors' (F32, BF16, ...)", name,
                            dtype_name);
    t.type = type->type;
    uint64_t begin = 0, end = 0;
    status = read_shape(st, shape, &t, err);
    status = status ? status : read_range(offsets, &t, &begin, &end, err);
    status = status ? status : check_size(entry, file, &t, begin, end, err);
    return status ? status : fm_tensor_list_add(&st->tensors, &t, err);
}

// ---- one header ----

static int by_range(const void *a, const void *b)
{
    const fm_tensor_info *x = *(const fm_tensor_info *const *)a, *y = *(const fm_tensor_info *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

// The ranges of the tensors from `first` on must follow one another from the header to the end of the file.
static fm_status check_tiling(const fm_safetensors *st, size_t first, const fm_st_file *file, fm_err *err)
{
    size_t n = st->tensors.n - first;
    const fm_tensor_info **order = fm_alloc_array(n, sizeof(fm_tensor_info *));
    char a[FM_UNITS_TEXT_BYTES], b[FM_UNITS_TEXT_BYTES];
    if (!order)
        return fm_fail_memory(err, "the order of tensors");
    for (size_t i = 0; i < n; i++)
        order[i] = &st->tensors.items[first + i];
    qsort(order, n, sizeof(fm_tensor_info *), by_range);
    uint64_t at = file->header_bytes;
    fm_status status = FM_OK;
    for (size_t i = 0; !status && i < n; i++) {
        if (order[i]->offset != at)
            status = fm_fail_at(err, FM_ERR_CONFLICT, order[i]->offset, 0,
                                "%s: tensor \"%.200s\" starts at %s where %s is due: %s (damaged header?)", file->path,
                                order[i]->name, fm_format_count(a, order[i]->offset), fm_format_count(b, at),
                                order[i]->offset < at ? "it overlaps another" : "a hole in the data");
        at = order[i]->offset + order[i]->bytes;
    }
    if (!status && at != file->bytes)
        status = fm_fail_at(err, FM_ERR_CONFLICT, at, 0,
                            "%s: the tensors end at %s but the file has %s bytes (damaged header?)", file->path,
                            fm_format_count(a, at), fm_format_count(b, file->bytes));
    fm_free(order);
    return status;
}

// Among the first n pairs.
static const char *find_metadata(const fm_safetensors *st, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(st->metadata[i].key, key))
            return st->metadata[i].value;
    return NULL;
}

static fm_status read_metadata(fm_safetensors *st, const fm_node *metadata, fm_err *err)
{
    if (fm_node_type_of(metadata) == FM_NODE_NULL)
        return FM_OK;
    if (fm_node_type_of(metadata) != FM_NODE_OBJECT)
        return fm_node_fail(metadata, err, FM_ERR_VALUE, "__metadata__ must be an object of strings, not %s",
                            fm_node_type_words(metadata));
    size_t n_before = st->n_metadata; // of earlier shards; within one file no key is there twice
    for (size_t i = 0; i < fm_node_count(metadata); i++) {
        const char *key = fm_node_key(metadata, i), *value;
        fm_status status = fm_node_string(fm_node_at(metadata, i), &value, err);
        if (status)
            return status;
        if (find_metadata(st, n_before, key))
            continue;
        fm_st_pair *grown = fm_grow(st->metadata, &st->metadata_capacity, st->n_metadata, sizeof *grown);
        if (!grown)
            return fm_fail_memory(err, "metadata");
        st->metadata = grown;
        fm_st_pair *pair = &grown[st->n_metadata];
        pair->key = fm_arena_text(&st->arena, key, strlen(key));
        pair->value = fm_arena_text(&st->arena, value, strlen(value));
        if (!pair->key || !pair->value)
            return fm_fail_memory(err, "metadata");
        st->n_metadata++;
    }
    return FM_OK;
}

static fm_status read_tensors(fm_safetensors *st, const fm_st_file *file, const fm_node *root, fm_err *err)
{
    size_t first = st->tensors.n;
    if (fm_node_type_of(root) != FM_NODE_OBJECT)
        return fm_node_fail(root, err, FM_ERR_SYNTAX, "the header must be an object, not %s", fm_node_type_words(root));
    for (size_t i = 0; i < fm_node_count(root); i++) {
        const char *name = fm_node_key(root, i);
        const fm_node *entry = fm_node_at(root, i);
        fm_status status =
            !strcmp(name, "__metadata__") ? read_metadata(st, entry, err) : read_tensor(st, file, name, entry, err);
        if (status)
            return status;
    }
    return check_tiling(st, first, file, err);
}

static fm_status new_file(fm_safetensors *st, const char *path, uint64_t bytes, uint64_t header_bytes, fm_err *err)
{
    fm_st_file *grown = fm_grow(st->files, &st->file_capacity, st->n_files, sizeof *grown);
    if (!grown)
        return fm_fail_memory(err, "the list of files");
    st->files = grown;
    char *copy = fm_arena_text(&st->arena, path, strlen(path));
    if (!copy)
        return fm_fail_memory(err, "the list of files");
    grown[st->n_files++] = (fm_st_file){copy, bytes, header_bytes};
    return FM_OK;
}

fm_status fm_st_add_header(fm_safetensors *st, const uint8_t *head, size_t n, uint64_t file_bytes, const char *name,
                           fm_err *err)
{
    uint64_t length;
    fm_tree *tree = NULL;
    fm_status status = check_length(head, n, file_bytes, name, &length, err);
    if (status)
        return status;
    if (n - 8 < length)
        return fm_fail(err, FM_ERR_USAGE, "%s: the header was handed over incomplete", name);
    if (!length || head[8] != '{')
        return fm_fail_at(err, FM_ERR_SYNTAX, 8, 0, "%s: the header must start with '{'; not a safetensors file?",
                          name);
    status = fm_tree_parse_json((const char *)head + 8, length, name, &tree, err);
    if (status) {
        if (err && err->offset != FM_NO_OFFSET)
            err->offset += 8;
        return status;
    }
    status = new_file(st, name, file_bytes, 8 + length, err);
    if (!status)
        status = read_tensors(st, &st->files[st->n_files - 1], fm_tree_root(tree), err);
    fm_tree_destroy(tree);
    return status;
}

// ---- what was read ----

void fm_safetensors_destroy(fm_safetensors *st)
{
    if (!st)
        return;
    fm_tensor_list_reset(&st->tensors);
    fm_arena_reset(&st->arena);
    fm_free(st->files);
    fm_free(st->metadata);
    fm_free(st);
}

size_t fm_safetensors_n_tensors(const fm_safetensors *st)
{
    return st->tensors.n;
}

const fm_tensor_info *fm_safetensors_tensor(const fm_safetensors *st, size_t i)
{
    return i < st->tensors.n ? &st->tensors.items[i] : NULL;
}

const fm_tensor_info *fm_safetensors_find(const fm_safetensors *st, const char *name)
{
    return fm_tensor_list_find(&st->tensors, name);
}

size_t fm_safetensors_n_files(const fm_safetensors *st)
{
    return st->n_files;
}

const char *fm_safetensors_file(const fm_safetensors *st, size_t i)
{
    return i < st->n_files ? st->files[i].path : NULL;
}

uint64_t fm_safetensors_file_bytes(const fm_safetensors *st, size_t i)
{
    return i < st->n_files ? st->files[i].bytes : 0;
}

uint64_t fm_safetensors_file_header_bytes(const fm_safetensors *st, size_t i)
{
    return i < st->n_files ? st->files[i].header_bytes : 0;
}

size_t fm_safetensors_n_metadata(const fm_safetensors *st)
{
    return st->n_metadata;
}

const char *fm_safetensors_metadata_key(const fm_safetensors *st, size_t i)
{
    return i < st->n_metadata ? st->metadata[i].key : NULL;
}

const char *fm_safetensors_metadata_value(const fm_safetensors *st, size_t i)
{
    return i < st->n_metadata ? st->metadata[i].value : NULL;
}

const char *fm_safetensors_metadata(const fm_safetensors *st, const char *key)
{
    return find_metadata(st, st->n_metadata, key);
}
