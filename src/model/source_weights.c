// Models from weight files. A well-formed file always opens: without an architecture its tensors are what there is.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/checked.h"
#include "base/units.h"
#include "model/family.h"
#include "model/opened.h"
#include "model/parts.h"

// ---- tensors as parts ----

typedef struct {
    const fm_tensor_info *tensor;
    size_t unit; // length of the unit's name, a prefix of the tensor's
    size_t at;   // where it stood in the file
    uint32_t block;
    bool is_block;
} placed;

// A unit is the name up to and with its first all-digit component, else all but the last component.
static placed place(const fm_tensor_info *t, size_t at)
{
    placed p = {.tensor = t, .at = at};
    const char *start = t->name, *last = strrchr(t->name, '.');
    for (const char *dot; (dot = strchr(start, '.')); start = dot + 1) {
        size_t n = (size_t)(dot - start);
        if (n && n < 9 && strspn(start, "0123456789") == n) {
            p.unit = (size_t)(dot - t->name);
            p.block = (uint32_t)strtoul(start, NULL, 10);
            p.is_block = true;
            return p;
        }
    }
    p.unit = last && last > t->name ? (size_t)(last - t->name) : strlen(t->name);
    return p;
}

// Compares two prefixes with runs of digits by value, so that layer 10 follows layer 9.
static int natural(const char *a, size_t n, const char *b, size_t m)
{
    size_t i = 0, j = 0;
    while (i < n && j < m) {
        if (isdigit((unsigned char)a[i]) && isdigit((unsigned char)b[j])) {
            size_t x = i, y = j;
            while (x < n && isdigit((unsigned char)a[x]))
                x++;
            while (y < m && isdigit((unsigned char)b[y]))
                y++;
            while (i < x && a[i] == '0')
                i++;
            while (j < y && b[j] == '0')
                j++;
            if (x - i != y - j)
                return x - i < y - j ? -1 : 1;
            int c = memcmp(a + i, b + j, x - i);
            if (c)
                return c;
            i = x;
            j = y;
        } else if (a[i] != b[j]) {
            return (unsigned char)a[i] < (unsigned char)b[j] ? -1 : 1;
        } else {
            i++;
            j++;
        }
    }
    return n - i == m - j ? 0 : n - i < m - j ? -1 : 1;
}

static int by_unit(const void *pa, const void *pb)
{
    const placed *a = pa, *b = pb;
    int c = natural(a->tensor->name, a->unit, b->tensor->name, b->unit);
    if (!c && a->unit != b->unit) // "01" and "1" are two units
        c = a->unit < b->unit ? -1 : 1;
    if (!c)
        c = memcmp(a->tensor->name, b->tensor->name, a->unit);
    return c ? c : a->at < b->at ? -1 : a->at > b->at;
}

static fm_status take(fm_parts *parts, const fm_tensor_info *t, fm_err *err)
{
    fm_model_param p = {.name = fm_strdup(t->name),
                        .dtype = fm_tensor_type_of(t->type)->name,
                        .n_elems = t->n_elems,
                        .bytes = t->bytes,
                        .tied_to = -1,
                        .trainable = true};
    if (!p.name)
        return fm_fail_memory(err, "tensors of a file");
    p.n_dims = t->n_dims < FM_PARAM_MAX_DIMS ? t->n_dims : FM_PARAM_MAX_DIMS;
    for (uint32_t i = 0; i < p.n_dims; i++)
        p.dims[i] = t->dims[i];
    for (uint32_t i = p.n_dims; i < t->n_dims; i++)
        p.dims[p.n_dims - 1] *= t->dims[i]; // shapes of more dimensions than any model has: the rest as one
    fm_status status = fm_parts_take(parts, &p, err);
    fm_free((char *)p.name);
    return status;
}

