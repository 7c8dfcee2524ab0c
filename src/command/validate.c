// floodmark validate: predictions against measured or simulated truth.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/json_out.h"
#include "base/table.h"
#include "base/units.h"
#include "command/command.h"
#include "command/flags.h"
#include "command/score.h"
#include "floodmark/cases.h"
#include "simulate/request.h"

static const char usage[] =
    "Usage: floodmark validate CASES.csv [FLAG...]\n"
    "Predicts every row of a case file and says how far the predictions are from its bytes.\n\n"
    "  --where CONDITION  only rows with column=value,... (raw cells; column= matches an empty one; conditions on\n"
    "                     one column are alternatives)\n"
    "  --rows             each row, worst first\n"
    "  --json             print JSON: n, median_ape, p95_ape, max_ape, bias, groups, not_asked, with --rows rows\n"
    "  -h, --help         print this help\n\n"
    "ape is |predicted - bytes| / max(bytes, 512), bias the mean of (predicted - bytes) / max(bytes, 512), p95 by "
    "nearest\n"
    "rank. Rows with trust=exact are predicted as they were made: rank 0, no kernel scratch, no library workspaces.\n"
    "Rows outside the vocabulary or not built yet are not asked, and listed with the reason. Exit 0 whatever the "
    "errors.\n";

typedef struct {
    bool help, json, rows;
    const char *path;
    fm_where *where;
} options;

// A row that was predicted.
typedef struct {
    char *id;
    const char *phase, *engine; // static words
    char *model;
    uint64_t roles[FM_N_ROLES];
} row;

typedef struct {
    char *id, *reason;
    uint32_t line;
} refusal;

typedef struct {
    row *rows;
    fm_score_row *scores; // [n_rows], beside rows
    size_t n_rows, rows_capacity, scores_capacity;
    refusal *refusals;
    size_t n_refusals, refusals_capacity;
    // The last plan made: a case has a row for each phase.
    bool has_plan, exact;
    fm_recipe asked;
    fm_request request;
    fm_plan plan;
} run;

static void forget_plan(run *r)
{
    if (r->has_plan) {
        fm_plan_reset(&r->plan);
        fm_request_reset(&r->request);
    }
    r->has_plan = false;
}

static void reset(run *r)
{
    forget_plan(r);
    for (size_t i = 0; i < r->n_rows; i++) {
        fm_free(r->rows[i].id);
        fm_free(r->rows[i].model);
    }
    for (size_t i = 0; i < r->n_refusals; i++) {
        fm_free(r->refusals[i].id);
        fm_free(r->refusals[i].reason);
    }
    fm_free(r->rows);
    fm_free(r->scores);
    fm_free(r->refusals);
}

static fm_status refuse(run *r, const fm_case *c, const char *reason, fm_err *err)
{
    refusal *grown = fm_grow(r->refusals, &r->refusals_capacity, r->n_refusals, sizeof *r->refusals);
    if (!grown)
        return fm_fail_memory(err, "validate");
    r->refusals = grown;
    refusal *x = &r->refusals[r->n_refusals];
    *x = (refusal){fm_strdup(c->id), fm_strdup(reason), c->line};
    r->n_refusals++;
    return x->id && x->reason ? FM_OK : fm_fail_memory(err, "validate");
}

// The recipe of a row without what differs between the rows of one case.
static fm_recipe recipe_of_case(const fm_case *c)
{
    fm_recipe recipe = c->recipe;
    recipe.phase = FM_AT_EMPTY;
    recipe.origin[FM_FIELD_PHASE] = FM_ORIGIN_EMPTY;
    return recipe;
}

static bool same_case(const run *r, const fm_recipe *recipe, bool exact)
{
    char a[FM_RECIPE_NAME_BYTES], b[FM_RECIPE_NAME_BYTES];
    if (!r->has_plan || r->exact != exact)
        return false;
    for (int f = 0; f < FM_N_FIELDS; f++)
        if (r->asked.origin[f] != recipe->origin[f] || strcmp(fm_recipe_text(&r->asked, (fm_field)f, a, sizeof a),
                                                              fm_recipe_text(recipe, (fm_field)f, b, sizeof b)) != 0)
            return false;
    return true;
}

