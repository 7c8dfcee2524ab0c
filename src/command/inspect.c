// floodmark inspect: the units, parameters, shapes and bytes of a model, or the tensors of a weight file.
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json_out.h"
#include "base/table.h"
#include "base/units.h"
#include "command/command.h"
#include "command/flags.h"
#include "floodmark/tensor.h"
#include "model/family.h"
#include "model/opened.h"

typedef struct {
    const char *model;
    uint64_t layers;
    fm_units units;
    bool json, all, help;
} options;

// ---- flags ----

static const char usage[] =
    "Usage: floodmark inspect [OPTION...] MODEL\n"
    "The units of a model with their parameters, shapes and bytes; or the tensors of a weight file, whose whole "
    "header\n"
    "is checked against the file's size.\n\n"
    "MODEL is a Hugging Face config.json or its folder, a safetensors or GGUF file, an index of several, a name of "
    "the\n"
    "catalogue (meta-llama/Llama-3.1-8B, llama-3.1-8b), or a size (70B, 1.5B).\n\n"
    "  -a, --all           list every block, also those that equal the one before\n"
    "  -l, --layers=N      as if the model had N blocks\n"
    "  -u, --units=GB|GiB  units of sizes [GB]\n"
    "  -j, --json          print JSON: n_params (tied tensors once), units, parameters, buffers, notes\n"
    "  -h, --help          print this help\n";

static const struct option flags[] = {{"all", no_argument, NULL, 'a'},         {"layers", required_argument, NULL, 'l'},
                                      {"units", required_argument, NULL, 'u'}, {"json", no_argument, NULL, 'j'},
                                      {"help", no_argument, NULL, 'h'},        {0}};

static fm_status set_flag(options *o, int flag, char **argv, fm_err *err)
{
    fm_status status = FM_OK;
    switch (flag) {
    case 'a':
        o->all = true;
        break;
    case 'l':
        if ((status = fm_parse_u64(optarg, 1, 1 << 20, &o->layers, err)))
            (void)fm_err_prefix(err, "--layers");
        break;
    case 'u':
        if ((status = fm_parse_units(optarg, &o->units, err)))
            (void)fm_err_prefix(err, "--units");
        break;
    case 'j':
        o->json = true;
        break;
    case 'h':
        o->help = true;
        break;
    default:
        status = fm_flags_refused("inspect", flag, argv[optind - 1], flags, err);
    }
    return status;
}

static fm_status parse(int argc, char **argv, options *o, fm_err *err)
{
    fm_status status = FM_OK;
    optind = opterr = 0;
    for (int flag; !status && !o->help && (flag = getopt_long(argc, argv, ":al:u:jh", flags, NULL)) != -1;)
        status = set_flag(o, flag, argv, err);
    if (status || o->help)
        return status;
    if (optind == argc)
        return fm_fail(err, FM_ERR_USAGE, "no MODEL given; see floodmark inspect --help");
    if (argc - optind > 1)
        return fm_fail(err, FM_ERR_USAGE, "one MODEL at a time: \"%s\" and \"%s\" were given", argv[optind],
                       argv[optind + 1]);
    o->model = argv[optind];
    return FM_OK;
}

// ---- what is shown ----

static const fm_parts *shown(const fm_model *m)
{
    return m->stored.n_units ? &m->stored : &m->parts;
}

static const char *source_word(fm_model_source s)
{
    static const char *const words[] = {"config", "catalogue", "size", "safetensors", "gguf"};
    return words[s];
}

static const char *kind_word(fm_unit_kind k)
{
    static const char *const words[] = {"embedding", "positions", "block", "norm", "head", "other"};
    return words[k];
}

// The part of a parameter's name behind its unit's.
static const char *leaf(const fm_model_unit *u, const fm_model_param *p)
{
    size_t n = strlen(u->name);
    return p->name[n] == '.' ? p->name + n + 1 : p->name;
}

// Two blocks of one list with the same parameters of the same shapes and types?
static bool same_block(const fm_parts *parts, const fm_model_unit *a, const fm_model_unit *b)
{
    if (a->kind != FM_UNIT_BLOCK || b->kind != FM_UNIT_BLOCK || a->n_params != b->n_params || b->block != a->block + 1)
        return false;
    size_t n = (size_t)(strrchr(a->name, '.') - a->name), m = (size_t)(strrchr(b->name, '.') - b->name);
    if (n != m || strncmp(a->name, b->name, n) != 0)
        return false;
    for (uint32_t i = 0; i < a->n_params; i++) {
        const fm_model_param *p = &parts->params[a->first_param + i], *q = &parts->params[b->first_param + i];
        if (strcmp(leaf(a, p), leaf(b, q)) != 0 || strcmp(p->dtype, q->dtype) != 0 || p->n_dims != q->n_dims ||
            memcmp(p->dims, q->dims, p->n_dims * sizeof *p->dims) != 0)
            return false;
    }
    return true;
}