fm_status fm_parts_of_weights(const fm_weights *weights, fm_parts *out, fm_err *err)
{
    size_t n = fm_weights_n_tensors(weights);
    fm_parts parts = {0};
    fm_status status = FM_OK;
    placed *list = fm_alloc_array(n, sizeof *list);
    if (!list)
        return fm_fail_memory(err, "tensors of a file");
    for (size_t i = 0; i < n; i++)
        list[i] = place(fm_weights_tensor(weights, i), i);
    qsort(list, n, sizeof *list, by_unit);
    for (size_t i = 0; i < n && status == FM_OK; i++) {
        const placed *p = &list[i], *q = i ? &list[i - 1] : NULL;
        bool same =
            q && q->unit == p->unit && q->is_block == p->is_block && !memcmp(q->tensor->name, p->tensor->name, p->unit);
        if (!same)
            status = fm_parts_unit(&parts, p->tensor->name, p->unit, p->is_block ? FM_UNIT_BLOCK : FM_UNIT_OTHER,
                                   p->block, err);
        if (status == FM_OK)
            status = take(&parts, p->tensor, err);
    }
    fm_free(list);
    if (status == FM_OK)
        *out = parts;
    else
        fm_parts_reset(&parts);
    return status;
}

// ---- the architecture behind the tensors ----

static bool ends_in_one_of(const char *name, const char *const *ends, size_t n_ends)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n_ends; i++) {
        size_t m = strlen(ends[i]);
        if (n >= m && !strcmp(name + n - m, ends[i]))
            return true;
    }
    return false;
}

// Tensors that files hold beside parameters: rotary tables, masks, the router's correction (a buffer of the module).
static bool is_buffer(const char *name)
{
    static const char *const ends[] = {"rope_freqs.weight",   "rope_factors_long.weight", "rope_factors_short.weight",
                                       "rotary_emb.inv_freq", "attn.masked_bias",         "attention.masked_bias",
                                       "exp_probs_b.bias",    "e_score_correction_bias",  "attention.bias"};
    return ends_in_one_of(name, ends, sizeof ends / sizeof *ends);
}

// Codes that share an element, and scales, are elements of the file but not parameters of the model.
static fm_status note_codes(fm_model *m, fm_err *err)
{
    static const char *const ends[] = {"weight_packed", "weight_scale",  "weight_scale_inv", ".qweight",
                                       ".fm_codes",     "weight.absmax", "weight.SCB"};
    for (size_t i = 0; i < m->stored.n_params; i++)
        if (ends_in_one_of(m->stored.params[i].name, ends, sizeof ends / sizeof *ends))
            return fm_model_add_note(m, "holds quantized weights: counted is what is stored, codes in packs and scales "
                                        "included, not the model's parameters")
                       ? FM_OK
                       : fm_fail_memory(err, "a model");
    return FM_OK;
}

static uint64_t parameters_stored(const fm_parts *stored)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < stored->n_params; i++)
        sum += is_buffer(stored->params[i].name) ? 0 : stored->params[i].n_elems;
    return sum;
}

// Reads a configuration and keeps it when it describes exactly what the file stores. A configuration that cannot be read, or
// describes something else, becomes a note: the file is listed all the same.
static fm_status try_config(fm_model *m, const fm_node *config, const char *said_by, const fm_model_options *options,
                            fm_err *err)
{
    fm_arch arch = {0};
    fm_parts declared = {0};
    char a[FM_UNITS_TEXT_BYTES], b[FM_UNITS_TEXT_BYTES];
    fm_err why;
    uint64_t stored = parameters_stored(&m->stored);
    fm_status status = fm_arch_read(config, m->name, 0, &arch, &why);
    if (status == FM_OK)
        status = fm_declare(&arch, &declared, &why);
    if (status == FM_ERR_NO_MEMORY)
        goto out_of_memory;
    bool fits = status == FM_OK && declared.n_elems == stored;
    bool noted = true;
    if (status != FM_OK)
        noted = fm_model_add_note(m, "only its tensors are counted: %s", why.message);
    else if (!fits)
        noted = fm_model_add_note(
            m, "only its tensors are counted: by %s there would be %s parameters, the file holds %s (%s)", said_by,
            fm_format_count(a, declared.n_elems), fm_format_count(b, stored),
            stored < declared.n_elems ? "tensors are missing" : "there are others besides");
    fm_parts_reset(&declared);
    if (!noted)
        goto out_of_memory;
    if (fits && options->layers && options->layers != arch.n_layers) {
        fm_arch_reset(&arch);
        status = fm_arch_read(config, m->name, options->layers, &arch, err);
        if (status != FM_OK)
            return status;
    }
    status = fits ? fm_model_take_arch(m, &arch, err) : FM_OK;
    fm_arch_reset(&arch);
    return status;
out_of_memory:
    fm_arch_reset(&arch);
    fm_parts_reset(&declared);
    return fm_fail_memory(err, "a model");
}

