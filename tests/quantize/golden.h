// Reads the safetensors fixtures with jansson alone, so that these tests do not lean on the reader of the files room.
#ifndef TEST_QUANTIZE_GOLDEN_H
#define TEST_QUANTIZE_GOLDEN_H
#include <jansson.h>
#include <math.h>
#include "testing.h"

typedef struct {
    json_t *header;
    uint8_t *bytes, *data;
} golden_file;

typedef struct {
    const void *data;
    size_t n, rows, cols; // rows x cols = n; a vector is one row
} golden_tensor;

static inline golden_file golden_open(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/golden/quant/%s", getenv("FLOODMARK_SHARED"), name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    golden_file g = {.bytes = malloc(size)};
    assert_int_equal(fread(g.bytes, 1, size, f), size);
    fclose(f);
    uint64_t n;
    memcpy(&n, g.bytes, 8);
    g.header = json_loadb((char *)g.bytes + 8, n, 0, NULL);
    assert_non_null(g.header);
    g.data = g.bytes + 8 + n;
    return g;
}

static inline void golden_close(golden_file *g)
{
    json_decref(g->header);
    free(g->bytes);
}

static inline bool golden_find(const golden_file *g, const char *name, golden_tensor *t)
{
    json_t *entry = json_object_get(g->header, name);
    if (!entry)
        return false;
    json_t *shape = json_object_get(entry, "shape");
    t->data = g->data + json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    t->n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        t->n *= (size_t)json_integer_value(json_array_get(shape, i));
    t->cols =
        json_array_size(shape) ? (size_t)json_integer_value(json_array_get(shape, json_array_size(shape) - 1)) : 1;
    t->rows = t->cols ? t->n / t->cols : 0;
    return true;
}

static inline golden_tensor golden_get(const golden_file *g, const char *format, ...) FM_PRINTF(2, 3);
static inline golden_tensor golden_get(const golden_file *g, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    golden_tensor t = {0};
    if (!golden_find(g, name, &t))
        fail_msg("the fixture has no %s", name);
    return t;
}

// A copy that is aligned for floats; freed by the caller.
static inline void *golden_copy(golden_tensor t, size_t size)
{
    void *p = malloc(t.n * size + 1);
    memcpy(p, t.data, t.n * size);
    return p;
}
#endif
