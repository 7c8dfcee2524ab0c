// Rows of a case file as typed cases; the field table says what each column means.
#include "floodmark/cases.h"
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/units.h"
#include "floodmark/tree.h"
#include "recipe/csv.h"
#include "recipe/fields.h"

// Columns that are no fields of a recipe, after the fields themselves.
enum { COLUMN_ID = FM_N_FIELDS, COLUMN_SOURCE, COLUMN_BYTES, COLUMN_TRUST, COLUMN_NOTE, N_COLUMNS };
static const char *const others[] = {"id", "source", "bytes", "trust", "note"};

struct fm_cases {
    char *path;
    int column_at[N_COLUMNS]; // where the file has it, or -1
    size_t n_cells;
    bool in_row;
    fm_csv csv;
};

static const char *column_name(int column)
{
    return column < FM_N_FIELDS ? fm_field_name((fm_field)column) : others[column - FM_N_FIELDS];
}

static int find_column(const char *name, size_t n)
{
    for (int c = 0; c < N_COLUMNS; c++)
        if (strlen(column_name(c)) == n && !memcmp(column_name(c), name, n))
            return c;
    return -1;
}

static fm_status fail_column(const char *name, fm_err *err)
{
    const char *names[N_COLUMNS];
    for (int c = 0; c < N_COLUMNS; c++)
        names[c] = column_name(c);
    const char *near = fm_nearest(name, names, N_COLUMNS);
    return fm_fail_at(err, FM_ERR_NOT_FOUND, FM_NO_OFFSET, 1, "unknown column \"%.60s\"%s%s%s", name,
                      near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
}

static fm_status read_head(fm_cases *cases, fm_err *err)
{
    bool more = false;
    fm_status status = fm_csv_next(&cases->csv, &more, err);
    if (status)
        return status;
    if (!more)
        return fm_fail_at(err, FM_ERR_SYNTAX, FM_NO_OFFSET, 1, "empty: a case file begins with a line of column names");
    cases->n_cells = cases->csv.n_cells;
    for (size_t i = 0; i < cases->n_cells; i++) {
        const char *name = fm_csv_cell(&cases->csv, i);
        int column = find_column(name, strlen(name));
        if (column < 0)
            return fail_column(name, err);
        if (cases->column_at[column] >= 0)
            return fm_fail_at(err, FM_ERR_CONFLICT, FM_NO_OFFSET, 1, "column \"%s\" occurs twice", name);
        cases->column_at[column] = (int)i;
    }
    static const int needed[] = {COLUMN_ID, FM_FIELD_MODEL, FM_FIELD_PHASE, COLUMN_BYTES};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (cases->column_at[needed[i]] < 0)
            return fm_fail_at(err, FM_ERR_NOT_FOUND, FM_NO_OFFSET, 1, "no column \"%s\" (is this a case file?)",
                              column_name(needed[i]));
    return FM_OK;
}

fm_status fm_cases_open(const char *path, fm_cases **out, fm_err *err)
{
    fm_cases *cases = fm_calloc(1, sizeof *cases);
    fm_status status = FM_OK;
    if (!cases || !(cases->path = fm_strdup(path))) {
        status = fm_fail_memory(err, "the reader of cases");
        goto fail;
    }
    cases->csv.cell_limit = FM_CASE_CELL_BYTES;
    cases->csv.row_limit = FM_CASE_ROW_BYTES;
    for (int c = 0; c < N_COLUMNS; c++)
        cases->column_at[c] = -1;
    if ((status = fm_csv_open(&cases->csv, path, err)))
        goto fail;
    if ((status = read_head(cases, err))) {
        fm_err_prefix(err, "%s", path);
        goto fail;
    }
    *out = cases;
    return FM_OK;
fail:
    fm_cases_close(cases);
    return status;
}

void fm_cases_close(fm_cases *cases)
{
    if (!cases)
        return;
    fm_csv_close(&cases->csv);
    fm_free(cases->path);
    fm_free(cases);
}

static const char *cell(const fm_cases *cases, int column)
{
    int at = cases->column_at[column];
    return at < 0 || !cases->in_row ? "" : fm_csv_cell(&cases->csv, (size_t)at);
}

const char *fm_cases_cell(const fm_cases *cases, const char *column)
{
    int c = find_column(column, strlen(column));
    return c < 0 ? NULL : cell(cases, c);
}

const char *fm_trust_text(fm_trust trust)
{
    static const char *const text[] = {"", "exact", "high", "medium"};
    return (unsigned)trust < sizeof text / sizeof text[0] ? text[trust] : "";
}

// The values of a row; the first that is wrong is the reason why the row cannot be asked.
static void read_values(fm_cases *cases, fm_case *row)
{
    fm_err why = {0};
    for (int f = 0; f < FM_N_FIELDS && !row->status; f++)
        row->status = fm_recipe_set(&row->recipe, (fm_field)f, cell(cases, f), FM_ORIGIN_FILE, &why);
    row->phase = fm_recipe_has(&row->recipe, FM_FIELD_PHASE) ? row->recipe.phase : FM_AT_EMPTY;
    row->metric = fm_recipe_has(&row->recipe, FM_FIELD_METRIC) ? row->recipe.metric : FM_METRIC_EMPTY;
    if (!row->status && (row->status = fm_parse_u64(cell(cases, COLUMN_BYTES), 0, UINT64_MAX, &row->bytes, &why)))
        fm_err_prefix(&why, "bytes");
    const char *trust = cell(cases, COLUMN_TRUST);
    for (fm_trust t = FM_TRUST_UNKNOWN; t <= FM_TRUST_MEDIUM; t++)
        if (!strcmp(trust, fm_trust_text(t)))
            row->trust = t;
    if (!row->status && *trust && !row->trust)
        row->status =
            fm_fail(&why, FM_ERR_VALUE, "trust: unknown value \"%.60s\" (values: exact, high, medium)", trust);
    if (row->status)
        snprintf(row->reason, sizeof row->reason, "%s", why.message);
}

fm_status fm_cases_next(fm_cases *cases, fm_case *row, bool *more, fm_err *err)
{
    cases->in_row = false;
    fm_status status = fm_csv_next(&cases->csv, more, err);
    if (!status && *more && cases->csv.n_cells != cases->n_cells)
        status = fm_fail_at(err, FM_ERR_SYNTAX, FM_NO_OFFSET, cases->csv.row_line,
                            "line %u: %zu cells, but the first line names %zu columns", cases->csv.row_line,
                            cases->csv.n_cells, cases->n_cells);
    if (status) {
        *more = false;
        return fm_err_prefix(err, "%s", cases->path);
    }
    if (!*more)
        return FM_OK;
    cases->in_row = true;
    memset(row, 0, sizeof *row);
    fm_recipe_init(&row->recipe);
    row->line = cases->csv.row_line;
    row->id = cell(cases, COLUMN_ID);
    row->source = cell(cases, COLUMN_SOURCE);
    row->model = cell(cases, FM_FIELD_MODEL);
    row->on = cell(cases, FM_FIELD_ON);
    row->note = cell(cases, COLUMN_NOTE);
    read_values(cases, row);
    return FM_OK;
}

// ---- --where ----

struct fm_where {
    size_t n;
    struct condition {
        int column;
        char *value;
    } conditions[];
};

// Whether text begins with a name and '=': then a comma before it separates two conditions.
static bool begins_condition(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    return n && text[n] == '=';
}

// The column named by text up to '='; -1 when there is none. *after: behind the '='.
static int condition_column(const char *text, const char **after)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return -1;
    *after = equals + 1;
    return find_column(text, (size_t)(equals - text));
}

