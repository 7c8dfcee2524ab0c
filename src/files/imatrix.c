#include "floodmark/imatrix.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/alloc.h"
#include "base/utf8.h"
#include "files/arena.h"
#include "files/endian.h"
#include "files/names.h"
#include "files/slurp.h"
#include "floodmark/gguf.h"

// The largest known (a mixture of many experts) has 300 MB.
#define MAX_BYTES ((uint64_t)4 << 30)

struct fm_imatrix {
    fm_arena arena;
    fm_imatrix_entry *entries;
    size_t n, capacity;
    size_t *sorted;
    uint64_t n_chunks;
    const char *dataset;
};

static float load_f32(const uint8_t *p)
{
    uint32_t bits = fm_load_u32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// ---- what both forms share ----

static fm_status add_entry(fm_imatrix *im, const char *name, size_t n_name, uint64_t row_elems, uint64_t n_mats,
                           const float *values, fm_err *err)
{
    fm_imatrix_entry *grown = fm_grow(im->entries, &im->capacity, im->n, sizeof *grown);
    if (!grown)
        return fm_fail_memory(err, "the importance matrix");
    im->entries = grown;
    const char *copy = fm_arena_text(&im->arena, name, n_name);
    if (!copy)
        return fm_fail_memory(err, "the importance matrix");
    grown[im->n++] = (fm_imatrix_entry){copy, row_elems, n_mats, values};
    return FM_OK;
}

// Divides sums by a count into mean squares; a matrix that nothing met weighs all columns alike.
static fm_status fill_means(const char *file, const char *name, const uint8_t *sums, uint64_t n, float count,
                            float *out, fm_err *err)
{
    if (!(count >= 0) || isinf(count))
        return fm_fail(err, FM_ERR_VALUE, "%s: \"%.100s\" has a count of %g; measure the matrix again", file, name,
                       (double)count);
    bool any = false;
    for (uint64_t i = 0; i < n; i++) {
        float sum = load_f32(sums + 4 * i), mean = count > 0 ? sum / count : 1;
        if (!(sum >= 0) || isinf(mean))
            return fm_fail(err, FM_ERR_VALUE,
                           "%s: \"%.100s\": value %" PRIu64 " is %g, not a mean square; measure the matrix again", file,
                           name, i, (double)sum);
        out[i] = mean;
        any |= mean > 0;
    }
    // Zeros alone say nothing of which column matters; as weights they would make every value as good as zero.
    for (uint64_t i = 0; i < n && !any; i++)
        out[i] = 1;
    return FM_OK;
}

static const char *name_of(const void *entries, size_t i)
{
    return ((const fm_imatrix_entry *)entries)[i].name;
}

static fm_status seal(fm_imatrix *im, const char *file, fm_err *err)
{
    if (!(im->sorted = fm_alloc_array(im->n, sizeof *im->sorted)))
        return fm_fail_memory(err, "the importance matrix");
    size_t twice = fm_names_sort(im->sorted, im->n, im->entries, name_of);
    if (twice != FM_NO_NAME)
        return fm_fail(err, FM_ERR_CONFLICT, "%s: \"%.100s\" is there twice", file, im->entries[twice].name);
    return FM_OK;
}

// ---- the GGUF form ----

static bool cut_suffix(const char *name, const char *suffix, size_t *stem)
{
    size_t n = strlen(name), m = strlen(suffix);
    if (n <= m || strcmp(name + n - m, suffix) != 0)
        return false;
    *stem = n - m;
    return true;
}

static const fm_tensor_info *find_counts(const fm_gguf *g, const char *name, size_t stem)
{
    char counts[80];
    static const char suffix[] = ".counts";
    if (stem + sizeof suffix > sizeof counts)
        return NULL;
    memcpy(counts, name, stem);
    memcpy(counts + stem, suffix, sizeof suffix);
    return fm_gguf_find_tensor(g, counts);
}

static fm_status add_sums(fm_imatrix *im, const fm_gguf *g, const uint8_t *bytes, const fm_tensor_info *sums,
                          size_t stem, fm_err *err)
{
    const char *file = fm_gguf_path(g);
    const fm_tensor_info *counts = find_counts(g, sums->name, stem);
    if (!counts)
        return fm_fail(err, FM_ERR_VALUE, "%s: \"%s\" has no .counts beside it; not an importance matrix?", file,
                       sums->name);
    if (sums->type != FM_TENSOR_F32 || counts->type != FM_TENSOR_F32)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "%s: \"%s\" and its counts must be F32", file, sums->name);
    uint64_t n_mats = counts->n_elems, row = n_mats ? sums->n_elems / n_mats : 0;
    if (!row || sums->n_elems % n_mats)
        return fm_fail(err, FM_ERR_CONFLICT, "%s: \"%s\": %" PRIu64 " sums do not divide by %" PRIu64 " counts", file,
                       sums->name, sums->n_elems, n_mats);
    float *values = fm_arena_array(&im->arena, sums->n_elems, sizeof *values);
    if (!values)
        return fm_fail_memory(err, "the importance matrix");
    fm_status status = FM_OK;
    for (uint64_t i = 0; !status && i < n_mats; i++)
        status = fill_means(file, sums->name, bytes + sums->offset + 4 * i * row, row,
                            load_f32(bytes + counts->offset + 4 * i), values + i * row, err);
    return status ? status : add_entry(im, sums->name, stem, row, n_mats, values, err);
}

