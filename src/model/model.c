#include "floodmark/model.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/units.h"
#include "model/family.h"
#include "model/opened.h"
#include "model/sized.h"

bool fm_model_add_note(fm_model *m, const char *format, ...)
{
    va_list args;
    fm_buf text = {0};
    if (m->n_notes == FM_MODEL_NOTES)
        return true;
    va_start(args, format);
    fm_buf_vprintf(&text, format, args);
    va_end(args);
    size_t n;
    m->notes[m->n_notes] = text.failed ? NULL : fm_buf_take(&text, &n);
    fm_buf_reset(&text);
    return m->notes[m->n_notes] && ++m->n_notes;
}

fm_status fm_model_take_arch(fm_model *m, fm_arch *arch, fm_err *err)
{
    fm_status status = fm_declare(arch, &m->parts, err);
    if (status != FM_OK)
        return status;
    m->arch = *arch;
    m->has_arch = true;
    *arch = (fm_arch){0};
    return FM_OK;
}

bool fm_is_size(const char *text, uint64_t *n_params)
{
    uint64_t n;
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    if (fm_parse_count(text, &n, NULL) == FM_OK) {
        *n_params = n;
        return true;
    }
    if (!strpbrk(text, "eE") || strpbrk(text, "xX"))
        return false;
    double v = strtod(text, &end); // "7e9": exact as long as a double holds it
    if (*end || !(v >= 1 && v <= 1e18) || v != (double)(uint64_t)v)
        return false;
    *n_params = (uint64_t)v;
    return true;
}

fm_status fm_model_from_size(fm_model *m, const char *text, uint64_t n_params, const fm_model_options *options,
                             fm_err *err)
{
    fm_arch arch;
    char count[FM_UNITS_TEXT_BYTES], rest[FM_UNITS_TEXT_BYTES];
    fm_status status = fm_arch_sized(text, n_params, options->layers, &arch, err);
    if (status == FM_OK)
        status = fm_model_take_arch(m, &arch, err);
    if (status != FM_OK)
        return status;
    m->source = FM_MODEL_SIZE;
    m->name = fm_strdup(text);
    m->path = fm_strdup("");
    const fm_arch *a = &m->arch;
    bool noted =
        fm_model_add_note(m,
                          "a Llama-like shape of %s parameters: width %llu, %u blocks, %u heads of %u (%u of keys and "
                          "values), MLP %llu, vocabulary %llu%s%s%s",
                          fm_format_count(count, n_params), (unsigned long long)a->hidden, a->n_layers, a->n_heads,
                          a->head_dim, a->n_kv_heads, (unsigned long long)a->intermediate, (unsigned long long)a->vocab,
                          a->remainder ? "; the " : "", a->remainder ? fm_format_count(rest, a->remainder) : "",
                          a->remainder ? " left over are one vector, model.remainder" : "");
    return noted && m->name && m->path ? FM_OK : fm_fail_memory(err, "a model");
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcasecmp(text + n - m, end);
}

static bool holds(const char *folder, const char *name)
{
    struct stat st;
    fm_buf path = {0};
    fm_buf_printf(&path, "%s/%s", folder, name);
    bool there = !path.failed && stat(fm_buf_text(&path), &st) == 0 && S_ISREG(st.st_mode);
    fm_buf_reset(&path);
    return there;
}

// A JSON file that is no index is a configuration, whatever it is called; so is any other file that starts like an object.
static bool is_config(const char *path)
{
    if (ends_with(path, ".json"))
        return !ends_with(path, ".index.json");
    if (ends_with(path, ".safetensors") || ends_with(path, ".gguf"))
        return false;
    FILE *f = fopen(path, "rb");
    int c = f ? fgetc(f) : EOF;
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t')
        c = fgetc(f);
    if (f)
        fclose(f);
    return c == '{';
}

