// floodmark compare: one tensor under several schemes, side by side.
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json_out.h"
#include "base/table.h"
#include "base/units.h"
#include "command/command.h"
#include "command/flags.h"
#include "floodmark/block_format.h"
#include "floodmark/convert.h"
#include "floodmark/quant_report.h"
#include "floodmark/tree.h"
#include "floodmark/weights.h"

static const char usage[] =
    "Usage: floodmark compare IN --tensor=NAME [OPTION...]\n"
    "       floodmark compare --synthetic=KIND [OPTION...]\n"
    "One tensor under several schemes side by side: what each costs in bits and in error.\n"
    "\n"
    "  -T, --tensor=NAME     a tensor of IN (a .safetensors file, its index or folder, or a GGUF file)\n"
    "  -S, --synthetic=KIND  instead of a file, 512 x 512 values: normal; outlier (one column 100 times larger);\n"
    "                        skewed (never below -0.1, a long tail above)\n"
    "  -f, --format=F        only this format, under every granularity and scheme it has; may be repeated\n"
    "      --json            print JSON\n"
    "  -h, --help            print this help\n"
    "\n"
    "Without --format: int8 and int4 by tensor, row, column and block, symmetric and asymmetric, then the other "
    "formats\n"
    "as they are usually written, then GGUF's block formats whose blocks divide the rows.\n";

enum { OPT_JSON = 256, MAX_FORMATS = 16, SYNTHETIC_SIDE = 512 };
static const uint64_t most_elems = 1u << 26; // 256 MiB of fp32

typedef struct {
    const char *in, *tensor, *synthetic;
    const char *formats[MAX_FORMATS];
    size_t n_formats;
    bool json;
} options;

typedef struct {
    const char *title;
    uint64_t rows, cols;
    float *x;
} matrix;

typedef struct {
    char scheme[FM_SCHEME_TEXT_BYTES];
    double bits;
    fm_quant_error error;
} line;

typedef struct {
    line *lines;
    size_t n, capacity;
} result;

static fm_status add_line(result *r, const char *scheme, double bits, const fm_quant_error *e, fm_err *err)
{
    line *grown = fm_grow(r->lines, &r->capacity, r->n, sizeof *r->lines);
    if (!grown)
        return fm_fail_memory(err, "comparison");
    r->lines = grown;
    line *l = r->lines + r->n++;
    snprintf(l->scheme, sizeof l->scheme, "%s", scheme);
    l->bits = bits;
    l->error = *e;
    return FM_OK;
}

// ---- the tensor ----

static double uniform(uint64_t i)
{
    return ((double)fm_random_u32(2026, i) + 0.5) * 0x1p-32;
}

// Irwin-Hall: twelve uniform numbers, near enough to normal, and the same bits everywhere.
static float normal(uint64_t i)
{
    double sum = -6;
    for (uint64_t k = 0; k < 12; k++)
        sum += uniform(12 * i + k);
    return (float)sum;
}

static fm_status synthesize(const char *kind, matrix *m, fm_err *err)
{
    bool outlier = strcmp(kind, "outlier") == 0, skewed = strcmp(kind, "skewed") == 0;
    if (!outlier && !skewed && strcmp(kind, "normal") != 0)
        return fm_fail(err, FM_ERR_USAGE, "--synthetic=%s: give normal, outlier or skewed", kind);
    *m = (matrix){.title = kind, .rows = SYNTHETIC_SIDE, .cols = SYNTHETIC_SIDE};
    m->x = fm_alloc_array(m->rows * m->cols, sizeof *m->x);
    if (!m->x)
        return fm_fail_memory(err, "tensor");
    for (uint64_t i = 0; i < m->rows * m->cols; i++) {
        float v = normal(i);
        m->x[i] = 0.02f * v;
        if (outlier && i % m->cols == 100)
            m->x[i] *= 100;
        if (skewed)
            m->x[i] = v * v - 0.1f;
    }
    return FM_OK;
}

static fm_status decode(const fm_tensor_info *t, const void *bytes, float *x, fm_err *err)
{
    const fm_tensor_type_info *info = fm_tensor_type_of(t->type);
    const fm_block_format *blocks = info->ggml >= 0 ? fm_block_format_by_ggml_type((uint32_t)info->ggml) : NULL;
    if (blocks)
        return fm_block_decode(blocks, t->n_elems, bytes, x, err);
    fm_number number = FM_FP32;
    switch (t->type) {
    case FM_TENSOR_F32:
        break;
    case FM_TENSOR_F64:
        number = FM_FP64;
        break;
    case FM_TENSOR_F8_E4M3:
        number = FM_FP8_E4M3;
        break;
    case FM_TENSOR_F8_E5M2:
        number = FM_FP8_E5M2;
        break;
    case FM_TENSOR_F8_E4M3FNUZ:
        number = FM_FP8_E4M3FNUZ;
        break;
    case FM_TENSOR_F8_E5M2FNUZ:
        number = FM_FP8_E5M2FNUZ;
        break;
    default:
        return fm_fail(err, FM_ERR_UNSUPPORTED, "tensor \"%s\" is %s, which is not decoded here", t->name, info->name);
    }
    fm_convert(number, FM_FP32, NULL, t->n_elems, bytes, x, NULL);
    return FM_OK;
}