static fm_status read_keys(fm_imatrix *im, const fm_gguf *g, fm_err *err)
{
    const fm_gguf_value *datasets = fm_gguf_find(g, "imatrix.datasets");
    const uint8_t *cursor = datasets ? datasets->data : NULL;
    const char *text;
    size_t n;
    fm_status status = fm_gguf_opt_u64(g, "imatrix.chunk_count", &im->n_chunks, err);
    if (status || !datasets || !fm_gguf_value_next_string(datasets, &cursor, &text, &n))
        return status;
    im->dataset = fm_arena_text(&im->arena, text, n);
    return im->dataset ? FM_OK : fm_fail_memory(err, "the importance matrix");
}

static fm_status read_gguf(fm_imatrix *im, const uint8_t *bytes, size_t n, const char *name, fm_err *err)
{
    fm_gguf *g = NULL;
    size_t stem;
    fm_status status = fm_gguf_parse(bytes, n, name, &g, err);
    if (status)
        return status;
    if (!fm_gguf_string_is(g, "general.type", "imatrix"))
        status = fm_fail(err, FM_ERR_VALUE, "%s: general.type is not \"imatrix\"; is this a model?", name);
    status = status ? status : read_keys(im, g, err);
    for (size_t i = 0; !status && i < fm_gguf_n_tensors(g); i++)
        if (cut_suffix(fm_gguf_tensor(g, i)->name, ".in_sum2", &stem))
            status = add_sums(im, g, bytes, fm_gguf_tensor(g, i), stem, err);
    if (!status && !im->n)
        status = fm_fail(err, FM_ERR_VALUE, "%s: holds no *.in_sum2; not an importance matrix?", name);
    fm_gguf_destroy(g);
    return status;
}

// ---- the older form ----

typedef struct {
    const uint8_t *bytes;
    size_t n, at;
    const char *name;
} cursor;

static fm_status take_count(cursor *c, int64_t least, uint32_t *out, fm_err *err)
{
    if (c->n - c->at < 4)
        return fm_fail_at(err, FM_ERR_SYNTAX, c->at, 0, "%s: byte %zu: the file ends inside a number (truncated?)",
                          c->name, c->at);
    int32_t v = (int32_t)fm_load_u32(c->bytes + c->at);
    if (v < least)
        return fm_fail_at(err, FM_ERR_VALUE, c->at, 0, "%s: byte %zu: a count of %d; not an importance matrix?",
                          c->name, c->at, v);
    c->at += 4;
    *out = (uint32_t)v;
    return FM_OK;
}

static fm_status take_bytes(cursor *c, uint64_t n, const char *what, const uint8_t **out, fm_err *err)
{
    if (n > c->n - c->at)
        return fm_fail_at(err, FM_ERR_SYNTAX, c->at, 0, "%s: byte %zu: the file ends inside %s (truncated?)", c->name,
                          c->at, what);
    *out = c->bytes + c->at;
    c->at += n;
    return FM_OK;
}

