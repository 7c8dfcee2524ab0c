// floodmark numbers: the table of number types, or given values in each of them.
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json_out.h"
#include "base/table.h"
#include "command/command.h"
#include "floodmark/number.h"

static const char usage[] =
    "Usage: floodmark numbers [OPTION...] [VALUE...]\n"
    "The number types that Floodmark knows, or what becomes of VALUE in each of them.\n"
    "\n"
    "VALUE is written like 70000, -1.5e-3, 0x1.8p3, inf or nan, and rounded to fp64.\n"
    "\n"
    "  -t, --type=NAME       only this type (fp16, bf16, fp8_e4m3, ...); may be repeated\n"
    "  -r, --rounding=NAME   rne: to nearest, ties to even (default); rna: ties away from zero;\n"
    "                        rz: towards zero (e8m0: floor); ra: away from zero (e8m0: ceil);\n"
    "                        sr: stochastic\n"
    "  -s, --saturate        values past the largest become the largest, infinities too\n"
    "      --seed=N          of stochastic rounding (default 0); VALUE number i uses random word i\n"
    "      --json            print JSON\n"
    "  -h, --help            print this help\n"
    "\n"
    "Codes of tf32 are shown as the 32-bit patterns in which GPUs keep them.\n";

typedef struct {
    bool json, help;
    bool shown[FM_N_NUMBERS];
    fm_encoding how;
    char **values; // borrowed from argv
    int n_values;
} options;

// ---- what becomes of a value ----------------------------------------------------------------------------------------

typedef struct {
    uint64_t code;
    double value; // decoded
    char note[96];
} outcome;

static void add_number(fm_buf *b, double v)
{
    if (isfinite(v))
        fm_buf_add_f64(b, v);
    else
        fm_buf_add_text(b, v != v ? "nan" : v < 0 ? "-inf" : "inf");
}

// The note says why the decoded value differs, in the order in which a reader asks.
static void write_note(outcome *o, const fm_number_format *f, const fm_encoding *how, double x)
{
    double limit = x < 0 ? f->lowest : f->max_finite;
    const char *note = "";
    if (x != x)
        note = o->value != o->value ? "NaN stays NaN" : "there is no NaN";
    else if (f->type == FM_E8M0 && x <= 0)
        note = "no sign and no zero: NaN";
    else if (isinf(x))
        note = isinf(o->value) ? "" : o->value != o->value ? "there is no infinity: NaN" : "saturates";
    else if (!isfinite(o->value))
        snprintf(o->note, sizeof o->note, "overflows past %.9g: %s", limit, isinf(o->value) ? "infinity" : "NaN");
    else if (o->value == limit && fabs(x) > fabs(limit))
        snprintf(o->note, sizeof o->note, "%s %.9g", how->rounding == FM_ROUND_ZERO ? "cut to" : "saturates at", limit);
    else if (o->value == 0 && x != 0)
        snprintf(o->note, sizeof o->note, "becomes zero: at most half of %.9g", f->min_subnormal);
    else if (o->value == x)
        note = x == 0 && signbit(x) && !signbit(o->value) ? "there is no minus zero" : "exact";
    else if (fabs(o->value) < f->min_normal)
        note = "subnormal";
    if (o->value == 0 && x != 0 && how->rounding != FM_ROUND_NEAREST_EVEN && how->rounding != FM_ROUND_NEAREST_AWAY)
        note = "becomes zero";
    if (*note)
        snprintf(o->note, sizeof o->note, "%s", note);
}

static outcome encode(const fm_number_format *f, const fm_encoding *how, double x)
{
    outcome o = {0};
    if (f->type == FM_FP64) {
        memcpy(&o.code, &x, sizeof o.code);
        o.value = x;
    } else {
        o.code = fm_number_encode_f64(f->type, x, how);
        o.value = (double)fm_number_decode(f->type, (uint32_t)o.code);
    }
    write_note(&o, f, how, x);
    return o;
}

static int code_digits(const fm_number_format *f)
{
    return f->type == FM_TF32 ? 8 : (f->bits + 3) / 4;
}

// ---- text -----------------------------------------------------------------------------------------------------------

static const char *overflow_words(const fm_number_format *f)
{
    return f->overflow == FM_OVERFLOW_INFINITY ? "infinity" : f->overflow == FM_OVERFLOW_NAN ? "NaN" : "saturates";
}

