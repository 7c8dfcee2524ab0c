// What quantizing cost, as text, JSON, CSV and a picture.
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/atomic_file.h"
#include "base/json_out.h"
#include "base/table.h"
#include "base/units.h"
#include "command/command.h"
#include "command/quantize_job.h"

typedef struct {
    uint64_t before, after, n_quantized, n_kept, n_fallback, n_own, n_non_finite, n_overflowed;
    fm_quant_error error;
} totals;

static totals add_up(const fm_job_list *list)
{
    totals t = {0};
    for (size_t i = 0; i < list->n_jobs; i++) {
        const fm_job *j = list->jobs + i;
        t.before += j->in->bytes;
        t.after += j->bytes_out;
        t.n_quantized += j->target.kind != FM_JOB_KEEP;
        t.n_kept += j->target.kind == FM_JOB_KEEP;
        t.n_fallback += j->fell_back;
        t.n_own += j->target.kind == FM_JOB_SCHEME && j->layout == FM_LAYOUT_OWN;
        t.n_non_finite += j->n_non_finite;
        t.n_overflowed += j->n_overflowed;
        fm_quant_error_merge(&t.error, &j->error);
    }
    return t;
}

static double share(uint64_t part, uint64_t all)
{
    return all ? (double)part / (double)all : 0;
}

static const char *input_type(const fm_job *j)
{
    return fm_tensor_type_of(j->in->type)->name;
}

// "row" when the scales of rows would have gained 6 dB; "" when nothing coarser than what is there would.
static const char *advice(const fm_job *j)
{
    if (!j->advised || j->target.kind != FM_JOB_SCHEME || fm_grid_kind_of(j->target.scheme.grid) == FM_GRID_KIND_FLOAT)
        return "";
    fm_granularity now = j->target.scheme.granularity, better = fm_quant_better(&j->advice, now);
    return better == now ? "" : fm_granularity_name(better);
}

static void put_number(fm_json *json, const char *key, double v)
{
    fm_json_key(json, key);
    if (isfinite(v))
        fm_json_f64(json, v);
    else
        fm_json_null(json);
}

static void put_error(fm_json *json, const fm_quant_error *e)
{
    put_number(json, "sqnr_db", fm_quant_sqnr_db(e));
    put_number(json, "rmse", fm_quant_rmse(e));
    put_number(json, "max_error", e->max_abs_err);
    put_number(json, "clipped", share(e->n_clipped, e->n_elems));
    put_number(json, "zeroed", share(e->n_zeroed, e->n_elems));
    fm_json_put_u64(json, "n_clipped", e->n_clipped);
    fm_json_put_u64(json, "n_zeroed", e->n_zeroed);
    fm_json_put_u64(json, "n_saturated_scales", e->n_saturated_scales);
}

static void put_job(fm_json *json, const fm_job *j)
{
    char text[FM_SCHEME_TEXT_BYTES];
    fm_json_begin_object(json);
    fm_json_put_text(json, "name", j->in->name);
    fm_json_key(json, "shape");
    fm_json_begin_array(json);
    for (uint32_t d = 0; d < j->in->n_dims; d++)
        fm_json_u64(json, j->in->dims[d]);
    fm_json_end_array(json);
    fm_json_put_text(json, "from", input_type(j));
    fm_json_put_text(json, "format", j->target.kind == FM_JOB_KEEP ? input_type(j) : fm_target_text(&j->target, text));
    if (j->target.kind == FM_JOB_SCHEME)
        fm_json_put_text(json, "layout", fm_layout_name(j->layout));
    fm_json_put_bool(json, "kept", j->target.kind == FM_JOB_KEEP);
    fm_json_put_bool(json, "fallback", j->fell_back);
    fm_json_put_text(json, "note", j->note);
    fm_json_put_u64(json, "bytes_before", j->in->bytes);
    fm_json_put_u64(json, "bytes_after", j->bytes_out);
    if (j->measured) {
        put_error(json, &j->error);
        fm_json_put_u64(json, "n_non_finite", j->n_non_finite);
        fm_json_put_u64(json, "n_overflowed", j->n_overflowed);
        if (j->advised) {
            fm_json_put_u64(json, "n_outlier_columns", j->advice.n_outlier_columns);
            put_number(json, "largest_column_ratio", (double)j->advice.largest_ratio);
            fm_json_put_text(json, "would_help", advice(j)[0] ? advice(j) : NULL);
        }
    }
    fm_json_end_object(json);
}

