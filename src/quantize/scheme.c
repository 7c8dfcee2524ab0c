#include "floodmark/scheme.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    fm_grid_kind kind;
    unsigned bits;
} grids[] = {
#define ROW(NAME, name, kind, bits) {name, FM_GRID_KIND_##kind, bits},
    FM_GRID_LIST(ROW)
#undef ROW
};
#define ROW(NAME, name) name,
static const char *const granularities[] = {FM_GRANULARITY_LIST(ROW)};
static const char *const scales[] = {FM_SCALE_LIST(ROW)};
static const char *const e8m0_modes[] = {FM_E8M0_MODE_LIST(ROW)};
static const char *const calibrations[] = {FM_CALIBRATION_LIST(ROW)};
static const char *const layouts[] = {FM_LAYOUT_LIST(ROW)};
#undef ROW

const char *fm_grid_name(fm_grid grid)
{
    return grids[grid].name;
}
fm_grid_kind fm_grid_kind_of(fm_grid grid)
{
    return grids[grid].kind;
}
unsigned fm_grid_bits(fm_grid grid)
{
    return grids[grid].bits;
}
const char *fm_granularity_name(fm_granularity granularity)
{
    return granularities[granularity];
}
const char *fm_scale_name(fm_scale scale)
{
    return scales[scale];
}
const char *fm_e8m0_mode_name(fm_e8m0_mode mode)
{
    return e8m0_modes[mode];
}
const char *fm_calibration_name(fm_calibration calibration)
{
    return calibrations[calibration];
}
const char *fm_layout_name(fm_layout layout)
{
    return layouts[layout];
}

// What a name stands for. Blocks of 32 and 16: the OCP and NVIDIA formats. int2 to int7 in blocks, as a scale a row is
// too coarse for so few codes; int8 and fp8 by row.
#define BLOCK(n) .granularity = FM_GRANULARITY_BLOCK, .block_cols = n
#define FLAT(n) .granularity = FM_GRANULARITY_FLAT, .block_cols = n
#define BY_ROW .granularity = FM_GRANULARITY_ROW
#define MX .scale = FM_SCALE_E8M0, .e8m0_mode = FM_E8M0_MODE_EVEN
static const struct {
    const char *name;
    fm_scheme scheme;
} formats[] = {
    {"int2", {.grid = FM_GRID_INT2, BLOCK(32)}},
    {"int3", {.grid = FM_GRID_INT3, BLOCK(32)}},
    {"int4", {.grid = FM_GRID_INT4, BLOCK(128)}},
    {"int5", {.grid = FM_GRID_INT5, BLOCK(128)}},
    {"int6", {.grid = FM_GRID_INT6, BLOCK(128)}},
    {"int7", {.grid = FM_GRID_INT7, BLOCK(128)}},
    {"int8", {.grid = FM_GRID_INT8, BY_ROW}},
    {"fp8_e4m3", {.grid = FM_GRID_E4M3, BY_ROW}},
    {"fp8_e5m2", {.grid = FM_GRID_E5M2, BY_ROW}},
    {"mxfp8", {.grid = FM_GRID_E4M3, BLOCK(32), MX}},
    {"mxfp8_e5m2", {.grid = FM_GRID_E5M2, BLOCK(32), MX}},
    {"mxfp6", {.grid = FM_GRID_E2M3, BLOCK(32), MX}},
    {"mxfp6_e3m2", {.grid = FM_GRID_E3M2, BLOCK(32), MX}},
    {"mxfp4", {.grid = FM_GRID_E2M1, BLOCK(32), MX}},
    {"nvfp4", {.grid = FM_GRID_E2M1, BLOCK(16), .scale = FM_SCALE_E4M3}},
    {"nf4", {.grid = FM_GRID_NF4, FLAT(64)}},
    {"fp4", {.grid = FM_GRID_FP4, FLAT(64)}},
    {"dynamic8", {.grid = FM_GRID_DYNAMIC8, FLAT(256)}},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *fm_scheme_format(size_t i)
{
    return i < N_FORMATS ? formats[i].name : NULL;
}

fm_status fm_scheme_of_format(const char *name, fm_scheme *out, fm_err *err)
{
    char names[256] = "";
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            *out = formats[i].scheme;
            return FM_OK;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", formats[i].name);
    }
    return fm_fail(err, FM_ERR_NOT_FOUND, "no format \"%s\" with scales of its own; there are %s", name, names);
}