static fm_status plan_case(run *r, const fm_case *c, fm_err *err)
{
    fm_recipe recipe = recipe_of_case(c);
    bool exact = c->trust == FM_TRUST_EXACT;
    if (same_case(r, &recipe, exact))
        return FM_OK;
    forget_plan(r);
    fm_status status = fm_request_make(&recipe, &r->request, NULL, err);
    if (status)
        return status;
    if ((status = fm_request_plan(&r->request, exact, false, &r->plan, err))) {
        fm_request_reset(&r->request);
        return status;
    }
    r->has_plan = true;
    r->exact = exact;
    r->asked = recipe;
    return FM_OK;
}

static fm_status keep(run *r, const fm_case *c, uint64_t predicted, const uint64_t *roles, fm_err *err)
{
    row *rows = fm_grow(r->rows, &r->rows_capacity, r->n_rows, sizeof *r->rows);
    if (rows)
        r->rows = rows;
    fm_score_row *scores = rows ? fm_grow(r->scores, &r->scores_capacity, r->n_rows, sizeof *r->scores) : NULL;
    if (!scores)
        return fm_fail_memory(err, "validate");
    r->scores = scores;
    row *x = &r->rows[r->n_rows];
    *x = (row){.id = fm_strdup(c->id),
               .phase = fm_word_text(FM_FIELD_PHASE, (int)c->phase),
               .engine = fm_word_text(FM_FIELD_ENGINE, (int)r->request.recipe.engine),
               .model = fm_strdup(c->model)};
    memcpy(x->roles, roles, sizeof x->roles);
    r->scores[r->n_rows++] = (fm_score_row){predicted, c->bytes};
    return x->id && x->model ? FM_OK : fm_fail_memory(err, "validate");
}

static fm_status ask(run *r, const fm_case *c, fm_err *err)
{
    fm_err why = {0};
    uint64_t predicted = 0, roles[FM_N_ROLES];
    if (c->status)
        return refuse(r, c, c->reason, err);
    if (c->phase == FM_AT_EMPTY)
        return refuse(r, c, "phase: empty; a row must say where its figure was taken", err);
    fm_status status = plan_case(r, c, &why);
    if (status == FM_ERR_NO_MEMORY)
        return fm_fail_memory(err, "validate");
    if (status)
        return refuse(r, c, why.message, err);
    if (!fm_plan_roles(&r->plan, c->phase, &predicted, roles)) {
        char reason[120];
        snprintf(reason, sizeof reason, "phase %s: this recipe has no such phase",
                 fm_word_text(FM_FIELD_PHASE, (int)c->phase));
        return refuse(r, c, reason, err);
    }
    return keep(r, c, predicted, roles, err);
}

static fm_status ask_all(const options *o, run *r, fm_err *err)
{
    fm_cases *cases = NULL;
    fm_case c;
    bool more = true;
    fm_status status = fm_cases_open(o->path, &cases, err);
    while (!status && !(status = fm_cases_next(cases, &c, &more, err)) && more)
        if (fm_where_match(o->where, cases))
            status = ask(r, &c, err);
    fm_cases_close(cases);
    forget_plan(r);
    return status;
}

// ---- groups ----

static const char *const group_names[] = {"phase", "engine", "model"};
enum { N_GROUPS = 3 };

static const char *group_value(const row *x, int by)
{
    return by == 0 ? x->phase : by == 1 ? x->engine : x->model;
}