static fm_status fail_condition(const char *text, fm_err *err)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return fm_fail(err, FM_ERR_USAGE, "--where \"%.80s\": write column=value, such as engine=fsdp2", text);
    char name[64];
    snprintf(name, sizeof name, "%.*s", equals - text < 60 ? (int)(equals - text) : 60, text);
    fm_err why;
    fail_column(name, &why);
    return fm_fail(err, FM_ERR_USAGE, "--where: %s", why.message);
}

fm_status fm_where_parse(const char *text, fm_where **out, fm_err *err)
{
    size_t room = 1;
    for (const char *s = text; *s; s++)
        room += *s == ',';
    fm_where *where = fm_calloc(1, sizeof *where + room * sizeof where->conditions[0]);
    fm_status status = FM_OK;
    if (!where)
        return fm_fail_memory(err, "--where");
    for (const char *s = text; s;) {
        const char *value = NULL;
        int column = condition_column(s, &value);
        if (column < 0) {
            status = fail_condition(s, err);
            goto fail;
        }
        const char *end = value;
        while (*end && !(*end == ',' && begins_condition(end + 1)))
            end++;
        where->conditions[where->n].column = column;
        if (!(where->conditions[where->n].value = fm_strndup(value, (size_t)(end - value)))) {
            status = fm_fail_memory(err, "--where");
            goto fail;
        }
        where->n++;
        s = *end ? end + 1 : NULL;
    }
    *out = where;
    return FM_OK;
fail:
    fm_where_destroy(where);
    return status;
}

bool fm_where_match(const fm_where *where, const fm_cases *cases)
{
    for (size_t i = 0; where && i < where->n; i++) {
        bool any = false; // of the conditions on this column
        for (size_t k = 0; k < where->n; k++)
            if (where->conditions[k].column == where->conditions[i].column)
                any = any || !strcmp(cell(cases, where->conditions[k].column), where->conditions[k].value);
        if (!any)
            return false;
    }
    return true;
}

void fm_where_destroy(fm_where *where)
{
    if (!where)
        return;
    for (size_t i = 0; i < where->n; i++)
        fm_free(where->conditions[i].value);
    fm_free(where);
}
