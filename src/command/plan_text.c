// The report of a plan for a terminal.
#include <stdio.h>
#include <string.h>
#include "base/table.h"
#include "command/plan_view.h"

enum { TIMELINE_ROWS = 8, BAR_CELLS = 24 };

static const char *unit_name(fm_units units)
{
    return units == FM_UNITS_GB ? "GB" : "GiB";
}

// "105", "17.5", "2.36": at most two decimals, no unit.
static char *short_giga(char out[FM_UNITS_TEXT_BYTES], uint64_t bytes, fm_units units)
{
    fm_format_giga(out, bytes, units, 2);
    char *space = strchr(out, ' ');
    if (space)
        *space = 0;
    char *point = strchr(out, '.');
    for (size_t n = strlen(out); point && n && (out[n - 1] == '0' || out[n - 1] == '.'); n--) {
        bool was_point = out[n - 1] == '.';
        out[n - 1] = 0;
        if (was_point)
            break;
    }
    return out;
}

static void verdict_line(const fm_plan_view *view, fm_units units, fm_buf *out)
{
    fm_view_verdict v = fm_view_judge(view);
    char peak[FM_UNITS_TEXT_BYTES], memory[FM_UNITS_TEXT_BYTES], amount[FM_UNITS_TEXT_BYTES], host[FM_UNITS_TEXT_BYTES];
    const char *owner = view->machine->gpu.vendor == FM_VENDOR_CPU ? "each rank" : "the GPU";
    const char *phase = view->n_phases ? view->phases[view->peak_phase].name : "";
    uint64_t spare = v.spare_bytes < 0 ? (uint64_t)0 - (uint64_t)v.spare_bytes : (uint64_t)v.spare_bytes;
    fm_format_giga(peak, view->peak_bytes, units, 2);
    fm_format_giga(memory, v.memory_bytes, units, 2);
    fm_format_giga(amount, spare, units, 2);
    if (v.host) {
        fm_buf_printf(out, "DOES NOT FIT: the %lld ranks of a node need %s of host memory; it has %s%s\n",
                      (long long)view->machine->gpus_per_node, fm_format_giga(amount, v.host_node_bytes, units, 2),
                      fm_format_giga(host, view->machine->host_bytes, units, 2),
                      view->machine->host_stated ? "" : " (a guess: state host_bytes in a machine file)");
        return;
    }
    switch (v.verdict) {
    case FM_VERDICT_FITS:
        fm_buf_printf(out, "FITS with %s to spare: highest %s in %s; %s has %s", amount, peak, phase, owner, memory);
        break;
    case FM_VERDICT_TIGHT:
        fm_buf_printf(out, "TIGHT: only %s to spare: highest %s in %s; %s has %s", amount, peak, phase, owner, memory);
        break;
    case FM_VERDICT_DOES_NOT_FIT:
        fm_buf_printf(out, "DOES NOT FIT: %s too much: highest %s in %s; %s has %s", amount, peak, phase, owner,
                      memory);
        break;
    }
    if (v.reserve_bytes)
        fm_buf_printf(out, ", of which %s go to the driver and libraries",
                      fm_format_giga(amount, v.reserve_bytes, units, 2));
    fm_buf_add_char(out, '\n');
}

static void subject_line(const fm_plan_view *view, fm_buf *out)
{
    const fm_recipe *r = view->recipe;
    char count[FM_UNITS_TEXT_BYTES], checkpoint[64], clip[64];
    fm_buf_printf(out, "%s (%s parameters) on %s: %s", view->model, fm_format_count_short(count, view->n_params),
                  view->machine->text, fm_word_text(FM_FIELD_ENGINE, r->engine));
    fm_buf_printf(out, ", %s parameters, computing in %s", fm_word_text(FM_FIELD_PARAM, r->param),
                  fm_word_text(FM_FIELD_COMPUTE, r->compute));
    if (r->how != FM_HOW_NONE)
        fm_buf_printf(out, " (%s)", fm_word_text(FM_FIELD_HOW, r->how));
    fm_buf_printf(out, ", %s, batch %lld x %lld", fm_word_text(FM_FIELD_OPTIMIZER, r->optimizer), (long long)r->batch,
                  (long long)r->seq);
    if (r->accumulate > 1)
        fm_buf_printf(out, " x %lld microbatches", (long long)r->accumulate);
    if (r->checkpoint != FM_CHECKPOINT_NONE)
        fm_buf_printf(out, ", checkpoint %s", fm_recipe_text(r, FM_FIELD_CHECKPOINT, checkpoint, sizeof checkpoint));
    if (r->clip >= 0)
        fm_buf_printf(out, ", clip %s", fm_recipe_text(r, FM_FIELD_CLIP, clip, sizeof clip));
    fm_buf_add_char(out, '\n');
}

// Parts from largest to smallest.
static void sort_parts(fm_view_part *parts, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k && parts[k - 1].bytes < parts[k].bytes; k--) {
            fm_view_part swap = parts[k];
            parts[k] = parts[k - 1];
            parts[k - 1] = swap;
        }
}