// Calls `tell` for every value of a group, in the order of its first row.
static fm_status each_value(const run *r, int by, void (*tell)(void *context, const char *value, const fm_score *s),
                            void *context, fm_err *err)
{
    size_t *pick = fm_alloc_array(r->n_rows ? r->n_rows : 1, sizeof *pick);
    bool *done = fm_calloc(r->n_rows ? r->n_rows : 1, sizeof *done);
    fm_status status = pick && done ? FM_OK : fm_fail_memory(err, "validate");
    for (size_t i = 0; !status && i < r->n_rows; i++) {
        const char *value = group_value(&r->rows[i], by);
        size_t n = 0;
        fm_score score;
        if (done[i])
            continue;
        for (size_t k = i; k < r->n_rows; k++)
            if (!done[k] && !strcmp(group_value(&r->rows[k], by), value)) {
                done[k] = true;
                pick[n++] = k;
            }
        if (!(status = fm_score_rows(r->scores, pick, n, &score, err)))
            tell(context, value, &score);
    }
    fm_free(pick);
    fm_free(done);
    return status;
}

// Row numbers from the worst to the best. fm_free.
typedef struct {
    double ape;
    size_t row;
} rank;

static int worst_first(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    if (x->ape != y->ape)
        return x->ape < y->ape ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

static rank *by_error(const run *r)
{
    rank *ranks = fm_alloc_array(r->n_rows ? r->n_rows : 1, sizeof *ranks);
    for (size_t i = 0; ranks && i < r->n_rows; i++)
        ranks[i] = (rank){fm_score_ape(r->scores[i].predicted, r->scores[i].bytes), i};
    if (ranks && r->n_rows)
        qsort(ranks, r->n_rows, sizeof *ranks, worst_first);
    return ranks;
}

// ---- JSON ----

static void json_group(void *context, const char *value, const fm_score *s)
{
    fm_json *j = context;
    fm_json_key(j, value);
    fm_json_begin_object(j);
    fm_json_put_u64(j, "n", s->n);
    fm_json_put_f64(j, "median_ape", s->median_ape);
    fm_json_put_f64(j, "p95_ape", s->p95_ape);
    fm_json_put_f64(j, "max_ape", s->max_ape);
    fm_json_put_f64(j, "bias", s->bias);
    fm_json_end_object(j);
}

static void json_row(fm_json *j, const run *r, size_t i)
{
    fm_json_begin_object(j);
    fm_json_put_text(j, "id", r->rows[i].id);
    fm_json_put_u64(j, "predicted", r->scores[i].predicted);
    fm_json_put_u64(j, "bytes", r->scores[i].bytes);
    fm_json_put_f64(j, "ape", fm_score_ape(r->scores[i].predicted, r->scores[i].bytes));
    fm_json_key(j, "terms");
    fm_json_begin_object(j);
    for (int role = 0; role < FM_N_ROLES; role++)
        if (r->rows[i].roles[role])
            fm_json_put_u64(j, fm_role_name((fm_role)role), r->rows[i].roles[role]);
    fm_json_end_object(j);
    fm_json_end_object(j);
}

static fm_status print_json(const options *o, const run *r, const fm_score *all, fm_buf *out, fm_err *err)
{
    fm_json json, *j = &json;
    fm_status status = FM_OK;
    fm_json_init(j, out, true);
    fm_json_begin_object(j);
    fm_json_put_u64(j, "n", all->n);
    fm_json_put_f64(j, "median_ape", all->median_ape);
    fm_json_put_f64(j, "p95_ape", all->p95_ape);
    fm_json_put_f64(j, "max_ape", all->max_ape);
    fm_json_put_f64(j, "bias", all->bias);
    fm_json_key(j, "groups");
    fm_json_begin_object(j);
    for (int by = 0; by < N_GROUPS && !status; by++) {
        fm_json_key(j, group_names[by]);
        fm_json_begin_object(j);
        status = each_value(r, by, json_group, j, err);
        fm_json_end_object(j);
    }
    fm_json_end_object(j);
    fm_json_key(j, "not_asked");
    fm_json_begin_array(j);
    for (size_t i = 0; i < r->n_refusals; i++) {
        fm_json_begin_object(j);
        fm_json_put_text(j, "id", r->refusals[i].id);
        fm_json_put_u64(j, "line", r->refusals[i].line);
        fm_json_put_text(j, "reason", r->refusals[i].reason);
        fm_json_end_object(j);
    }
    fm_json_end_array(j);
    if (o->rows) {
        fm_json_key(j, "rows");
        fm_json_begin_array(j);
        for (size_t i = 0; i < r->n_rows; i++)
            json_row(j, r, i);
        fm_json_end_array(j);
    }
    fm_json_end_object(j);
    return status ? status : fm_json_finish(j, err);
}

// ---- text ----

static void percent(fm_table *t, double share)
{
    fm_table_cell(t, "%.3f %%", share * 100);
}

typedef struct {
    fm_table table;
    const char *by;
} group_table;

static void text_group(void *context, const char *value, const fm_score *s)
{
    group_table *g = context;
    fm_table_cell(&g->table, "%s", g->by);
    fm_table_cell(&g->table, "%s", value);
    fm_table_cell(&g->table, "%zu", s->n);
    percent(&g->table, s->median_ape);
    percent(&g->table, s->p95_ape);
    percent(&g->table, s->max_ape);
    percent(&g->table, s->bias);
    g->by = "";
}

static fm_status print_groups(const run *r, const fm_score *all, fm_buf *out, fm_err *err)
{
    static const char *const heads[] = {"", "", "rows", "median", "p95", "max", "bias"};
    group_table g = {0};
    fm_status status = FM_OK;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        fm_table_column(&g.table, heads[i], i < 2 ? FM_ALIGN_LEFT : FM_ALIGN_RIGHT);
    g.by = "all";
    text_group(&g, "", all);
    for (int by = 0; by < N_GROUPS && !status; by++) {
        fm_table_rule(&g.table);
        g.by = group_names[by];
        status = each_value(r, by, text_group, &g, err);
    }
    if (!status)
        status = fm_table_print(&g.table, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&g.table);
    return status;
}

// Reasons with how many rows each, in the order of their first row.
static fm_status print_refusals(const run *r, fm_buf *out, fm_err *err)
{
    bool *done = fm_calloc(r->n_refusals ? r->n_refusals : 1, sizeof *done);
    if (!done)
        return fm_fail_memory(err, "validate");
    if (r->n_refusals)
        fm_buf_printf(out, "\nNot asked: %zu rows\n", r->n_refusals);
    for (size_t i = 0; i < r->n_refusals; i++) {
        size_t n = 0;
        for (size_t k = i; k < r->n_refusals; k++)
            if (!done[k] && !strcmp(r->refusals[k].reason, r->refusals[i].reason)) {
                done[k] = k != i;
                n++;
            }
        if (!done[i])
            fm_buf_printf(out, "%6zu  %s (first: line %u)\n", n, r->refusals[i].reason, r->refusals[i].line);
    }
    fm_free(done);
    return FM_OK;
}

static fm_status print_rows(const run *r, fm_buf *out, fm_err *err)
{
    fm_table t = {0};
    char predicted[FM_UNITS_TEXT_BYTES], bytes[FM_UNITS_TEXT_BYTES];
    rank *ranks = by_error(r);
    if (!ranks)
        return fm_fail_memory(err, "validate");
    fm_table_column(&t, "error", FM_ALIGN_RIGHT);
    fm_table_column(&t, "predicted", FM_ALIGN_RIGHT);
    fm_table_column(&t, "bytes", FM_ALIGN_RIGHT);
    fm_table_column(&t, "difference", FM_ALIGN_RIGHT);
    fm_table_column(&t, "row", FM_ALIGN_LEFT);
    for (size_t i = 0; i < r->n_rows; i++) {
        const fm_score_row *s = &r->scores[ranks[i].row];
        percent(&t, ranks[i].ape);
        fm_table_cell(&t, "%s", fm_format_count(predicted, s->predicted));
        fm_table_cell(&t, "%s", fm_format_count(bytes, s->bytes));
        uint64_t difference = s->predicted > s->bytes ? s->predicted - s->bytes : s->bytes - s->predicted;
        fm_table_cell(&t, "%s%s",
                      s->predicted > s->bytes ? "+"
                      : difference            ? "-"
                                              : "",
                      fm_format_count(predicted, difference));
        fm_table_cell(&t, "%s", r->rows[ranks[i].row].id);
    }
    fm_buf_add_char(out, '\n');
    fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, out, err);
    fm_table_reset(&t);
    fm_free(ranks);
    return status;
}