static fm_status no_tensor(const fm_weights *in, const char *name, fm_err *err)
{
    size_t n = fm_weights_n_tensors(in);
    const char **names = fm_alloc_array(n + 1, sizeof *names);
    if (!names)
        return fm_fail_memory(err, "tensor names");
    for (size_t i = 0; i < n; i++)
        names[i] = fm_weights_tensor(in, i)->name;
    const char *near = fm_nearest(name, names, n);
    if (near)
        fm_fail(err, FM_ERR_NOT_FOUND, "no tensor \"%.200s\": did you mean \"%s\"?", name, near);
    else
        fm_fail(err, FM_ERR_NOT_FOUND, "no tensor \"%s\"; floodmark inspect lists them", name);
    fm_free(names);
    return FM_ERR_NOT_FOUND;
}

static fm_status read_tensor(const fm_weights *in, const char *name, matrix *m, fm_err *err)
{
    const fm_tensor_info *t = fm_weights_find(in, name);
    if (!t)
        return no_tensor(in, name, err);
    if (t->n_elems == 0 || t->n_elems > most_elems)
        return fm_fail(err, FM_ERR_VALUE, "tensor \"%s\" has %llu values; 1 to %llu can be compared", name,
                       (unsigned long long)t->n_elems, (unsigned long long)most_elems);
    size_t index = 0;
    while (fm_weights_tensor(in, index) != t)
        index++;
    uint8_t *bytes = fm_alloc(t->bytes);
    m->title = name;
    m->cols = t->n_dims ? t->dims[t->n_dims - 1] : 1;
    m->rows = t->n_elems / m->cols;
    m->x = fm_alloc_array(t->n_elems, sizeof *m->x);
    fm_status status = bytes && m->x ? FM_OK : fm_fail_memory(err, "tensor");
    if (!status)
        status = fm_weights_read(in, index, 0, bytes, t->bytes, err);
    if (!status)
        status = decode(t, bytes, m->x, err);
    fm_free(bytes);
    uint64_t bad = status ? 0 : fm_first_non_finite(t->n_elems, m->x);
    if (!status && bad < t->n_elems)
        status = fm_fail(err, FM_ERR_VALUE, "tensor \"%s\": value %llu is not finite", name, (unsigned long long)bad);
    return status;
}

// ---- schemes ----

static fm_status run_scheme(const matrix *m, const fm_scheme *s, result *r, fm_err *err)
{
    uint64_t n = m->rows * m->cols, gr, gc;
    fm_scheme_groups(s, m->rows, m->cols, &gr, &gc);
    uint8_t *codes = fm_alloc(n);
    float *decoded = fm_alloc_array(n, sizeof *decoded), *scale2 = fm_alloc_array(gr * gc / 256 + 1, sizeof *scale2);
    fm_group_scale *scales = fm_calloc(gr * gc + 1, sizeof *scales);
    fm_tensor_scale t = {.scale2 = scale2};
    char text[FM_SCHEME_TEXT_BYTES];
    fm_status status = codes && decoded && scale2 && scales ? FM_OK : fm_fail_memory(err, "comparison");
    if (!status)
        status = fm_quantize_matrix(s, m->rows, m->cols, m->x, NULL, codes, scales, &t, err);
    if (!status) {
        bool flat = s->granularity == FM_GRANULARITY_FLAT;
        uint64_t rows = flat ? 1 : m->rows, cols = flat ? n : m->cols;
        fm_quant_error e = {0};
        fm_quantize_decode(s, rows, cols, codes, scales, decoded);
        fm_quant_error_add(&e, s, rows, cols, cols, m->x, decoded, scales);
        status = add_line(r, fm_scheme_text(s, text), fm_scheme_bits_per_weight(s, m->rows, m->cols), &e, err);
    }
    fm_free(codes);
    fm_free(decoded);
    fm_free(scale2);
    fm_free(scales);
    return status;
}