static fm_status print_roles(const fm_plan_view *view, fm_units units, fm_buf *out, fm_err *err)
{
    fm_table t = {0};
    fm_view_part parts[FM_VIEW_PARTS];
    char amount[FM_UNITS_TEXT_BYTES], name[48];
    memcpy(parts, view->at_peak, sizeof parts);
    sort_parts(parts, view->n_at_peak);
    fm_table_column(&t, "at the peak", FM_ALIGN_LEFT);
    fm_table_column(&t, unit_name(units), FM_ALIGN_RIGHT);
    fm_table_column(&t, "%", FM_ALIGN_RIGHT);
    fm_table_column(&t, "", FM_ALIGN_LEFT);
    fm_table_column(&t, "", FM_ALIGN_LEFT);
    for (size_t i = 0; i < view->n_at_peak; i++) {
        double share = view->peak_bytes ? (double)parts[i].bytes / (double)view->peak_bytes : 0;
        char bar[BAR_CELLS * 3 + 1] = "";
        for (int cell = 0; cell < (int)(share * BAR_CELLS + 0.5); cell++)
            memcpy(bar + strlen(bar), "█", sizeof "█");
        snprintf(name, sizeof name, "%s", parts[i].name);
        for (char *c = name; *c; c++)
            *c = *c == '_' ? ' ' : *c;
        fm_format_giga(amount, parts[i].bytes, units, 2);
        fm_table_cell(&t, "%s", name);
        fm_table_cell(&t, "%.*s", (int)strcspn(amount, " "), amount);
        fm_table_cell(&t, "%.1f", share * 100);
        fm_table_cell(&t, "%s", bar);
        fm_table_cell(&t, "%s", parts[i].words);
    }
    fm_table_rule(&t);
    fm_format_giga(amount, view->peak_bytes, units, 2);
    fm_table_cell(&t, "total");
    fm_table_cell(&t, "%.*s", (int)strcspn(amount, " "), amount);
    fm_table_end_row(&t);
    fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    return status;
}

static fm_status print_phases(const fm_plan_view *view, fm_units units, fm_buf *out, fm_err *err)
{
    fm_table t = {0};
    char peak[FM_UNITS_TEXT_BYTES], end[FM_UNITS_TEXT_BYTES];
    fm_table_column(&t, "phase", FM_ALIGN_LEFT);
    fm_table_column(&t, "peak", FM_ALIGN_RIGHT);
    fm_table_column(&t, "at its end", FM_ALIGN_RIGHT);
    fm_table_column(&t, "", FM_ALIGN_LEFT);
    for (size_t i = 0; i < view->n_phases; i++) {
        fm_table_cell(&t, "%s", view->phases[i].name);
        fm_table_cell(&t, "%s", fm_format_giga(peak, view->phases[i].peak_bytes, units, 2));
        fm_table_cell(&t, "%s", fm_format_giga(end, view->phases[i].end_bytes, units, 2));
        fm_table_cell(&t, "%s", i == view->peak_phase ? "<- highest" : "");
    }
    fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    return status;
}

static void states_line(const fm_plan_view *view, fm_units units, fm_buf *out)
{
    char p[FM_UNITS_TEXT_BYTES], g[FM_UNITS_TEXT_BYTES], o[FM_UNITS_TEXT_BYTES], m[FM_UNITS_TEXT_BYTES],
        t[FM_UNITS_TEXT_BYTES];
    uint64_t total = view->states.parameters + view->states.gradients + view->states.optimizer + view->states.master;
    fm_buf_printf(out, "States a rank: parameters %s + gradients %s + optimizer %s",
                  short_giga(p, view->states.parameters, units), short_giga(g, view->states.gradients, units),
                  short_giga(o, view->states.optimizer, units));
    if (view->states.master)
        fm_buf_printf(out, " + master weights %s", short_giga(m, view->states.master, units));
    fm_buf_printf(out, " = %s %s", short_giga(t, total, units), unit_name(units));
    if (view->n_params && view->recipe->shard == 1)
        fm_buf_printf(out, " (%.4g bytes a parameter)", (double)total / (double)view->n_params);
    fm_buf_add_char(out, '\n');
    if (view->host_peak_bytes)
        fm_buf_printf(out, "Host memory a rank: %s\n", fm_format_bytes(p, view->host_peak_bytes, units, 2));
}

fm_status fm_view_text(const fm_plan_view *view, fm_units units, unsigned width, fm_buf *out, fm_err *err)
{
    verdict_line(view, units, out);
    subject_line(view, out);
    for (uint32_t i = 0; i < view->recipe->n_warnings; i++)
        fm_buf_printf(out, "warning: %s\n", view->recipe->warning[i]);
    for (size_t i = 0; i < view->n_notes; i++)
        fm_buf_printf(out, "note: %s\n", view->notes[i]);
    fm_buf_add_char(out, '\n');
    fm_status status = print_roles(view, units, out, err);
    fm_buf_add_char(out, '\n');
    if (!status)
        status = print_phases(view, units, out, err);
    if (view->n_series) {
        fm_buf_add_char(out, '\n');
        fm_view_timeline(view, units, width, TIMELINE_ROWS, out);
    }
    fm_buf_add_char(out, '\n');
    states_line(view, units, out);
    return status ? status : fm_buf_check(out, err);
}
