// Text tables with aligned columns, for terminals and documents. Widths are counted as a terminal shows them (UTF-8,
// combining marks, wide letters). Failure sticks: out of memory is seen once, in fm_table_print. Threads: one at a time.
#ifndef FM_BASE_TABLE_H
#define FM_BASE_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"

typedef enum {
    FM_ALIGN_AUTO, // right when every filled cell of the body begins as a number does, else left
    FM_ALIGN_LEFT,
    FM_ALIGN_RIGHT,
} fm_align;

typedef enum {
    FM_TABLE_PLAIN,    // two spaces between columns, a line of dashes under the heads
    FM_TABLE_MARKDOWN, // | a | b |
} fm_table_style;

enum { FM_TABLE_COLUMNS = 32 };

// A zeroed fm_table is an empty one. Private fields.
typedef struct {
    struct fm_table_column {
        char *head;
        fm_align align;
    } columns[FM_TABLE_COLUMNS];
    size_t n_columns;
    char **cells; // row after row; a rule is a row whose first cell is NULL
    size_t n_cells, capacity;
    bool failed;
} fm_table;

// Adds a column, before any cell. `head` is copied; when every head is "" no head is printed.
void fm_table_column(fm_table *t, const char *head, fm_align align);

// Fills the next cell, left to right, row after row.
void fm_table_cell(fm_table *t, const char *format, ...) FM_PRINTF(2, 3);

// Leaves the rest of the current row empty. Does nothing at the start of a row.
void fm_table_end_row(fm_table *t);

// A line of dashes between rows. Ends the current row.
void fm_table_rule(fm_table *t);

// Appends the table to out, every line indented by `indent` spaces, no spaces at line ends.
fm_status fm_table_print(const fm_table *t, fm_table_style style, size_t indent, fm_buf *out, fm_err *err) FM_MUST_USE;

// Frees everything; t is empty again.
void fm_table_reset(fm_table *t);

// Columns that a terminal needs for n bytes of UTF-8 (a malformed byte counts one).
size_t fm_text_width(const char *text, size_t n);

// Appends text cut to at most `width` columns, the cut shown by "…".
void fm_text_cut(fm_buf *out, const char *text, size_t width);
#endif