static fm_status print_text(const options *o, const run *r, const fm_score *all, fm_buf *out, fm_err *err)
{
    size_t n_equal = 0;
    for (size_t i = 0; i < r->n_rows; i++)
        n_equal += r->scores[i].predicted == r->scores[i].bytes;
    fm_buf_printf(out, "%zu rows predicted, %zu of them to the byte; %zu not asked\n", r->n_rows, n_equal,
                  r->n_refusals);
    fm_status status = FM_OK;
    if (r->n_rows) { // errors of 0 % would look like success
        fm_buf_add_char(out, '\n');
        status = print_groups(r, all, out, err);
    }
    if (!status)
        status = print_refusals(r, out, err);
    if (!status && o->rows)
        status = print_rows(r, out, err);
    return status;
}

// ---- the command ----

static fm_status take_option(fm_flags *flags, const char *name, const char *behind, options *o, fm_err *err)
{
    static const char *const own[] = {"where", "rows", "json", "help", NULL};
    const char *text = NULL;
    if (!strcmp(name, "where")) {
        fm_status status = fm_flags_value(flags, name, behind, &text, err);
        if (!status && o->where)
            status = fm_fail(err, FM_ERR_USAGE, "--where twice: join the conditions with a comma");
        return status ? status : fm_where_parse(text, &o->where, err);
    }
    bool *to = !strcmp(name, "rows") ? &o->rows : !strcmp(name, "json") ? &o->json : NULL;
    if (!strcmp(name, "help") || !strcmp(name, "h"))
        to = &o->help;
    if (!to)
        return fm_flags_unknown(name, own, false, "validate", err);
    *to = true;
    return fm_flags_no_value(name, behind, err);
}