static fm_status read_legacy_entry(fm_imatrix *im, cursor *c, fm_err *err)
{
    uint32_t n_name, calls, n_values;
    const uint8_t *name, *sums;
    fm_status status = take_count(c, 1, &n_name, err);
    status = status ? status : take_bytes(c, n_name, "a name", &name, err);
    if (!status && (!fm_utf8_valid((const char *)name, n_name) || memchr(name, 0, n_name)))
        status = fm_fail_at(err, FM_ERR_VALUE, c->at, 0,
                            "%s: byte %zu: a name that is not text; not an importance matrix?", c->name, c->at);
    status = status ? status : take_count(c, 0, &calls, err);
    status = status ? status : take_count(c, 1, &n_values, err);
    status = status ? status : take_bytes(c, (uint64_t)n_values * 4, "values", &sums, err);
    if (status)
        return status;
    float *values = fm_arena_array(&im->arena, n_values, sizeof *values);
    if (!values)
        return fm_fail_memory(err, "the importance matrix");
    char shown[104] = "";
    memcpy(shown, name, n_name < 100 ? n_name : 100);
    // Without calls the sums stand for themselves.
    status = fill_means(c->name, shown, sums, n_values, calls ? (float)calls : 1, values, err);
    return status ? status : add_entry(im, (const char *)name, n_name, n_values, 1, values, err);
}

static fm_status read_legacy(fm_imatrix *im, const uint8_t *bytes, size_t n, const char *name, fm_err *err)
{
    cursor c = {bytes, n, 0, name};
    uint32_t n_entries = 0, n_chunks = 0, n_dataset = 0;
    const uint8_t *dataset;
    fm_status status = take_count(&c, 1, &n_entries, err);
    for (uint32_t i = 0; !status && i < n_entries; i++)
        status = read_legacy_entry(im, &c, err);
    if (status || c.at == n)
        return status;
    status = take_count(&c, 0, &n_chunks, err);
    im->n_chunks = n_chunks;
    if (status || c.at == n)
        return status;
    status = take_count(&c, 0, &n_dataset, err);
    status = status ? status : take_bytes(&c, n_dataset, "the name of the data set", &dataset, err);
    if (status)
        return status;
    im->dataset = fm_arena_text(&im->arena, (const char *)dataset, n_dataset);
    return im->dataset ? FM_OK : fm_fail_memory(err, "the importance matrix");
}

// ---- the door ----

fm_status fm_imatrix_parse(const void *bytes, size_t n, const char *name, fm_imatrix **out, fm_err *err)
{
    fm_imatrix *im = fm_calloc(1, sizeof *im);
    if (!im)
        return fm_fail_memory(err, name);
    im->dataset = "";
    bool is_gguf = n >= 4 && !memcmp(bytes, "GGUF", 4);
    fm_status status = (is_gguf ? read_gguf : read_legacy)(im, bytes, n, name, err);
    status = status ? status : seal(im, name, err);
    if (status)
        fm_imatrix_destroy(im);
    else
        *out = im;
    return status;
}

fm_status fm_imatrix_read(const char *path, fm_imatrix **out, fm_err *err)
{
    fm_buf bytes = {0};
    fm_status status = fm_slurp(path, MAX_BYTES, &bytes, err);
    status = status ? status : fm_imatrix_parse(fm_buf_text(&bytes), bytes.size, path, out, err);
    fm_buf_reset(&bytes);
    return status;
}

void fm_imatrix_destroy(fm_imatrix *im)
{
    if (!im)
        return;
    fm_arena_reset(&im->arena);
    fm_free(im->entries);
    fm_free(im->sorted);
    fm_free(im);
}

size_t fm_imatrix_n_entries(const fm_imatrix *im)
{
    return im->n;
}

const fm_imatrix_entry *fm_imatrix_entry_at(const fm_imatrix *im, size_t i)
{
    return i < im->n ? &im->entries[i] : NULL;
}

const fm_imatrix_entry *fm_imatrix_find(const fm_imatrix *im, const char *weight)
{
    size_t i = fm_names_find(im->sorted, im->n, im->entries, name_of, weight);
    return i != FM_NO_NAME ? &im->entries[i] : NULL;
}

uint64_t fm_imatrix_n_chunks(const fm_imatrix *im)
{
    return im->n_chunks;
}

const char *fm_imatrix_dataset(const fm_imatrix *im)
{
    return im->dataset;
}