// The first unit at or after i that differs from unit i.
static size_t run_end(const fm_parts *parts, size_t i, bool all)
{
    size_t end = i + 1;
    while (!all && end < parts->n_units && strchr(parts->units[i].name, '.') && strchr(parts->units[end].name, '.') &&
           same_block(parts, &parts->units[end - 1], &parts->units[end]))
        end++;
    return end;
}

// ---- text ----

static void add_param(fm_table *t, const fm_parts *parts, const fm_model_unit *u, const fm_model_param *p,
                      fm_units units)
{
    char shape[160], count[FM_UNITS_TEXT_BYTES], bytes[FM_UNITS_TEXT_BYTES];
    fm_table_cell(t, "  %s", leaf(u, p));
    fm_table_cell(t, "%s", fm_tensor_shape_text(p->n_dims, p->dims, shape, sizeof shape));
    fm_table_cell(t, "%s", p->dtype);
    if (p->tied_to >= 0) {
        fm_table_cell(t, " ");
        fm_table_cell(t, " ");
        fm_table_cell(t, "is %s", parts->params[p->tied_to].name);
        return;
    }
    fm_table_cell(t, "%s", fm_format_count(count, p->n_elems));
    fm_table_cell(t, "%s", fm_format_bytes(bytes, p->bytes, units, 2));
    fm_table_end_row(t);
}

static void add_unit(fm_table *t, const fm_parts *parts, size_t first, size_t end, fm_units units)
{
    const fm_model_unit *u = &parts->units[first];
    char count[FM_UNITS_TEXT_BYTES], bytes[FM_UNITS_TEXT_BYTES];
    if (end - first > 1)
        fm_table_cell(t, "%s ... %" PRIu32, u->name, parts->units[end - 1].block);
    else
        fm_table_cell(t, "%s", u->name);
    if (end - first > 1)
        fm_table_cell(t, "%zu blocks, each:", end - first);
    else
        fm_table_cell(t, " ");
    fm_table_cell(t, " ");
    fm_table_cell(t, "%s", fm_format_count(count, u->n_elems));
    fm_table_cell(t, "%s", fm_format_bytes(bytes, u->bytes, units, 2));
    fm_table_end_row(t);
    for (uint32_t i = 0; i < u->n_params; i++)
        add_param(t, parts, u, &parts->params[u->first_param + i], units);
}

static void add_head(const fm_model *m, const fm_parts *parts, fm_units units, fm_buf *out)
{
    char count[FM_UNITS_TEXT_BYTES], few[FM_UNITS_TEXT_BYTES], bytes[FM_UNITS_TEXT_BYTES];
    fm_buf_printf(out, "%s", m->name);
    if (m->has_arch)
        fm_buf_printf(out, ": %s, %" PRIu32 " block%s", m->arch.family->title, m->arch.n_layers,
                      m->arch.n_layers == 1 ? "" : "s");
    fm_buf_printf(out, "\n%s parameters (%s), %s", fm_format_count(count, fm_model_n_params(m)),
                  fm_format_count_short(few, fm_model_n_params(m)), fm_format_bytes(bytes, parts->bytes, units, 2));
    if (m->has_arch && parts == &m->parts)
        fm_buf_printf(out, " in %s", m->arch.dtype);
    else
        fm_buf_printf(out, " stored in %zu tensor%s", parts->n_params, parts->n_params == 1 ? "" : "s");
    fm_buf_add_char(out, '\n');
    for (size_t i = 0; i < m->n_notes; i++)
        fm_buf_printf(out, "note: %s\n", m->notes[i]);
}

// Two names that differ in numbers only, as those of the same buffer in two blocks do.
static bool same_but_number(const char *a, const char *b)
{
    while (*a && *b) {
        size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
        if (!n != !m || (!n && *a != *b))
            return false;
        a += n ? n : 1;
        b += m ? m : 1;
    }
    return !*a && !*b;
}

static void add_buffers(const fm_parts *parts, const options *o, fm_buf *out)
{
    for (size_t i = 0, end; i < parts->n_buffers; i = end) {
        const fm_model_buffer *b = &parts->buffers[i];
        char bytes[FM_UNITS_TEXT_BYTES];
        for (end = i + 1; !o->all && end < parts->n_buffers; end++)
            if (!same_but_number(b->name, parts->buffers[end].name) || b->n_elems != parts->buffers[end].n_elems)
                break;
        fm_buf_printf(out, "%sbuffer %s: %" PRIu64 " %s, %s", i ? "" : "\n", b->name, b->n_elems, b->dtype,
                      fm_format_bytes(bytes, b->bytes, o->units, 2));
        if (end - i > 1)
            fm_buf_printf(out, "; and %zu like it", end - i - 1);
        fm_buf_printf(out, "%s\n", b->counted ? " (counted above)" : "");
    }
}