static bool find_word(const char *const *words, size_t n, const char *text, size_t length, int *out)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(words[i]) == length && strncmp(words[i], text, length) == 0) {
            *out = (int)i;
            return true;
        }
    return false;
}

// A count from `text` to `*end`, 1 to 65536.
static bool read_count(const char *text, const char **end, uint32_t *out)
{
    char *stop;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long v = strtoul(text, &stop, 10);
    if (v == 0 || v > 65536)
        return false;
    *out = (uint32_t)v;
    *end = stop;
    return true;
}

static fm_status bad_granularity(const char *word, fm_err *err)
{
    return fm_fail(err, FM_ERR_USAGE,
                   "granularity \"%s\": give tensor, row, column, block, block:N, tile:RxC or flat:N", word);
}

fm_status fm_scheme_set_granularity(fm_scheme *s, const char *word, fm_err *err)
{
    const char *colon = strchr(word, ':'), *end = word + strlen(word);
    size_t length = colon ? (size_t)(colon - word) : strlen(word);
    int kind;
    uint32_t a = 0, b = 0;
    if (length == 7 && strncmp(word, "channel", 7) == 0)
        kind = FM_GRANULARITY_ROW;
    else if (length == 5 && strncmp(word, "group", 5) == 0)
        kind = FM_GRANULARITY_BLOCK;
    else if (!find_word(granularities, FM_N_GRANULARITIES, word, length, &kind))
        return bad_granularity(word, err);
    bool sized = kind == FM_GRANULARITY_BLOCK || kind == FM_GRANULARITY_FLAT || kind == FM_GRANULARITY_TILE;
    if (colon && (!sized || !read_count(colon + 1, &end, &a)))
        return bad_granularity(word, err);
    if (kind == FM_GRANULARITY_TILE && (!colon || *end != 'x' || !read_count(end + 1, &end, &b)))
        return bad_granularity(word, err);
    if (*end)
        return bad_granularity(word, err);
    if (sized && !colon) // the format's own block where it has one
        a = s->block_cols ? s->block_cols : 32;
    s->granularity = (fm_granularity)kind;
    s->block_rows = kind == FM_GRANULARITY_TILE ? a : sized;
    s->block_cols = kind == FM_GRANULARITY_TILE ? b : sized ? a : 0;
    return FM_OK;
}

fm_status fm_scheme_set_symmetry(fm_scheme *s, const char *word, fm_err *err)
{
    bool full = strcmp(word, "sym:full") == 0;
    if (!full && strcmp(word, "sym") != 0 && strcmp(word, "asym") != 0)
        return fm_fail(err, FM_ERR_USAGE, "scheme \"%s\": give sym, sym:full or asym", word);
    s->asymmetric = strcmp(word, "asym") == 0;
    s->full_range = full;
    return FM_OK;
}

fm_status fm_scheme_set_scale(fm_scheme *s, const char *word, fm_err *err)
{
    const char *colon = strchr(word, ':');
    int scale, mode = s->e8m0_mode;
    bool multiply = false,
         ok = find_word(scales, FM_N_SCALES, word, colon ? (size_t)(colon - word) : strlen(word), &scale);
    if (ok && colon && scale == FM_SCALE_E8M0)
        ok = find_word(e8m0_modes, FM_N_E8M0_MODES, colon + 1, strlen(colon + 1), &mode);
    else if (ok && colon && scale == FM_SCALE_E4M3)
        ok = (multiply = strcmp(colon + 1, "multiply") == 0) || strcmp(colon + 1, "divide") == 0;
    else if (colon)
        ok = false;
    if (!ok)
        return fm_fail(err, FM_ERR_USAGE,
                       "scale \"%s\": give fp32, fp16, bf16, e8m0, e8m0:floor|even|ceil|rceil|mse, e4m3, "
                       "e4m3:divide|multiply, double or none",
                       word);
    if (scale == FM_SCALE_E8M0 && !colon && s->scale != FM_SCALE_E8M0)
        mode = FM_E8M0_MODE_EVEN;
    s->scale = (fm_scale)scale;
    s->e8m0_mode = (fm_e8m0_mode)mode;
    s->nvfp4 = multiply ? FM_NVFP4_MULTIPLY : FM_NVFP4_DIVIDE;
    if (scale == FM_SCALE_NONE) {
        s->granularity = FM_GRANULARITY_TENSOR;
        s->block_rows = s->block_cols = 0;
    }
    return FM_OK;
}

