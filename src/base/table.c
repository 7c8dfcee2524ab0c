#include "base/table.h"
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include "base/alloc.h"
#include "base/utf8.h"

// --- Widths --------------------------------------------------------------------------------------------------------

typedef struct {
    uint32_t first, last;
} range;

// Letters that take no column, and letters that take two: the main blocks of Unicode's general category Mn and of
// East Asian Width W and F. wcwidth() is no help: in the C locale it knows ASCII only.
static const range narrowest[] = {{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a},
                                  {0x064b, 0x065f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
                                  {0x20d0, 0x20f0}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
static const range widest[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},  {0x3400, 0x4dbf},
                               {0x4e00, 0x9fff},   {0xa000, 0xa4cf},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},
                               {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                               {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

static bool in_ranges(uint32_t c, const range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

static size_t letter_width(uint32_t c)
{
    if (c < 0x300)
        return 1;
    if (in_ranges(c, narrowest, sizeof narrowest / sizeof *narrowest))
        return 0;
    return in_ranges(c, widest, sizeof widest / sizeof *widest) ? 2 : 1;
}

size_t fm_text_width(const char *text, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t length = fm_utf8_decode(text + i, n - i, &c);
        width += length ? letter_width(c) : 1;
        i += length ? length : 1;
    }
    return width;
}

void fm_text_cut(fm_buf *out, const char *text, size_t width)
{
    size_t n = strlen(text), used = 0, i = 0;
    if (fm_text_width(text, n) <= width) {
        fm_buf_add(out, text, n);
        return;
    }
    if (width == 0)
        return;
    while (i < n) {
        uint32_t c;
        size_t length = fm_utf8_decode(text + i, n - i, &c), letter = length ? letter_width(c) : 1;
        if (used + letter > width - 1)
            break;
        used += letter;
        i += length ? length : 1;
    }
    fm_buf_add(out, text, i);
    fm_buf_add_text(out, "…");
}

// --- Filling -------------------------------------------------------------------------------------------------------

void fm_table_column(fm_table *t, const char *head, fm_align align)
{
    if (t->n_columns == FM_TABLE_COLUMNS || t->n_cells) {
        t->failed = true;
        return;
    }
    char *copy = fm_strdup(head);
    if (!copy)
        t->failed = true;
    t->columns[t->n_columns++] = (struct fm_table_column){.head = copy, .align = align};
}

// A cell is one line, and a name from a foreign file must not steer the terminal.
static void tidy(char *s)
{
    uint32_t letter;
    for (size_t taken, n = strlen(s); n; s += taken, n -= taken) {
        taken = fm_utf8_decode(s, n, &letter);
        if (!taken || letter < 0x20 || (letter >= 0x7f && letter < 0xa0)) {
            taken = taken ? taken : 1;
            memset(s, '?', taken);
        }
    }
}

static void add(fm_table *t, char *cell)
{
    char **cells = t->failed ? NULL : fm_grow(t->cells, &t->capacity, t->n_cells, sizeof *cells);
    if (!cells) {
        t->failed = true;
        fm_free(cell);
        return;
    }
    t->cells = cells;
    cells[t->n_cells++] = cell;
}

void fm_table_cell(fm_table *t, const char *format, ...)
{
    fm_buf text = {0};
    va_list args;
    va_start(args, format);
    fm_buf_vprintf(&text, format, args);
    va_end(args);
    char *cell = fm_buf_take(&text, NULL);
    if (!cell || t->n_columns == 0)
        t->failed = true;
    if (cell)
        tidy(cell);
    add(t, cell);
}

void fm_table_end_row(fm_table *t)
{
    while (!t->failed && t->n_columns && t->n_cells % t->n_columns)
        fm_table_cell(t, "%s", "");
}

void fm_table_rule(fm_table *t)
{
    fm_table_end_row(t);
    for (size_t i = 0; i < t->n_columns; i++)
        add(t, NULL);
}

void fm_table_reset(fm_table *t)
{
    for (size_t i = 0; i < t->n_columns; i++)
        fm_free(t->columns[i].head);
    for (size_t i = 0; i < t->n_cells; i++)
        fm_free(t->cells[i]);
    fm_free(t->cells);
    *t = (fm_table){0};
}

// --- Printing ------------------------------------------------------------------------------------------------------

static bool like_a_number(const char *cell)
{
    cell += *cell == '-' || *cell == '+' || *cell == '~';
    return *cell >= '0' && *cell <= '9';
}

// Only cells of complete rows are printed; a half-filled last row is shown with what it has.
static const char *cell_at(const fm_table *t, size_t row, size_t column)
{
    size_t i = row * t->n_columns + column;
    return i < t->n_cells ? t->cells[i] : "";
}

static bool is_rule(const fm_table *t, size_t row)
{
    return cell_at(t, row, 0) == NULL;
}

typedef struct {
    size_t width;
    bool right;
} shape;

static shape column_shape(const fm_table *t, size_t column, size_t n_rows)
{
    const char *head = t->columns[column].head;
    size_t width = fm_text_width(head, strlen(head));
    bool numbers = true, filled = false;
    for (size_t row = 0; row < n_rows; row++) {
        if (is_rule(t, row))
            continue;
        const char *cell = cell_at(t, row, column);
        size_t w = fm_text_width(cell, strlen(cell));
        width = w > width ? w : width;
        if (*cell) {
            filled = true;
            numbers = numbers && (like_a_number(cell) || strcmp(cell, "-") == 0);
        }
    }
    fm_align align = t->columns[column].align;
    return (shape){width, align == FM_ALIGN_RIGHT || (align == FM_ALIGN_AUTO && numbers && filled)};
}

static void trim_line(fm_buf *out, size_t start)
{
    while (out->size > start && out->data[out->size - 1] == ' ')
        out->data[--out->size] = 0;
}

static void print_row(const fm_table *t, const shape *shapes, const char *const *cells, bool markdown, size_t indent,
                      fm_buf *out)
{
    size_t start = out->size;
    fm_buf_fill(out, ' ', indent);
    for (size_t i = 0; i < t->n_columns; i++) {
        size_t n = strlen(cells[i]), pad = shapes[i].width - fm_text_width(cells[i], n);
        fm_buf_add_text(out, markdown ? (i ? " | " : "| ") : i ? "  " : "");
        fm_buf_fill(out, ' ', shapes[i].right ? pad : 0);
        fm_buf_add(out, cells[i], n);
        fm_buf_fill(out, ' ', shapes[i].right ? 0 : pad);
    }
    if (markdown)
        fm_buf_add_text(out, " |");
    trim_line(out, start);
    fm_buf_add_char(out, '\n');
}

static void print_rule(const fm_table *t, const shape *shapes, bool markdown, size_t indent, fm_buf *out)
{
    fm_buf_fill(out, ' ', indent);
    for (size_t i = 0; i < t->n_columns; i++) {
        if (!markdown) {
            fm_buf_add_text(out, i ? "  " : "");
            fm_buf_fill(out, '-', shapes[i].width);
            continue;
        }
        fm_buf_add_char(out, '|');
        fm_buf_fill(out, '-', shapes[i].width + 1);
        fm_buf_add_char(out, shapes[i].right ? ':' : '-');
    }
    fm_buf_add_text(out, markdown ? "|\n" : "\n");
}

fm_status fm_table_print(const fm_table *t, fm_table_style style, size_t indent, fm_buf *out, fm_err *err)
{
    if (t->failed)
        return fm_fail_memory(err, "a table");
    if (t->n_columns == 0)
        return FM_OK;
    bool markdown = style == FM_TABLE_MARKDOWN, heads = markdown;
    size_t n_rows = (t->n_cells + t->n_columns - 1) / t->n_columns;
    shape shapes[FM_TABLE_COLUMNS];
    const char *cells[FM_TABLE_COLUMNS];
    for (size_t i = 0; i < t->n_columns; i++) {
        shapes[i] = column_shape(t, i, n_rows);
        cells[i] = t->columns[i].head;
        heads = heads || *cells[i];
    }
    if (heads) {
        print_row(t, shapes, cells, markdown, indent, out);
        print_rule(t, shapes, markdown, indent, out);
    }
    for (size_t row = 0; row < n_rows; row++) {
        if (is_rule(t, row)) {
            if (!markdown) // Markdown has one rule, under the heads
                print_rule(t, shapes, false, indent, out);
            continue;
        }
        for (size_t i = 0; i < t->n_columns; i++)
            cells[i] = cell_at(t, row, i);
        print_row(t, shapes, cells, markdown, indent, out);
    }
    return fm_buf_check(out, err);
}