static fm_status open_path(fm_model *m, const char *spec, bool folder, const fm_model_options *options, fm_err *err)
{
    if (!folder)
        return is_config(spec) ? fm_model_from_config(m, spec, options, err)
                               : fm_model_from_weights(m, spec, options, err);
    if (!holds(spec, "config.json"))
        return fm_model_from_weights(m, spec, options, err);
    fm_buf path = {0};
    fm_buf_printf(&path, "%s%sconfig.json", spec, ends_with(spec, "/") ? "" : "/");
    fm_status status = fm_buf_check(&path, err);
    if (status == FM_OK)
        status = fm_model_from_config(m, fm_buf_text(&path), options, err);
    fm_buf_reset(&path);
    return status;
}

static fm_status open_spec(fm_model *m, const char *spec, const fm_model_options *options, fm_err *err)
{
    struct stat st;
    uint64_t n;
    if (!*spec)
        return fm_fail(err, FM_ERR_USAGE,
                       "no model given: a config.json or its folder, a weight file, a name of the catalogue, or a size "
                       "such as 7B");
    if (stat(spec, &st) == 0)
        return open_path(m, spec, S_ISDIR(st.st_mode), options, err);
    if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
        return fm_fail(err, FM_ERR_IO, "%s: %s; check the path and its permissions", spec, strerror(errno));
    if (fm_is_size(spec, &n))
        return fm_model_from_size(m, spec, n, options, err);
    return fm_model_from_name(m, spec, options, err);
}

fm_status fm_model_open(const char *spec, const fm_model_options *options, fm_model **out, fm_err *err)
{
    static const fm_model_options plain;
    fm_err own = {0};
    options = options ? options : &plain;
    err = err ? err : &own;
    if (options->layers > 1 << 20)
        return fm_fail(err, FM_ERR_VALUE, "%u layers are past the %d that are allowed", options->layers, 1 << 20);
    fm_model *m = fm_calloc(1, sizeof *m);
    if (!m)
        return fm_fail_memory(err, "a model");
    fm_status status = open_spec(m, spec, options, err);
    if (status != FM_OK) {
        fm_model_destroy(m);
        return status;
    }
    *out = m;
    return FM_OK;
}

void fm_model_destroy(fm_model *m)
{
    if (!m)
        return;
    fm_free(m->name);
    fm_free(m->path);
    fm_arch_reset(&m->arch);
    fm_parts_reset(&m->parts);
    fm_parts_reset(&m->stored);
    for (size_t i = 0; i < m->n_notes; i++)
        fm_free(m->notes[i]);
    fm_free(m);
}

const char *fm_model_name(const fm_model *m)
{
    return m->name;
}
fm_model_source fm_model_source_of(const fm_model *m)
{
    return m->source;
}
const char *fm_model_path(const fm_model *m)
{
    return m->path;
}
const fm_arch *fm_model_arch(const fm_model *m)
{
    return m->has_arch ? &m->arch : NULL;
}
const char *fm_model_family(const fm_model *m)
{
    return m->has_arch ? m->arch.family->title : "";
}
uint64_t fm_model_n_params(const fm_model *m)
{
    return m->parts.n_elems + m->parts.n_counted;
}
uint64_t fm_model_n_trained(const fm_model *m)
{
    return m->parts.n_elems;
}
uint64_t fm_model_bytes(const fm_model *m)
{
    return m->parts.bytes;
}
size_t fm_model_n_units(const fm_model *m)
{
    return m->parts.n_units;
}
const fm_model_unit *fm_model_unit_at(const fm_model *m, size_t i)
{
    return i < m->parts.n_units ? &m->parts.units[i] : NULL;
}
size_t fm_model_n_tensors(const fm_model *m)
{
    return m->parts.n_params;
}
const fm_model_param *fm_model_param_at(const fm_model *m, size_t i)
{
    return i < m->parts.n_params ? &m->parts.params[i] : NULL;
}
size_t fm_model_n_buffers(const fm_model *m)
{
    return m->parts.n_buffers;
}
const fm_model_buffer *fm_model_buffer_at(const fm_model *m, size_t i)
{
    return i < m->parts.n_buffers ? &m->parts.buffers[i] : NULL;
}
size_t fm_model_n_notes(const fm_model *m)
{
    return m->n_notes;
}
const char *fm_model_note(const fm_model *m, size_t i)
{
    return i < m->n_notes ? m->notes[i] : NULL;
}