static const char *nan_words(const fm_number_format *f)
{
    switch (f->nan) {
    case FM_NAN_QUIET:
        return "quiet, payload kept";
    case FM_NAN_SIGNED:
        return "NaN, sign kept";
    case FM_NAN_SINGLE:
        return "the only NaN";
    case FM_NAN_NEG_ZERO:
        return "-0 (negative: 0)";
    default:
        return "0";
    }
}

static fm_status print_types(const options *o, fm_buf *out, fm_err *err)
{
    fm_table t = {0};
    static const char *const heads[] = {
        "type",     "bits",    "sign/exp/frac", "bias",       "largest", "smallest normal",
        "smallest", "epsilon", "overflow",      "NaN becomes"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        fm_table_column(&t, heads[i], i >= 1 && i <= 7 ? FM_ALIGN_RIGHT : FM_ALIGN_LEFT);
    for (unsigned i = 0; i < FM_N_NUMBERS; i++) {
        const fm_number_format *f = fm_number_info((fm_number)i);
        if (!o->shown[i])
            continue;
        fm_table_cell(&t, "%s", f->name);
        fm_table_cell(&t, "%u", f->bits);
        fm_table_cell(&t, "%u/%u/%u", f->sign_bits, f->exponent_bits, f->fraction_bits);
        fm_table_cell(&t, "%d", f->bias);
        fm_table_cell(&t, "%.6g", f->max_finite);
        fm_table_cell(&t, "%.6g", f->min_normal);
        fm_table_cell(&t, "%.6g", f->min_subnormal);
        fm_table_cell(&t, "%.6g", f->epsilon);
        fm_table_cell(&t, "%s", overflow_words(f));
        fm_table_cell(&t, "%s", nan_words(f));
    }
    fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    return status;
}

static void number_cell(fm_table *t, fm_buf *scratch, double v)
{
    fm_buf_clear(scratch);
    add_number(scratch, v);
    fm_table_cell(t, "%s", fm_buf_text(scratch));
}

static fm_status print_value(const options *o, const fm_encoding *how, double x, fm_buf *out, fm_err *err)
{
    fm_table t = {0};
    fm_buf scratch = {0};
    fm_table_column(&t, "type", FM_ALIGN_LEFT);
    fm_table_column(&t, "code", FM_ALIGN_RIGHT);
    fm_table_column(&t, "value", FM_ALIGN_RIGHT);
    fm_table_column(&t, "error", FM_ALIGN_RIGHT);
    fm_table_column(&t, "relative", FM_ALIGN_RIGHT);
    fm_table_column(&t, "note", FM_ALIGN_LEFT);
    for (unsigned i = 0; i < FM_N_NUMBERS; i++) {
        const fm_number_format *f = fm_number_info((fm_number)i);
        if (!o->shown[i])
            continue;
        outcome r = encode(f, how, x);
        fm_table_cell(&t, "%s", f->name);
        fm_table_cell(&t, "0x%0*" PRIx64, code_digits(f), r.code);
        number_cell(&t, &scratch, r.value);
        if (isfinite(x) && isfinite(r.value)) {
            fm_table_cell(&t, "%.6g", r.value - x);
            if (x != 0)
                fm_table_cell(&t, "%.3g%%", fabs(r.value - x) / fabs(x) * 100);
            else
                fm_table_cell(&t, "%s", "");
        } else {
            fm_table_cell(&t, "%s", "");
            fm_table_cell(&t, "%s", "");
        }
        fm_table_cell(&t, "%s", r.note);
    }
    add_number(out, x);
    fm_buf_printf(out, " as fp64 %a, rounding %s%s\n\n", x, fm_rounding_name(how->rounding),
                  how->saturate ? ", saturating" : "");
    fm_status status = fm_buf_check(&scratch, err);
    if (status == FM_OK)
        status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    fm_buf_reset(&scratch);
    return status;
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

// JSON has no NaN and no infinities: they are texts.
static void put_number(fm_json *j, const char *key, double v)
{
    if (isfinite(v))
        fm_json_put_f64(j, key, v);
    else
        fm_json_put_text(j, key, v != v ? "nan" : v < 0 ? "-inf" : "inf");
}

static void put_type(fm_json *j, const fm_number_format *f)
{
    fm_json_begin_object(j);
    fm_json_put_text(j, "name", f->name);
    fm_json_key(j, "aliases");
    fm_json_begin_array(j);
    for (const char *word = f->aliases; *word;) {
        size_t n = strcspn(word, " ");
        fm_json_text_n(j, word, n);
        word += n + (word[n] == ' ');
    }
    fm_json_end_array(j);
    fm_json_put_text(j, "layout", f->layout);
    fm_json_put_text(j, "source", f->source);
    fm_json_put_u64(j, "bits", f->bits);
    fm_json_put_u64(j, "sign_bits", f->sign_bits);
    fm_json_put_u64(j, "exponent_bits", f->exponent_bits);
    fm_json_put_u64(j, "fraction_bits", f->fraction_bits);
    fm_json_put_i64(j, "bias", f->bias);
    fm_json_put_bool(j, "has_infinity", f->has_infinity);
    fm_json_put_bool(j, "has_nan", f->has_nan);
    fm_json_put_bool(j, "has_negative_zero", f->has_neg_zero);
    fm_json_put_f64(j, "max", f->max_finite);
    fm_json_put_f64(j, "min", f->lowest);
    fm_json_put_f64(j, "smallest_normal", f->min_normal);
    fm_json_put_f64(j, "smallest_positive", f->min_subnormal);
    fm_json_put_f64(j, "epsilon", f->epsilon);
    fm_json_put_text(j, "overflow", overflow_words(f));
    fm_json_put_text(j, "nan_becomes", nan_words(f));
    fm_json_end_object(j);
}

static void put_value(fm_json *j, const options *o, const fm_encoding *how, double x)
{
    fm_json_begin_object(j);
    put_number(j, "value", x);
    fm_json_key(j, "types");
    fm_json_begin_array(j);
    for (unsigned i = 0; i < FM_N_NUMBERS; i++) {
        const fm_number_format *f = fm_number_info((fm_number)i);
        if (!o->shown[i])
            continue;
        outcome r = encode(f, how, x);
        char code[24];
        snprintf(code, sizeof code, "0x%0*" PRIx64, code_digits(f), r.code);
        fm_json_begin_object(j);
        fm_json_put_text(j, "type", f->name);
        fm_json_put_text(j, "code", code);
        put_number(j, "value", r.value);
        fm_json_key(j, "error");
        if (isfinite(r.value) && isfinite(x) && isfinite(r.value - x))
            fm_json_f64(j, r.value - x);
        else
            fm_json_null(j);
        fm_json_put_text(j, "note", r.note);
        fm_json_end_object(j);
    }
    fm_json_end_array(j);
    fm_json_end_object(j);
}

// ---- the command ----------------------------------------------------------------------------------------------------

static fm_status parse_value(const char *text, double *out, fm_err *err)
{
    char *end = NULL;
    errno = 0;
    double x = isspace((unsigned char)*text) ? 0 : strtod(text, &end);
    if (!end || end == text || *end)
        return fm_fail(err, FM_ERR_USAGE, "\"%s\" is not a number; write it like 70000, -1.5e-3, 0x1.8p3, inf or nan",
                       text);
    if (errno == ERANGE && isinf(x))
        return fm_fail(err, FM_ERR_USAGE, "\"%s\" is past fp64's largest, 1.79769313e308", text);
    *out = x;
    return FM_OK;
}

// "-1.5" and "-inf" are values, though they begin as an option does.
static bool is_negative_value(const char *text)
{
    return text[0] == '-' && (isdigit((unsigned char)text[1]) || text[1] == '.' || !strncasecmp(text + 1, "inf", 3) ||
                              !strncasecmp(text + 1, "nan", 3));
}

static fm_status parse_option(int option, const char *argument, options *o, bool *some, fm_err *err)
{
    fm_number type;
    char *end;
    switch (option) {
    case 't':
        if (fm_number_find(argument, &type, err) != FM_OK)
            return err->code;
        o->shown[type] = *some = true;
        return FM_OK;
    case 'r':
        return fm_rounding_find(argument, &o->how.rounding, err);
    case 's':
        o->how.saturate = true;
        return FM_OK;
    case 'S':
        errno = 0;
        o->how.seed = strtoull(argument, &end, 0);
        if (!isdigit((unsigned char)*argument) || *end || errno)
            return fm_fail(err, FM_ERR_USAGE, "--seed=%s: an integer from 0 to 2^64-1 is wanted", argument);
        return FM_OK;
    case 'j':
        o->json = true;
        return FM_OK;
    case 'h':
        o->help = true;
        return FM_OK;
    case ':':
        return fm_fail(err, FM_ERR_USAGE, "%s needs a value; see floodmark numbers --help", argument);
    default:
        return fm_fail(err, FM_ERR_USAGE, "unknown flag %s; see floodmark numbers --help", argument);
    }
}

// Fills *o; o->values is an array that the caller frees with fm_free.
static fm_status parse(int argc, char **argv, options *o, fm_err *err)
{
    static const struct option longs[] = {{"type", required_argument, NULL, 't'},
                                          {"rounding", required_argument, NULL, 'r'},
                                          {"saturate", no_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'S'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool some = false;
    o->values = fm_calloc((size_t)argc + 1, sizeof *o->values);
    if (!o->values)
        return fm_fail_memory(err, "the values");
    optind = 0; // another command may have used getopt before
    opterr = 0;
    while ((optind ? optind : 1) < argc) {
        int at = optind ? optind : 1;
        if (is_negative_value(argv[at])) {
            o->values[o->n_values++] = argv[at];
            optind = at + 1;
            continue;
        }
        int option = getopt_long(argc, argv, "+:t:r:shS:", longs, NULL);
        if (option == -1) { // a value, or "--" and then only values
            bool rest = optind > at && !strcmp(argv[at], "--");
            do {
                if (optind < argc)
                    o->values[o->n_values++] = argv[optind++];
            } while (rest && optind < argc);
            continue;
        }
        const char *argument = option == ':' || option == '?' ? argv[optind > at ? optind - 1 : at] : optarg;
        if (parse_option(option, argument, o, &some, err) != FM_OK)
            return err->code;
    }
    for (unsigned i = 0; i < FM_N_NUMBERS && !some; i++)
        o->shown[i] = true;
    return FM_OK;
}

static fm_status print_json(const options *o, fm_buf *out, fm_err *err)
{
    fm_json j;
    fm_json_init(&j, out, true);
    fm_json_begin_object(&j);
    fm_json_key(&j, o->n_values ? "values" : "types");
    fm_json_begin_array(&j);
    for (unsigned i = 0; i < FM_N_NUMBERS && !o->n_values; i++)
        if (o->shown[i])
            put_type(&j, fm_number_info((fm_number)i));
    fm_encoding how = o->how;
    for (int i = 0; i < o->n_values; i++, how.counter++) {
        double x;
        if (parse_value(o->values[i], &x, err) != FM_OK)
            return err->code;
        put_value(&j, o, &how, x);
    }
    fm_json_end_array(&j);
    fm_json_end_object(&j);
    return fm_json_finish(&j, err);
}

static fm_status print_text(const options *o, fm_buf *out, fm_err *err)
{
    if (!o->n_values)
        return print_types(o, out, err);
    fm_encoding how = o->how;
    for (int i = 0; i < o->n_values; i++, how.counter++) {
        double x;
        if (parse_value(o->values[i], &x, err) != FM_OK)
            return err->code;
        if (i)
            fm_buf_add_char(out, '\n');
        if (print_value(o, &how, x, out, err) != FM_OK)
            return err->code;
    }
    return FM_OK;
}

int fm_command_numbers(int argc, char **argv)
{
    options o = {0};
    fm_err err = {0};
    fm_buf out = {0};
    int exit_code = 0;
    fm_status status = parse(argc, argv, &o, &err);
    if (status == FM_OK && o.help)
        fm_buf_add_text(&out, usage);
    else if (status == FM_OK)
        status = o.json ? print_json(&o, &out, &err) : print_text(&o, &out, &err);
    if (status == FM_OK)
        status = fm_buf_check(&out, &err);
    if (status == FM_OK)
        status = fm_command_print(&out, &err);
    if (status != FM_OK) // a name that is not found was typed, too
        exit_code = fm_command_fail("numbers", &err, status == FM_ERR_NOT_FOUND);
    fm_buf_reset(&out);
    fm_free(o.values);
    return exit_code;
}
