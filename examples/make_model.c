// Writes a small Llama-like model of random weights as one safetensors file: something to plan, quantize and inspect
// where no real model is at hand. The same bytes every time.
//
//   make_model OUT.safetensors [HIDDEN [LAYERS]]      (256 and 4; HIDDEN is a multiple of 64)
//
// Weights are near-normal with the spread that training starts from (0.02), in bfloat16; a few columns are outliers,
// twenty times as large, as in trained models. Source of the format: huggingface/safetensors, README ("Format").
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/buf.h"
#include "base/units.h"
#include "floodmark/status.h"

typedef struct {
    fm_buf header, data;
    uint64_t random;
} model;

// Near-normal, mean 0, variance 1: twelve uniform numbers less their mean (Irwin-Hall). Exact in every compiler: only
// integers are added.
static float normal(model *m)
{
    int64_t sum = 0;
    for (int i = 0; i < 12; i++) {
        m->random = m->random * 6364136223846793005u + 1442695040888963407u;
        sum += (int64_t)(m->random >> 40);
    }
    return (float)(sum - 12 * (INT64_C(1) << 23)) / (float)(1 << 24);
}

static uint16_t bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A tensor [rows, cols]; rows 0: a vector of ones, as norms start.
static void add(model *m, uint64_t rows, uint64_t cols, const char *layer, const char *name)
{
    uint64_t begin = m->data.size, n = rows ? rows * cols : cols;
    for (uint64_t i = 0; i < n; i++) {
        float x = rows ? normal(m) * 0.02f : 1;
        if (rows && i % cols % 97 == 13)
            x *= 20;
        fm_buf_add_u16(&m->data, bf16(x));
    }
    fm_buf_printf(&m->header, "%s\"%s%s.weight\":{\"dtype\":\"BF16\",\"shape\":[", m->header.size > 1 ? "," : "", layer,
                  name);
    if (rows)
        fm_buf_printf(&m->header, "%" PRIu64 ",", rows);
    fm_buf_printf(&m->header, "%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%zu]}", cols, begin, m->data.size);
}

static void fill(model *m, uint64_t hidden, uint64_t layers)
{
    uint64_t inner = hidden * 3, vocabulary = hidden * 16, kv = hidden / 4;
    fm_buf_add_text(&m->header, "{");
    add(m, vocabulary, hidden, "", "model.embed_tokens");
    for (uint64_t i = 0; i < layers; i++) {
        char layer[64];
        snprintf(layer, sizeof layer, "model.layers.%" PRIu64 ".", i);
        add(m, 0, hidden, layer, "input_layernorm");
        add(m, hidden, hidden, layer, "self_attn.q_proj");
        add(m, kv, hidden, layer, "self_attn.k_proj");
        add(m, kv, hidden, layer, "self_attn.v_proj");
        add(m, hidden, hidden, layer, "self_attn.o_proj");
        add(m, 0, hidden, layer, "post_attention_layernorm");
        add(m, inner, hidden, layer, "mlp.gate_proj");
        add(m, inner, hidden, layer, "mlp.up_proj");
        add(m, hidden, inner, layer, "mlp.down_proj");
    }
    add(m, 0, hidden, "", "model.norm");
    fm_buf_add_text(&m->header, ",\"__metadata__\":{\"format\":\"pt\"}}");
    while (m->header.size % 8)
        fm_buf_add_char(&m->header, ' ');
}

int main(int argc, char **argv)
{
    fm_err err = {0};
    model m = {.random = 20261129};
    uint64_t hidden = 256, layers = 4;
    fm_atomic_file *file = NULL;
    fm_buf length = {0};
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: make_model OUT.safetensors [HIDDEN [LAYERS]]\n");
        return 2;
    }
    fm_status status = argc > 2 ? fm_parse_u64(argv[2], 64, 8192, &hidden, &err) : FM_OK;
    if (status == FM_OK && argc > 3)
        status = fm_parse_u64(argv[3], 1, 200, &layers, &err);
    if (status == FM_OK) {
        fill(&m, hidden / 64 * 64, layers);
        fm_buf_add_u64(&length, m.header.size);
        status = fm_buf_check(&m.data, &err);
    }
    if (status == FM_OK)
        status = fm_buf_check(&m.header, &err);
    if (status == FM_OK)
        status = fm_atomic_file_create(argv[1], true, &file, &err);
    if (status == FM_OK)
        status = fm_atomic_file_append(file, length.data, length.size, &err);
    if (status == FM_OK)
        status = fm_atomic_file_append(file, m.header.data, m.header.size, &err);
    if (status == FM_OK)
        status = fm_atomic_file_append(file, m.data.data, m.data.size, &err);
    if (status == FM_OK)
        status = fm_atomic_file_commit(&file, NULL, &err);
    fm_atomic_file_abort(&file);
    fm_buf_reset(&length);
    fm_buf_reset(&m.header);
    fm_buf_reset(&m.data);
    if (status != FM_OK)
        fprintf(stderr, "make_model: %s\n", err.message);
    return status == FM_OK ? 0 : 1;
}