fm_status fm_scheme_set_calibration(fm_scheme *s, const char *word, fm_err *err)
{
    const char *colon = strchr(word, ':');
    int kind;
    double p = 99.9;
    bool ok = find_word(calibrations, FM_N_CALIBRATIONS, word, colon ? (size_t)(colon - word) : strlen(word), &kind);
    if (ok && colon) {
        char *end;
        p = strtod(colon + 1, &end);
        ok = kind == FM_CALIBRATION_PERCENTILE && end != colon + 1 && !*end && p > 50 && p <= 100;
    }
    if (!ok)
        return fm_fail(err, FM_ERR_USAGE,
                       "calibration \"%s\": give absmax, percentile, percentile:P (50 < P <= 100), mse, kl or weighted",
                       word);
    s->calibration = (fm_calibration)kind;
    s->percentile = kind == FM_CALIBRATION_PERCENTILE ? p : 0;
    return FM_OK;
}

char *fm_scheme_text(const fm_scheme *s, char out[FM_SCHEME_TEXT_BYTES])
{
    int n = snprintf(out, FM_SCHEME_TEXT_BYTES, "%s", fm_grid_name(s->grid));
    size_t room = FM_SCHEME_TEXT_BYTES;
#define ADD(...) n += snprintf(out + n, room - (size_t)n, __VA_ARGS__)
    if (s->asymmetric || s->full_range)
        ADD(" %s", s->asymmetric ? "asym" : "sym:full");
    ADD(" %s", fm_granularity_name(s->granularity));
    if (s->granularity == FM_GRANULARITY_TILE)
        ADD(":%ux%u", s->block_rows, s->block_cols);
    else if (s->block_cols)
        ADD(":%u", s->block_cols);
    ADD(" scale %s", fm_scale_name(s->scale));
    if (s->scale == FM_SCALE_E8M0)
        ADD(":%s", fm_e8m0_mode_name(s->e8m0_mode));
    if (s->scale == FM_SCALE_E4M3)
        ADD(":%s", s->nvfp4 == FM_NVFP4_DIVIDE ? "divide" : "multiply");
    if (s->calibration == FM_CALIBRATION_PERCENTILE)
        ADD(" percentile:%g", s->percentile);
    else if (s->calibration)
        ADD(" %s", fm_calibration_name(s->calibration));
#undef ADD
    return out;
}

double fm_scheme_bits_per_weight(const fm_scheme *s, uint64_t rows, uint64_t cols)
{
    uint64_t group_rows, group_cols;
    fm_scheme_groups(s, rows, cols, &group_rows, &group_cols);
    double n = (double)rows * (double)cols, groups = (double)group_rows * (double)group_cols, bits = 0;
    static const double scale_bits[FM_N_SCALES] = {[FM_SCALE_FP32] = 32, [FM_SCALE_FP16] = 16, [FM_SCALE_BF16] = 16,
                                                   [FM_SCALE_E8M0] = 8,  [FM_SCALE_E4M3] = 8,  [FM_SCALE_DOUBLE] = 8};
    if (n == 0)
        return 0;
    bits += groups * scale_bits[s->scale];
    if (s->scale == FM_SCALE_DOUBLE)
        bits += 32 * ceil(groups / 256) + 32;
    if (s->scale == FM_SCALE_E4M3)
        bits += 32;
    if (s->asymmetric)
        bits += groups * (fm_scheme_layout(s, rows, cols) == FM_LAYOUT_OWN ? 8 : fm_grid_bits(s->grid));
    return fm_grid_bits(s->grid) + bits / n;
}