static fm_status json_text(const fm_quantize_options *o, const fm_job_list *list, fm_buf *out, fm_err *err)
{
    fm_json json;
    totals t = add_up(list);
    fm_json_init(&json, out, true);
    fm_json_begin_object(&json);
    fm_json_put_text(&json, "input", o->in);
    fm_json_put_text(&json, "output", o->out);
    fm_json_put_text(&json, "format", o->format);
    fm_json_put_bool(&json, "dry_run", o->dry_run);
    fm_json_key(&json, "total");
    fm_json_begin_object(&json);
    fm_json_put_u64(&json, "n_tensors", list->n_jobs);
    fm_json_put_u64(&json, "n_quantized", t.n_quantized);
    fm_json_put_u64(&json, "n_kept", t.n_kept);
    fm_json_put_u64(&json, "n_fallback", t.n_fallback);
    fm_json_put_u64(&json, "bytes_before", t.before);
    fm_json_put_u64(&json, "bytes_after", t.after);
    if (!o->dry_run) {
        put_error(&json, &t.error);
        fm_json_put_u64(&json, "n_non_finite", t.n_non_finite);
        fm_json_put_u64(&json, "n_overflowed", t.n_overflowed);
    }
    fm_json_end_object(&json);
    fm_json_key(&json, "tensors");
    fm_json_begin_array(&json);
    for (size_t i = 0; i < list->n_jobs; i++)
        put_job(&json, list->jobs + i);
    fm_json_end_array(&json);
    fm_json_end_object(&json);
    return fm_json_finish(&json, err);
}

static void cell_db(fm_table *t, const fm_quant_error *e)
{
    double db = fm_quant_sqnr_db(e);
    if (isinf(db))
        fm_table_cell(t, "exact");
    else
        fm_table_cell(t, "%.1f", db);
}

static void cell_share(fm_table *t, uint64_t part, uint64_t all)
{
    if (part == 0)
        fm_table_cell(t, "0");
    else if (share(part, all) < 0.00005)
        fm_table_cell(t, "%" PRIu64, part);
    else
        fm_table_cell(t, "%.2f%%", 100 * share(part, all));
}

static void table_row(fm_table *t, const fm_job *j, bool dry)
{
    char text[FM_SCHEME_TEXT_BYTES], before[FM_UNITS_TEXT_BYTES], after[FM_UNITS_TEXT_BYTES], shape[64];
    fm_table_cell(t, "%s", j->in->name);
    fm_table_cell(t, "%s", fm_tensor_shape_text(j->in->n_dims, j->in->dims, shape, sizeof shape));
    fm_table_cell(t, "%s", input_type(j));
    fm_table_cell(t, "%s", j->target.kind == FM_JOB_KEEP ? "=" : fm_target_text(&j->target, text));
    fm_table_cell(t, "%s", fm_format_bytes(before, j->in->bytes, FM_UNITS_GIB, 1));
    fm_table_cell(t, "%s", fm_format_bytes(after, j->bytes_out, FM_UNITS_GIB, 1));
    if (!dry && j->measured) {
        cell_db(t, &j->error);
        fm_table_cell(t, "%.3g", fm_quant_rmse(&j->error));
        fm_table_cell(t, "%.3g", j->error.max_abs_err);
        cell_share(t, j->error.n_clipped, j->error.n_elems);
        cell_share(t, j->error.n_zeroed, j->error.n_elems);
        if (j->advised && j->advice.n_outlier_columns)
            fm_table_cell(t, "%" PRIu64, j->advice.n_outlier_columns);
        else
            fm_table_cell(t, "%s", "");
        fm_table_cell(t, "%s", advice(j));
    } else if (!dry) {
        for (int i = 0; i < 7; i++)
            fm_table_cell(t, "%s", "");
    }
    fm_table_cell(t, "%s", j->note);
}

