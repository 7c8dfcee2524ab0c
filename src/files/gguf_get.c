// What an opened GGUF file says.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "files/gguf_file.h"

const char *fm_gguf_path(const fm_gguf *g)
{
    return g->path;
}

uint32_t fm_gguf_version(const fm_gguf *g)
{
    return g->version;
}

uint32_t fm_gguf_alignment(const fm_gguf *g)
{
    return g->alignment;
}

uint64_t fm_gguf_data_offset(const fm_gguf *g)
{
    return g->data_offset;
}

uint64_t fm_gguf_file_bytes(const fm_gguf *g)
{
    return g->file_bytes;
}

size_t fm_gguf_n_tensors(const fm_gguf *g)
{
    return g->tensors.n;
}

const fm_tensor_info *fm_gguf_tensor(const fm_gguf *g, size_t i)
{
    return i < g->tensors.n ? &g->tensors.items[i] : NULL;
}

const fm_tensor_info *fm_gguf_find_tensor(const fm_gguf *g, const char *name)
{
    return fm_tensor_list_find(&g->tensors, name);
}

size_t fm_gguf_n_keys(const fm_gguf *g)
{
    return g->n_keys;
}

const fm_gguf_value *fm_gguf_key(const fm_gguf *g, size_t i)
{
    return i < g->n_keys ? &g->keys[i] : NULL;
}

const fm_gguf_value *fm_gguf_find(const fm_gguf *g, const char *key)
{
    size_t i = fm_names_find(g->sorted_keys, g->n_keys, g->keys, fm_gguf_key_of, key);
    return i != FM_NO_NAME ? &g->keys[i] : NULL;
}

// ---- readings ----

static fm_status find(const fm_gguf *g, const char *key, const fm_gguf_value **out, fm_err *err)
{
    const fm_gguf_value *v = fm_gguf_find(g, key);
    if (!v)
        return fm_fail(err, FM_ERR_NOT_FOUND, "%s: key \"%s\" is missing", g->path, key);
    *out = v;
    return FM_OK;
}

static fm_status fail_kind(const fm_gguf *g, const fm_gguf_value *v, const char *wanted, fm_err *err)
{
    int64_t i;
    char found[48] = "";
    if (v->type != FM_GGUF_ARRAY && fm_gguf_value_i64(v, 0, &i))
        snprintf(found, sizeof found, " %" PRId64, i);
    return fm_fail(err, FM_ERR_VALUE, "%s: key \"%.200s\" must be %s, not %s%s", g->path, v->key, wanted,
                   fm_gguf_type_name(v->type), found);
}

fm_status fm_gguf_u64(const fm_gguf *g, const char *key, uint64_t *out, fm_err *err)
{
    const fm_gguf_value *v;
    fm_status status = find(g, key, &v, err);
    if (status)
        return status;
    bool good = v->type != FM_GGUF_ARRAY && v->type != FM_GGUF_BOOL && fm_gguf_value_u64(v, 0, out);
    return good ? FM_OK : fail_kind(g, v, "a whole number of at least 0", err);
}

fm_status fm_gguf_double(const fm_gguf *g, const char *key, double *out, fm_err *err)
{
    const fm_gguf_value *v;
    fm_status status = find(g, key, &v, err);
    if (status)
        return status;
    bool good = v->type != FM_GGUF_ARRAY && v->type != FM_GGUF_BOOL && fm_gguf_value_double(v, 0, out);
    return good ? FM_OK : fail_kind(g, v, "a number", err);
}

fm_status fm_gguf_bool(const fm_gguf *g, const char *key, bool *out, fm_err *err)
{
    const fm_gguf_value *v;
    fm_status status = find(g, key, &v, err);
    if (status)
        return status;
    if (v->type != FM_GGUF_BOOL)
        return fail_kind(g, v, "a boolean", err);
    *out = v->data[0] != 0;
    return FM_OK;
}

fm_status fm_gguf_string(const fm_gguf *g, const char *key, const char **out, size_t *n, fm_err *err)
{
    const fm_gguf_value *v;
    fm_status status = find(g, key, &v, err);
    if (status)
        return status;
    if (v->type != FM_GGUF_STRING)
        return fail_kind(g, v, "a string", err);
    *out = (const char *)v->data;
    *n = v->count;
    return FM_OK;
}

fm_status fm_gguf_opt_u64(const fm_gguf *g, const char *key, uint64_t *out, fm_err *err)
{
    return fm_gguf_find(g, key) ? fm_gguf_u64(g, key, out, err) : FM_OK;
}

fm_status fm_gguf_opt_double(const fm_gguf *g, const char *key, double *out, fm_err *err)
{
    return fm_gguf_find(g, key) ? fm_gguf_double(g, key, out, err) : FM_OK;
}

fm_status fm_gguf_opt_bool(const fm_gguf *g, const char *key, bool *out, fm_err *err)
{
    return fm_gguf_find(g, key) ? fm_gguf_bool(g, key, out, err) : FM_OK;
}

bool fm_gguf_string_is(const fm_gguf *g, const char *key, const char *text)
{
    const fm_gguf_value *v = fm_gguf_find(g, key);
    return v && v->type == FM_GGUF_STRING && v->count == strlen(text) && !memcmp(v->data, text, v->count);
}