static fm_status parse(int argc, char **argv, options *o, fm_err *err)
{
    fm_flags flags = {.argc = argc, .at = 1, .argv = argv};
    char buffer[64];
    const char *name, *behind;
    fm_flag_kind kind;
    while ((kind = fm_flags_next(&flags, buffer, &name, &behind)) != FM_FLAG_END) {
        fm_status status = FM_OK;
        if (kind == FM_FLAG_OPTION)
            status = take_option(&flags, name, behind, o, err);
        else if (o->path)
            status = fm_fail(err, FM_ERR_USAGE, "one file at a time: \"%.60s\" is a second one", name);
        else
            o->path = name;
        if (status)
            return status;
    }
    if (!o->path && !o->help)
        return fm_fail(err, FM_ERR_USAGE, "no case file: floodmark validate CASES.csv");
    return FM_OK;
}

int fm_command_validate(int argc, char **argv)
{
    options o = {0};
    run r = {0};
    fm_err err = {0};
    fm_buf out = {0};
    fm_score all;
    fm_status status = parse(argc, argv, &o, &err);
    if (!status && o.help)
        fm_buf_add_text(&out, usage);
    else if (!status && !(status = ask_all(&o, &r, &err)) &&
             !(status = fm_score_rows(r.scores, NULL, r.n_rows, &all, &err)))
        status = o.json ? print_json(&o, &r, &all, &out, &err) : print_text(&o, &r, &all, &out, &err);
    if (!status)
        status = fm_command_print(&out, &err);
    fm_buf_reset(&out);
    reset(&r);
    fm_where_destroy(o.where);
    return status ? fm_command_fail("validate", &err, false) : 0;
}
