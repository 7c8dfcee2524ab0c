// The golden tensors of tests/golden/quant_blocks (see the README there): a private reader, enough for those files.
#ifndef FM_TEST_QUANTIZE_BLOCKS_GOLDEN_H
#define FM_TEST_QUANTIZE_BLOCKS_GOLDEN_H
#include "testing.h"

typedef struct {
    const unsigned char *file; // the whole file
    char *header;              // its JSON, terminated
    size_t data;               // where the tensors begin
} golden_file;

typedef struct {
    size_t rows, cols;
    const void *bytes;
} golden_tensor;

static inline char *golden_path(const char *name, char path[4096])
{
    const char *root = getenv("FLOODMARK_SOURCE");
    snprintf(path, 4096, "%s/tests/golden/quant_blocks/%s", root ? root : ".", name);
    return path;
}

static inline golden_file golden_open(const char *name)
{
    char path[4096];
    FILE *f = fopen(golden_path(name, path), "rb");
    if (!f)
        fail_msg("%s: cannot be read", path);
    unsigned char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    size_t n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    uint64_t header;
    assert_true(n > 8 && n < 1 << 20);
    memcpy(&header, bytes, 8);
    assert_true(header < n - 8);
    golden_file g = {bytes, strndup((const char *)bytes + 8, header), 8 + header};
    return g;
}

static inline void golden_close(golden_file *g)
{
    free((void *)(uintptr_t)g->file);
    free(g->header);
}

// False when there is no such tensor.
static inline bool golden_find(const golden_file *g, const char *name, golden_tensor *t)
{
    char key[160], type[8];
    size_t begin, end;
    snprintf(key, sizeof key, "\"%s\":{", name);
    const char *at = strstr(g->header, key);
    if (!at)
        return false;
    at += strlen(key);
    t->rows = 1;
    if (sscanf(at, "\"dtype\":\"%7[A-Z0-9]\",\"shape\":[%zu,%zu],\"data_offsets\":[%zu,%zu]", type, &t->rows, &t->cols,
               &begin, &end) != 5) {
        t->rows = 1;
        assert_int_equal(sscanf(at, "\"dtype\":\"%7[A-Z0-9]\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]", type,
                                &t->cols, &begin, &end),
                         4);
    }
    t->bytes = g->file + g->data + begin;
    return true;
}
#endif