static fm_status print_text(const fm_model *m, const options *o, fm_buf *out, fm_err *err)
{
    const fm_parts *parts = shown(m);
    fm_table t = {0};
    add_head(m, parts, o->units, out);
    if (!parts->n_units)
        return FM_OK;
    fm_buf_add_char(out, '\n');
    fm_table_column(&t, "unit", FM_ALIGN_LEFT);
    fm_table_column(&t, "shape", FM_ALIGN_LEFT);
    fm_table_column(&t, "type", FM_ALIGN_LEFT);
    fm_table_column(&t, "parameters", FM_ALIGN_RIGHT);
    fm_table_column(&t, "bytes", FM_ALIGN_RIGHT);
    for (size_t i = 0; i < parts->n_params; i++)
        if (parts->params[i].tied_to >= 0) {
            fm_table_column(&t, "", FM_ALIGN_LEFT);
            break;
        }
    for (size_t i = 0, end; i < parts->n_units; i = end) {
        end = run_end(parts, i, o->all);
        add_unit(&t, parts, i, end, o->units);
    }
    fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    add_buffers(&m->parts, o, out);
    return status;
}

// ---- JSON ----

static void json_param(fm_json *j, const fm_parts *parts, const fm_model_param *p)
{
    fm_json_begin_object(j);
    fm_json_put_text(j, "name", p->name);
    fm_json_key(j, "shape");
    fm_json_begin_array(j);
    for (uint32_t i = 0; i < p->n_dims; i++)
        fm_json_u64(j, p->dims[i]);
    fm_json_end_array(j);
    fm_json_put_text(j, "dtype", p->dtype);
    fm_json_put_u64(j, "n_elems", p->n_elems);
    fm_json_put_u64(j, "bytes", p->bytes);
    if (p->tied_to >= 0)
        fm_json_put_text(j, "tied_to", parts->params[p->tied_to].name);
    fm_json_end_object(j);
}

static void json_units(fm_json *j, const fm_parts *parts)
{
    fm_json_key(j, "units");
    fm_json_begin_array(j);
    for (size_t i = 0; i < parts->n_units; i++) {
        const fm_model_unit *u = &parts->units[i];
        fm_json_begin_object(j);
        fm_json_put_text(j, "name", u->name);
        fm_json_put_text(j, "kind", kind_word(u->kind));
        fm_json_put_u64(j, "n_params", u->n_elems);
        fm_json_put_u64(j, "bytes", u->bytes);
        fm_json_key(j, "parameters");
        fm_json_begin_array(j);
        for (uint32_t k = 0; k < u->n_params; k++)
            json_param(j, parts, &parts->params[u->first_param + k]);
        fm_json_end_array(j);
        fm_json_end_object(j);
    }
    fm_json_end_array(j);
}

static void json_rest(fm_json *j, const fm_model *m)
{
    fm_json_key(j, "buffers");
    fm_json_begin_array(j);
    for (size_t i = 0; i < m->parts.n_buffers; i++) {
        const fm_model_buffer *b = &m->parts.buffers[i];
        fm_json_begin_object(j);
        fm_json_put_text(j, "name", b->name);
        fm_json_put_text(j, "dtype", b->dtype);
        fm_json_put_u64(j, "n_elems", b->n_elems);
        fm_json_put_u64(j, "bytes", b->bytes);
        fm_json_end_object(j);
    }
    fm_json_end_array(j);
    fm_json_key(j, "notes");
    fm_json_begin_array(j);
    for (size_t i = 0; i < m->n_notes; i++)
        fm_json_text(j, m->notes[i]);
    fm_json_end_array(j);
}

static fm_status print_json(const fm_model *m, fm_buf *out, fm_err *err)
{
    fm_json j;
    fm_json_init(&j, out, true);
    fm_json_begin_object(&j);
    fm_json_put_text(&j, "model", m->name);
    fm_json_put_text(&j, "source", source_word(m->source));
    fm_json_put_text(&j, "family", m->has_arch ? m->arch.family->title : NULL);
    fm_json_put_text(&j, "dtype", m->has_arch ? m->arch.dtype : NULL);
    fm_json_put_u64(&j, "n_params", fm_model_n_params(m));
    fm_json_put_u64(&j, "n_trained", fm_model_n_trained(m));
    fm_json_put_u64(&j, "bytes", shown(m)->bytes);
    json_units(&j, shown(m));
    json_rest(&j, m);
    fm_json_end_object(&j);
    return fm_json_finish(&j, err);
}

int fm_command_inspect(int argc, char **argv)
{
    options o = {.units = FM_UNITS_GB};
    fm_err err = {0};
    fm_model *m = NULL;
    fm_buf out = {0};
    fm_status status = parse(argc, argv, &o, &err);
    bool typed = status != FM_OK;
    if (!status && o.help) {
        fm_buf_add_text(&out, usage);
    } else if (!status) {
        fm_model_options how = {.layers = (uint32_t)o.layers};
        status = fm_model_open(o.model, &how, &m, &err);
        if (!status)
            status = o.json ? print_json(m, &out, &err) : print_text(m, &o, &out, &err);
    }
    if (!status)
        status = fm_command_print(&out, &err);
    fm_buf_reset(&out);
    fm_model_destroy(m);
    return status ? fm_command_fail("inspect", &err, typed) : 0;
}