static fm_status arch_of_gguf(fm_model *m, const fm_gguf *gguf, const fm_model_options *options, fm_err *err)
{
    fm_buf json = {0};
    fm_tree *tree = NULL;
    fm_err why;
    fm_status status = fm_gguf_config(gguf, &json, &why);
    if (status == FM_OK)
        status = fm_tree_parse_json(fm_buf_text(&json), json.size, m->path, &tree, &why);
    if (status == FM_ERR_NO_MEMORY)
        status = fm_fail_memory(err, "a model");
    else if (status != FM_OK)
        status = fm_model_add_note(m, "only its tensors are counted: %s", why.message) ? FM_OK
                                                                                       : fm_fail_memory(err, "a model");
    else
        status = try_config(m, fm_tree_root(tree), "its keys", options, err);
    fm_tree_destroy(tree);
    fm_buf_reset(&json);
    return status;
}

// safetensors name no architecture; a config.json beside them does.
static fm_status arch_beside(fm_model *m, const fm_model_options *options, fm_err *err)
{
    struct stat st;
    fm_buf path = {0};
    fm_tree *tree = NULL;
    fm_err why;
    const char *slash = strrchr(m->path, '/');
    bool folder = stat(m->path, &st) == 0 && S_ISDIR(st.st_mode);
    if (folder)
        fm_buf_printf(&path, "%s/config.json", m->path);
    else
        fm_buf_printf(&path, "%.*sconfig.json", slash ? (int)(slash - m->path + 1) : 0, m->path);
    fm_status status = fm_buf_check(&path, err);
    if (status == FM_OK && stat(fm_buf_text(&path), &st) != 0) {
        if (!fm_model_add_note(
                m, "no config.json lies beside it, so the operations are unknown: only its tensors are counted"))
            status = fm_fail_memory(err, "a model");
    } else if (status == FM_OK) {
        status = fm_tree_read(fm_buf_text(&path), &tree, &why);
        if (status == FM_OK)
            status = try_config(m, fm_tree_root(tree), "config.json", options, err);
        else
            status = fm_model_add_note(m, "only its tensors are counted: %s", why.message)
                         ? FM_OK
                         : fm_fail_memory(err, "a model");
    }
    fm_tree_destroy(tree);
    fm_buf_reset(&path);
    return status;
}

static fm_status names_of(fm_model *m, const char *path, fm_err *err)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    m->path = fm_strndup(path, n);
    const char *slash = m->path ? strrchr(m->path, '/') : NULL;
    m->name = m->path ? fm_strdup(slash && slash[1] ? slash + 1 : m->path) : NULL;
    return m->name ? FM_OK : fm_fail_memory(err, "a model");
}

static bool called_gguf(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && !strcasecmp(path + n - 5, ".gguf");
}

fm_status fm_model_from_weights(fm_model *m, const char *path, const fm_model_options *options, fm_err *err)
{
    fm_weights *weights = NULL;
    fm_status status = FM_OK;
    if (called_gguf(path)) { // a file of that name that does not start with "GGUF" is a bad GGUF, not a bad safetensors
        fm_gguf *probe = NULL;
        status = fm_gguf_open(path, &probe, err);
        fm_gguf_destroy(probe);
    }
    if (status == FM_OK)
        status = fm_weights_open(path, &weights, err);
    if (status == FM_OK)
        status = names_of(m, path, err);
    if (status == FM_OK)
        status = fm_parts_of_weights(weights, &m->stored, err);
    if (status != FM_OK)
        goto done;
    const fm_gguf *gguf = fm_weights_gguf(weights);
    m->source = gguf ? FM_MODEL_GGUF : FM_MODEL_SAFETENSORS;
    status = gguf ? arch_of_gguf(m, gguf, options, err) : arch_beside(m, options, err);
    if (status == FM_OK && !m->has_arch)
        status = note_codes(m, err);
    if (status == FM_OK && !m->has_arch) {
        m->parts = m->stored;
        m->stored = (fm_parts){0};
    }
done:
    fm_weights_destroy(weights);
    return status;
}