static fm_status run_blocks(const matrix *m, const fm_block_format *f, result *r, fm_err *err)
{
    uint64_t bytes = m->rows * m->cols / f->block_elems * f->block_bytes;
    uint8_t *blocks = fm_alloc(bytes);
    if (!blocks)
        return fm_fail_memory(err, "comparison");
    fm_block_error b = {0};
    fm_status status = fm_block_encode(f, m->rows, m->cols, m->x, NULL, blocks, NULL, &b, err);
    fm_quant_error e = {.n_elems = b.n_elems,
                        .n_unmeasured = b.n_unmeasured,
                        .n_zeroed = b.n_zeroed,
                        .n_clipped = b.n_clipped,
                        .sum_sq = b.sum_sq,
                        .sum_sq_err = b.sum_sq_err,
                        .max_abs_err = b.max_abs_err,
                        .max_abs = b.max_abs};
    char name[FM_SCHEME_TEXT_BYTES];
    snprintf(name, sizeof name, "%s (GGUF)", f->name);
    if (!status)
        status = add_line(r, name, fm_block_bits_per_weight(f), &e, err);
    fm_free(blocks);
    return status;
}

// A format under every granularity and symmetry that the table allows.
static fm_status run_variants(const matrix *m, const char *format, result *r, fm_err *err)
{
    static const char *const granularities[] = {"tensor", "row", "column", "block:128", "block:32"};
    static const char *const symmetries[] = {"sym", "asym"};
    fm_scheme base;
    fm_status status = fm_scheme_of_format(format, &base, err);
    for (size_t y = 0; y < 2 && !status; y++)
        for (size_t g = 0; g < 5 && !status; g++) {
            fm_scheme s = base;
            fm_err ignored;
            if (fm_scheme_set_symmetry(&s, symmetries[y], err) || fm_scheme_set_granularity(&s, granularities[g], err))
                return err->code;
            if (fm_scheme_check(&s, &ignored) == FM_OK)
                status = run_scheme(m, &s, r, err);
        }
    return status;
}

static fm_status run_format(const matrix *m, const char *name, result *r, fm_err *err)
{
    fm_scheme s;
    fm_status status = fm_scheme_of_format(name, &s, err);
    return status ? status : run_scheme(m, &s, r, err);
}

static fm_status run_named(const matrix *m, const char *name, result *r, fm_err *err)
{
    fm_scheme s;
    fm_err first;
    const fm_block_format *f = fm_block_format_by_name(name);
    fm_status status = fm_scheme_of_format(name, &s, &first);
    if (status && !f)
        return fm_fail(err, FM_ERR_USAGE, "--format=%s: %s, and GGUF's block formats", name, first.message);
    if (!status && s.granularity != FM_GRANULARITY_FLAT && s.scale == FM_SCALE_FP32)
        status = run_variants(m, name, r, err);
    else if (!status)
        status = run_scheme(m, &s, r, err);
    else
        status = FM_OK;
    if (status || !f)
        return status;
    if (m->cols % f->block_elems)
        return fm_fail(err, FM_ERR_VALUE, "--format=%s: rows of %llu do not divide into blocks of %u", name,
                       (unsigned long long)m->cols, f->block_elems);
    return run_blocks(m, f, r, err);
}

static fm_status run_all(const matrix *m, result *r, fm_err *err)
{
    static const char *const others[] = {"fp8_e4m3", "fp8_e5m2", "mxfp8", "mxfp6", "mxfp4", "nvfp4", "nf4", "fp4"};
    fm_status status = run_variants(m, "int8", r, err);
    if (!status)
        status = run_variants(m, "int4", r, err);
    for (size_t i = 0; i < sizeof others / sizeof *others && !status; i++)
        status = run_format(m, others[i], r, err);
    for (int i = 0; i < FM_BLOCK_N && !status; i++) {
        const fm_block_format *f = fm_block_format_of((fm_block_type)i);
        if (m->cols % f->block_elems == 0)
            status = run_blocks(m, f, r, err);
    }
    return status;
}

// ---- showing ----

static fm_status show_json(const matrix *m, const result *r, fm_buf *out, fm_err *err)
{
    fm_json json;
    fm_json_init(&json, out, true);
    fm_json_begin_object(&json);
    fm_json_put_text(&json, "tensor", m->title);
    fm_json_put_u64(&json, "rows", m->rows);
    fm_json_put_u64(&json, "columns", m->cols);
    fm_json_key(&json, "schemes");
    fm_json_begin_array(&json);
    for (size_t i = 0; i < r->n; i++) {
        const line *l = r->lines + i;
        double db = fm_quant_sqnr_db(&l->error);
        fm_json_begin_object(&json);
        fm_json_put_text(&json, "scheme", l->scheme);
        fm_json_put_f64(&json, "bits_per_weight", l->bits);
        fm_json_key(&json, "sqnr_db");
        if (isfinite(db))
            fm_json_f64(&json, db);
        else
            fm_json_null(&json);
        fm_json_put_f64(&json, "rmse", fm_quant_rmse(&l->error));
        fm_json_put_f64(&json, "max_error", l->error.max_abs_err);
        fm_json_put_u64(&json, "n_clipped", l->error.n_clipped);
        fm_json_put_u64(&json, "n_zeroed", l->error.n_zeroed);
        fm_json_put_u64(&json, "n_overflowed", l->error.n_unmeasured);
        fm_json_end_object(&json);
    }
    fm_json_end_array(&json);
    fm_json_end_object(&json);
    return fm_json_finish(&json, err);
}

