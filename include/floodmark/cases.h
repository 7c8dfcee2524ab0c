// Case files: CSV with one training run a row and the bytes that it took (columns: docs/recipes.md).
//
// A file is read as a stream, one row at a time, in memory that does not grow with it. CSV as in RFC 4180: quotes, doubled
// quotes, line ends inside quotes, LF or CRLF; also a UTF-8 byte order mark, and a last row without a line end.
//
// What is wrong with the *file* (a column nobody knows or twice, a row with too few or too many cells, an open quote, a
// cell above FM_CASE_CELL_BYTES) ends the reading with an error that names the line. What is wrong with one *row's values*
// (a word outside the vocabulary, bytes that are no integer) leaves the row unusable: `status` and `reason` say why.
#ifndef FLOODMARK_CASES_H
#define FLOODMARK_CASES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "floodmark/recipe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FM_CASE_CELL_BYTES = 64 << 10, FM_CASE_ROW_BYTES = 1 << 20, FM_REASON_BYTES = 512 };

typedef enum { FM_TRUST_UNKNOWN, FM_TRUST_EXACT, FM_TRUST_HIGH, FM_TRUST_MEDIUM } fm_trust;

// One row. Strings are borrowed from the reader until the next call.
typedef struct {
    const char *id, *source, *model, *on, *note;
    fm_recipe recipe; // fields set from cells: FM_ORIGIN_FILE; not resolved
    fm_at_kind phase; // FM_AT_EMPTY when the cell is empty
    fm_metric_kind metric;
    uint64_t bytes;
    fm_trust trust;
    uint32_t line;    // where the row begins
    fm_status status; // FM_OK, or why the row cannot be asked
    char reason[FM_REASON_BYTES];
} fm_case;

typedef struct fm_cases fm_cases;

// Opens a file and reads its first line. Columns may come in any order; id, model, phase and bytes must be there.
fm_status fm_cases_open(const char *path, fm_cases **cases, fm_err *err) FM_MUST_USE;

// Reads the next row. At the end *more is false and *row untouched.
fm_status fm_cases_next(fm_cases *cases, fm_case *row, bool *more, fm_err *err) FM_MUST_USE;

// NULL is fine.
void fm_cases_close(fm_cases *cases);

// The raw cell of a column of the last row: "" when it is empty or the file has no such column; NULL when no case file
// ever has.
const char *fm_cases_cell(const fm_cases *cases, const char *column);

// A condition on raw cells: "engine=fsdp2,clip=no"; `c=` matches an empty cell (and a column the file lacks). Conditions
// on one column are alternatives, those on different columns must all hold. A value may hold commas: only a comma
// before a name and '=' separates.
typedef struct fm_where fm_where;
fm_status fm_where_parse(const char *text, fm_where **where, fm_err *err) FM_MUST_USE;
bool fm_where_match(const fm_where *where, const fm_cases *cases); // of the last row; NULL matches all
void fm_where_destroy(fm_where *where);

// "exact", "high", "medium"; "" for unknown.
const char *fm_trust_text(fm_trust trust);

#ifdef __cplusplus
}
#endif
#endif
