// A file that is accepted has every tensor inside it and every value readable to its last byte.
#include <stdlib.h>
#include <string.h>
#include "floodmark/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void look_into(const fm_gguf_value *v)
{
    const uint8_t *cursor = v->data;
    const char *text;
    size_t n;
    uint64_t u, strings = 0;
    int64_t i;
    double d;
    volatile unsigned char seen = 0; // every byte is touched: a sanitizer sees one that is not there
    for (uint64_t k = 0; k < v->count && k < 1000; k++) {
        fm_gguf_value_u64(v, k, &u);
        fm_gguf_value_i64(v, k, &i);
        fm_gguf_value_double(v, k, &d);
    }
    for (uint64_t k = 0; k < v->raw_bytes; k++)
        seen = v->raw[k];
    while (fm_gguf_value_next_string(v, &cursor, &text, &n)) {
        demand((const uint8_t *)text + n <= v->data + v->bytes);
        strings++;
    }
    if (v->type == FM_GGUF_ARRAY && v->elem == FM_GGUF_STRING)
        demand(strings == v->count);
    demand(v->raw + v->raw_bytes == v->data + v->bytes);
    (void)seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fm_gguf *g = NULL;
    fm_err err = {0};
    fm_status status = fm_gguf_parse(data, size, "fuzz", &g, &err);
    demand(!status == !!g);
    demand(!status || (err.code == status && err.message[0]));
    if (!g)
        return 0;
    for (size_t i = 0; i < fm_gguf_n_keys(g); i++) {
        const fm_gguf_value *v = fm_gguf_key(g, i);
        demand(fm_gguf_find(g, v->key) == v);
        look_into(v);
    }
    for (size_t i = 0; i < fm_gguf_n_tensors(g); i++) {
        const fm_tensor_info *t = fm_gguf_tensor(g, i);
        demand(t->offset <= size && t->bytes <= size - t->offset && t->offset % 8 == 0);
        demand(fm_gguf_find_tensor(g, t->name) == t);
    }
    fm_gguf_destroy(g);
    return 0;
}
