// CSV as a stream of rows (RFC 4180), in memory bounded by the longest row.
#ifndef FM_RECIPE_CSV_H
#define FM_RECIPE_CSV_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

enum { FM_CSV_CELLS = 256, FM_CSV_CHUNK = 64 << 10 };

// Zero it, set `cell_limit` and `row_limit` (bytes), then fm_csv_open. Private but for what fm_csv_cell reads.
typedef struct {
    int fd;
    bool open, at_end, started;
    size_t cell_limit, row_limit;
    size_t n, at;      // bytes of chunk, next one
    uint32_t line;     // of the next byte, from 1
    uint32_t row_line; // where the last row began
    size_t n_cells;
    size_t start[FM_CSV_CELLS]; // of each cell in text
    fm_buf text;                // cells, zero-ended, one after another
    unsigned char chunk[FM_CSV_CHUNK];
} fm_csv;

fm_status fm_csv_open(fm_csv *csv, const char *path, fm_err *err) FM_MUST_USE;

// The next row that is not an empty line. Errors carry the line, not the file's name.
fm_status fm_csv_next(fm_csv *csv, bool *more, fm_err *err) FM_MUST_USE;

static inline const char *fm_csv_cell(const fm_csv *csv, size_t i)
{
    return csv->text.data + csv->start[i];
}

void fm_csv_close(fm_csv *csv);
#endif