static fm_status show_text(const matrix *m, const result *r, fm_buf *out, fm_err *err)
{
    static const char *const heads[] = {"scheme", "bits/weight", "SQNR dB", "RMSE", "max error", "zeroed"};
    fm_table t = {0};
    fm_buf_printf(out, "%s: %llu x %llu values\n\n", m->title, (unsigned long long)m->rows,
                  (unsigned long long)m->cols);
    for (int i = 0; i < 6; i++)
        fm_table_column(&t, heads[i], i ? FM_ALIGN_RIGHT : FM_ALIGN_LEFT);
    for (size_t i = 0; i < r->n; i++) {
        const line *l = r->lines + i;
        double db = fm_quant_sqnr_db(&l->error);
        fm_table_cell(&t, "%s", l->scheme);
        fm_table_cell(&t, "%.3f", l->bits);
        if (isfinite(db))
            fm_table_cell(&t, "%.2f", db);
        else
            fm_table_cell(&t, "exact");
        fm_table_cell(&t, "%.3g", fm_quant_rmse(&l->error));
        fm_table_cell(&t, "%.3g", l->error.max_abs_err);
        fm_table_cell(&t, "%.2f%%",
                      l->error.n_elems ? 100.0 * (double)l->error.n_zeroed / (double)l->error.n_elems : 0);
    }
    fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    bool first = true;
    for (size_t i = 0; i < r->n && !status; i++)
        if (r->lines[i].error.n_unmeasured) { // their error would be infinite: it is not in the figures above
            fm_buf_printf(out, "%s%s: %llu values overflow and are left out\n", first ? "\n" : "", r->lines[i].scheme,
                          (unsigned long long)r->lines[i].error.n_unmeasured);
            first = false;
        }
    return status;
}

static fm_status compare(const options *o, fm_err *err)
{
    matrix m = {0};
    result r = {0};
    fm_buf out = {0};
    fm_weights *in = NULL;
    fm_status status;
    if (o->synthetic)
        status = synthesize(o->synthetic, &m, err);
    else if (!(status = fm_weights_open(o->in, &in, err)))
        status = read_tensor(in, o->tensor, &m, err);
    for (size_t i = 0; i < o->n_formats && !status; i++)
        status = run_named(&m, o->formats[i], &r, err);
    if (!status && !o->n_formats)
        status = run_all(&m, &r, err);
    if (!status)
        status = o->json ? show_json(&m, &r, &out, err) : show_text(&m, &r, &out, err);
    if (!status)
        status = fm_command_print(&out, err);
    fm_buf_reset(&out);
    fm_free(r.lines);
    fm_free(m.x);
    fm_weights_destroy(in);
    return status;
}

static const struct option flags[] = {
    {"tensor", required_argument, NULL, 'T'}, {"synthetic", required_argument, NULL, 'S'},
    {"format", required_argument, NULL, 'f'}, {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},         {0}};

int fm_command_compare(int argc, char **argv)
{
    options o = {0};
    fm_err err = {0};
    fm_status status = FM_OK;
    optind = opterr = 0;
    for (int flag; !status && (flag = getopt_long(argc, argv, ":T:S:f:h", flags, NULL)) != -1;)
        switch (flag) {
        case 'T':
            o.tensor = optarg;
            break;
        case 'S':
            o.synthetic = optarg;
            break;
        case 'f':
            if (o.n_formats == MAX_FORMATS)
                status = fm_fail(&err, FM_ERR_USAGE, "--format: at most %d", MAX_FORMATS);
            else
                o.formats[o.n_formats++] = optarg;
            break;
        case OPT_JSON:
            o.json = true;
            break;
        case 'h':
            return fm_command_help("compare", usage);
        default:
            status = fm_flags_refused("compare", flag, argv[optind - 1], flags, &err);
        }
    if (!status && o.synthetic && (o.tensor || optind != argc))
        status = fm_fail(&err, FM_ERR_USAGE, "--synthetic makes its own tensor: give no IN and no --tensor");
    else if (!status && !o.synthetic && (argc - optind != 1 || !o.tensor))
        status = fm_fail(&err, FM_ERR_USAGE, "give IN and --tensor=NAME, or --synthetic=normal|outlier|skewed");
    if (!status) {
        o.in = argv[optind];
        status = compare(&o, &err);
    }
    return status ? fm_command_fail("compare", &err, status == FM_ERR_UNSUPPORTED) : 0;
}