static fm_status text(const fm_quantize_options *o, const fm_job_list *list, fm_buf *out, fm_err *err)
{
    fm_table table = {0};
    totals t = add_up(list);
    static const char *const heads[] = {"tensor", "shape",           "from",       "to",        "before",
                                        "after",  "SQNR dB",         "RMSE",       "max error", "clipped",
                                        "zeroed", "outlier columns", "would help", "note"};
    for (int i = 0; i < 14; i++)
        if (!o->dry_run || i < 6 || i == 13)
            fm_table_column(&table, heads[i], i < 4 || i > 11 ? FM_ALIGN_LEFT : FM_ALIGN_RIGHT);
    for (size_t i = 0; i < list->n_jobs; i++)
        table_row(&table, list->jobs + i, o->dry_run);
    fm_status status = fm_table_print(&table, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&table);
    char before[FM_UNITS_TEXT_BYTES], after[FM_UNITS_TEXT_BYTES];
    fm_buf_printf(out, "\n%zu tensors, %" PRIu64 " quantized, %" PRIu64 " kept as they are", list->n_jobs,
                  t.n_quantized, t.n_kept);
    if (t.n_fallback)
        fm_buf_printf(out, ", %" PRIu64 " fell back to another format", t.n_fallback);
    if (t.n_own) // what was asked for, or rows that are not whole blocks, has no place in compressed-tensors' files
        fm_buf_printf(out, "\n%" PRIu64 " of them in Floodmark's own layout, which other libraries do not read",
                      t.n_own);
    fm_buf_printf(out, "\n%s -> %s (%.1f%%)", fm_format_bytes(before, t.before, FM_UNITS_GIB, 1),
                  fm_format_bytes(after, t.after, FM_UNITS_GIB, 1), 100 * share(t.after, t.before));
    double db = fm_quant_sqnr_db(&t.error);
    if (!o->dry_run && t.error.n_elems && isfinite(db))
        fm_buf_printf(out, ", SQNR %.1f dB, RMSE %.3g, largest error %.3g", db, fm_quant_rmse(&t.error),
                      t.error.max_abs_err);
    else if (!o->dry_run && t.error.n_elems)
        fm_buf_add_text(out, ", exact");
    fm_buf_printf(out, "\n%s%s\n", o->dry_run ? "dry run: nothing was written to " : "wrote ", o->out);
    return status;
}

fm_status fm_quantize_render(const fm_quantize_options *o, const fm_job_list *list, fm_buf *out, fm_err *err)
{
    fm_status status = o->json ? json_text(o, list, out, err) : text(o, list, out, err);
    return status ? status : fm_buf_check(out, err);
}

static void csv_cell(fm_buf *b, const char *text)
{
    if (!strpbrk(text, "\",\r\n")) {
        fm_buf_add_text(b, text);
        return;
    }
    fm_buf_add_char(b, '"');
    for (; *text; text++) {
        if (*text == '"')
            fm_buf_add_char(b, '"');
        fm_buf_add_char(b, *text);
    }
    fm_buf_add_char(b, '"');
}

static void csv_text(const fm_job_list *list, fm_buf *b)
{
    char text[FM_SCHEME_TEXT_BYTES];
    fm_buf_add_text(
        b, "tensor,from,format,bytes_before,bytes_after,sqnr_db,rmse,max_error,n_clipped,n_zeroed,n_saturated_scales,"
           "n_outlier_columns,would_help,note\n");
    for (size_t i = 0; i < list->n_jobs; i++) {
        const fm_job *j = list->jobs + i;
        double db = fm_quant_sqnr_db(&j->error);
        csv_cell(b, j->in->name);
        fm_buf_printf(b, ",%s,", input_type(j));
        csv_cell(b, j->target.kind == FM_JOB_KEEP ? input_type(j) : fm_target_text(&j->target, text));
        fm_buf_printf(b, ",%" PRIu64 ",%" PRIu64 ",", j->in->bytes, j->bytes_out);
        if (j->measured) {
            if (isfinite(db))
                fm_buf_add_f64(b, db);
            else
                fm_buf_add_text(b, "inf");
            fm_buf_add_char(b, ',');
            fm_buf_add_f64(b, fm_quant_rmse(&j->error));
            fm_buf_add_char(b, ',');
            fm_buf_add_f64(b, j->error.max_abs_err);
            fm_buf_printf(b, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", j->error.n_clipped, j->error.n_zeroed,
                          j->error.n_saturated_scales);
            if (j->advised)
                fm_buf_printf(b, "%" PRIu64, j->advice.n_outlier_columns);
            fm_buf_printf(b, ",%s,", advice(j));
        } else {
            fm_buf_add_text(b, ",,,,,,,,");
        }
        csv_cell(b, j->note);
        fm_buf_add_char(b, '\n');
    }
}

