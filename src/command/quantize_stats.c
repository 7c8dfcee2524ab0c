// The importance of a weight's columns: from llama-imatrix's file, or from activation statistics of our own evaluation:
// a safetensors file with, for a weight NAME of C columns, the tensor NAME.mean_square, F32 [C], the mean of each input's
// square over all tokens seen, and the metadata floodmark.activations = "1".
#include <math.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "command/quantize_job.h"
#include "floodmark/imatrix.h"

typedef struct {
    const char *name; // of the tensor in the file
    float *values;
    uint64_t n;
} entry;

struct fm_column_stats {
    fm_imatrix *imatrix;
    fm_weights *activations;
    entry *entries;
    size_t n_entries;
};

static fm_status load_activations(fm_column_stats *s, const char *path, fm_err *err)
{
    fm_status status = fm_weights_open(path, &s->activations, err);
    if (status)
        return status;
    const fm_safetensors *st = fm_weights_safetensors(s->activations);
    const char *mark = st ? fm_safetensors_metadata(st, "floodmark.activations") : NULL;
    if (!mark || strcmp(mark, "1") != 0)
        return fm_fail(err, FM_ERR_VALUE,
                       "%s: not activation statistics (metadata floodmark.activations = 1 is missing)", path);
    size_t n = fm_weights_n_tensors(s->activations);
    s->entries = fm_calloc(n + 1, sizeof *s->entries);
    if (!s->entries)
        return fm_fail_memory(err, "activation statistics");
    for (size_t i = 0; i < n; i++) {
        const fm_tensor_info *t = fm_weights_tensor(s->activations, i);
        entry *e = s->entries + i;
        if (t->type != FM_TENSOR_F32 || t->n_dims != 1)
            return fm_fail(err, FM_ERR_VALUE, "%s: tensor \"%s\" must be F32 of one dimension", path, t->name);
        if (!(e->values = fm_alloc(t->bytes)))
            return fm_fail_memory(err, "activation statistics");
        s->n_entries = i + 1;
        e->name = t->name;
        e->n = t->n_elems;
        if ((status = fm_weights_read(s->activations, i, 0, e->values, t->bytes, err)))
            return status;
        bool any = false;
        for (uint64_t c = 0; c < e->n; c++) {
            any |= e->values[c] > 0;
            if (!(e->values[c] >= 0 && e->values[c] < INFINITY))
                return fm_fail(err, FM_ERR_VALUE,
                               "%s: tensor \"%s\": value %llu is %g; mean squares are finite and not negative", path,
                               t->name, (unsigned long long)c, (double)e->values[c]);
        }
        for (uint64_t c = 0; c < e->n && !any; c++)
            e->values[c] = 1; // as for an importance matrix of zeros
    }
    return FM_OK;
}

fm_status fm_column_stats_open(const char *imatrix, const char *activations, fm_column_stats **out, fm_err *err)
{
    fm_column_stats *s = fm_calloc(1, sizeof *s);
    if (!s)
        return fm_fail_memory(err, "importance");
    fm_status status = imatrix ? fm_imatrix_read(imatrix, &s->imatrix, err) : load_activations(s, activations, err);
    if (status)
        fm_column_stats_destroy(s);
    else
        *out = s;
    return status;
}

void fm_column_stats_destroy(fm_column_stats *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_entries; i++)
        fm_free(s->entries[i].values);
    fm_free(s->entries);
    fm_imatrix_destroy(s->imatrix);
    fm_weights_destroy(s->activations);
    fm_free(s);
}

static fm_status wrong_width(const char *name, uint64_t cols, uint64_t n, fm_err *err)
{
    return fm_fail(err, FM_ERR_CONFLICT, "tensor \"%s\" has %llu columns, its importance %llu: of another model?", name,
                   (unsigned long long)cols, (unsigned long long)n);
}

fm_status fm_column_stats_find(const fm_column_stats *s, const char *name, uint64_t cols, const float **out,
                               uint64_t *n_mats, fm_err *err)
{
    *out = NULL;
    *n_mats = 1;
    if (s->imatrix) {
        const fm_imatrix_entry *e = fm_imatrix_find(s->imatrix, name);
        if (!e)
            return FM_OK;
        // the older form does not say how many matrices it has
        uint64_t n = e->n_mats * e->row_elems;
        if (n % cols || (e->n_mats > 1 && e->row_elems != cols))
            return wrong_width(name, cols, e->row_elems, err);
        *n_mats = n / cols;
        *out = e->values;
        return FM_OK;
    }
    size_t length = strlen(name);
    for (size_t i = 0; i < s->n_entries; i++)
        if (strncmp(s->entries[i].name, name, length) == 0 &&
            strcmp(s->entries[i].name + length, ".mean_square") == 0) {
            if (s->entries[i].n != cols)
                return wrong_width(name, cols, s->entries[i].n, err);
            *out = s->entries[i].values;
        }
    return FM_OK;
}