static fm_status svg_text(const fm_quantize_options *o, const fm_job_list *list, fm_buf *b, fm_err *err)
{
    fm_quant_bar *bars = fm_alloc_array(list->n_jobs + 1, sizeof *bars);
    char title[512], *svg = NULL;
    size_t n = 0;
    if (!bars)
        return fm_fail_memory(err, "picture");
    for (size_t i = 0; i < list->n_jobs; i++)
        if (list->jobs[i].measured)
            bars[n++] = (fm_quant_bar){list->jobs[i].in->name, fm_quant_sqnr_db(&list->jobs[i].error), o->format};
    snprintf(title, sizeof title, "%s as %s: signal to error by layer", o->in, o->format);
    fm_status status = fm_quant_svg(n, bars, title, &svg, err);
    if (!status)
        fm_buf_add_text(b, svg);
    fm_free(svg);
    fm_free(bars);
    return status;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

fm_status fm_quantize_write_reports(const fm_quantize_options *o, const fm_job_list *list, fm_err *err)
{
    fm_status status = FM_OK;
    for (size_t i = 0; i < o->n_reports && !status; i++) {
        fm_buf b = {0};
        if (ends_with(o->reports[i], ".svg"))
            status = svg_text(o, list, &b, err);
        else if (ends_with(o->reports[i], ".json"))
            status = json_text(o, list, &b, err);
        else
            csv_text(list, &b);
        if (!status)
            status = fm_buf_check(&b, err);
        if (!status)
            status = fm_atomic_file_write(o->reports[i], b.data, b.size, true, err);
        fm_buf_reset(&b);
    }
    return status;
}

static void warn_one(const char *what, uint64_t count, const char *first, const char *advice_text)
{
    char n[FM_UNITS_TEXT_BYTES];
    fm_err line; // as an error's, its text is one line without control characters, whatever the tensor is called
    if (!count)
        return;
    fm_fail(&line, FM_ERR_VALUE, "warning: %s %s (first in \"%.200s\")%s", fm_format_count(n, count), what, first,
            advice_text);
    fprintf(stderr, "floodmark quantize: %s\n", line.message);
}

// A pattern with a typo would leave its tensors to --format.
static void warn_unused_keeps(const fm_quantize_options *o, const fm_job_list *list)
{
    for (size_t i = 0; i < o->n_keeps; i++) {
        size_t k = 0;
        fm_err line; // one line, see warn_one
        while (k < list->n_jobs && fnmatch(o->keeps[i].pattern, list->jobs[k].in->name, 0) != 0)
            k++;
        if (k < list->n_jobs)
            continue;
        fm_fail(&line, FM_ERR_VALUE, "warning: --keep \"%.200s\" matches no tensor; floodmark inspect lists them",
                o->keeps[i].pattern);
        fprintf(stderr, "floodmark quantize: %s\n", line.message);
    }
}

void fm_quantize_warn(const fm_quantize_options *o, const fm_job_list *list)
{
    enum { N = 7 };
    uint64_t n[N] = {0};
    const char *first[N] = {0};
    warn_unused_keeps(o, list);
    for (size_t i = 0; i < list->n_jobs; i++) {
        const fm_job *j = list->jobs + i;
        bool cast = j->target.kind == FM_JOB_CAST, blocks = j->target.kind == FM_JOB_BLOCKS;
        const uint64_t add[N] = {j->n_non_finite,
                                 cast ? j->n_overflowed : 0,
                                 blocks ? j->n_overflowed : 0,
                                 cast || blocks ? 0 : j->n_overflowed,
                                 j->error.n_saturated_scales,
                                 cast ? j->error.n_clipped : 0,
                                 j->error.n_zeroed};
        for (int k = 0; k < N; k++) {
            if (add[k] && !n[k])
                first[k] = j->in->name;
            n[k] += add[k];
        }
    }
    warn_one(o->non_finite == FM_NON_FINITE_ZERO ? "values that were NaN or infinite became zero"
                                                 : "values are NaN or infinite",
             n[0], first[0], "");
    warn_one("values overflowed to infinity", n[1], first[1], "");
    warn_one("blocks are too large for their scale and decode to garbage", n[2], first[2], "; --rescue clamps them");
    warn_one("values decode to infinity", n[3], first[3], "");
    warn_one("scales were beyond the largest of their type and saturated", n[4], first[4], "; --scale fp32 holds them");
    warn_one("values were beyond the largest and saturated", n[5], first[5], "");
    warn_one("values other than zero became zero", n[6], first[6], "");
}
