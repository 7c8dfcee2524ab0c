#include "recipe/csv.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "base/io.h"

enum { END = -1, BROKEN = -2 };

fm_status fm_csv_open(fm_csv *csv, const char *path, fm_err *err)
{
    int fd = fm_io_open(path, O_RDONLY, 0);
    if (fd < 0)
        return fm_fail_path(err, path, "open", errno);
    csv->fd = fd;
    csv->open = true;
    csv->line = 1;
    return FM_OK;
}

void fm_csv_close(fm_csv *csv)
{
    if (csv->open)
        close(csv->fd);
    csv->open = false;
    fm_buf_reset(&csv->text);
}

// Makes sure that a byte is at chunk[at]; END or BROKEN (errno) when there is none.
static int fill(fm_csv *csv)
{
    if (csv->at < csv->n)
        return 0;
    if (csv->at_end)
        return END;
    ssize_t got = fm_io_read(csv->fd, csv->chunk, sizeof csv->chunk);
    if (got < 0)
        return BROKEN;
    csv->n = (size_t)got;
    csv->at = 0;
    csv->at_end = !got;
    if (!csv->started && csv->n >= 3 && csv->chunk[0] == 0xef && csv->chunk[1] == 0xbb && csv->chunk[2] == 0xbf)
        csv->at = 3;
    csv->started = true;
    return csv->at < csv->n ? 0 : END;
}

static int peek(fm_csv *csv)
{
    int why = fill(csv);
    return why ? why : csv->chunk[csv->at];
}

static int take(fm_csv *csv)
{
    int c = peek(csv);
    if (c >= 0)
        csv->at++;
    if (c == '\n')
        csv->line++;
    return c;
}

static fm_status fail(fm_csv *csv, fm_err *err, fm_status code, const char *what)
{
    return fm_fail_at(err, code, FM_NO_OFFSET, csv->row_line, "line %u: %s", csv->row_line, what);
}

static fm_status end_cell(fm_csv *csv, fm_err *err)
{
    size_t size = csv->text.size - csv->start[csv->n_cells];
    fm_buf_add_char(&csv->text, 0);
    csv->n_cells++;
    if (size > csv->cell_limit || csv->text.size > csv->row_limit)
        return fail(csv, err, FM_ERR_OVERFLOW, "a cell or row is far longer than any case needs (an open quote?)");
    return fm_buf_check(&csv->text, err);
}

// The quoted part of a cell, after its opening quote: up to the closing one.
static fm_status read_quoted(fm_csv *csv, fm_err *err)
{
    for (;;) {
        int c = take(csv);
        if (c == END)
            return fail(csv, err, FM_ERR_SYNTAX, "a quoted cell is not closed before the end of the file");
        if (c == BROKEN)
            return fail(csv, err, FM_ERR_IO, fm_io_words(errno));
        if (c == '"' && peek(csv) != '"')
            return FM_OK;
        if (c == '"')
            take(csv);
        if (!c)
            return fail(csv, err, FM_ERR_SYNTAX, "a zero byte: this is not text");
        if (csv->text.size - csv->start[csv->n_cells] >= csv->cell_limit)
            return fail(csv, err, FM_ERR_OVERFLOW, "a quoted cell is far longer than any case needs (an open quote?)");
        fm_buf_add_char(&csv->text, (char)c);
    }
}

// One cell; *last when it ends the row.
static fm_status read_cell(fm_csv *csv, bool *last, fm_err *err)
{
    if (csv->n_cells == FM_CSV_CELLS)
        return fail(csv, err, FM_ERR_SYNTAX, "more than 256 cells");
    csv->start[csv->n_cells] = csv->text.size;
    bool quoted = peek(csv) == '"';
    if (quoted) {
        take(csv);
        fm_status status = read_quoted(csv, err);
        if (status)
            return status;
    }
    for (;;) {
        int c = take(csv);
        if (c == '\r' && (peek(csv) == '\n' || peek(csv) == END))
            continue;
        if (c == BROKEN)
            return fail(csv, err, FM_ERR_IO, fm_io_words(errno));
        if (c == ',' || c == '\n' || c == END) {
            *last = c != ',';
            return end_cell(csv, err);
        }
        if (quoted)
            return fail(csv, err, FM_ERR_SYNTAX, "text after a closing quote (double a quote inside a quoted cell)");
        if (c == '"')
            return fail(csv, err, FM_ERR_SYNTAX, "a quote inside a cell that does not begin with one");
        if (!c)
            return fail(csv, err, FM_ERR_SYNTAX, "a zero byte: this is not text");
        if (csv->text.size - csv->start[csv->n_cells] >= csv->cell_limit)
            return fail(csv, err, FM_ERR_OVERFLOW, "a cell is far longer than any case needs");
        fm_buf_add_char(&csv->text, (char)c);
    }
}

fm_status fm_csv_next(fm_csv *csv, bool *more, fm_err *err)
{
    *more = false;
    int c;
    while ((c = peek(csv)) == '\n' || c == '\r') // empty lines between rows
        take(csv);
    csv->row_line = csv->line;
    if (c == BROKEN)
        return fail(csv, err, FM_ERR_IO, fm_io_words(errno));
    if (c == END)
        return FM_OK;
    fm_buf_clear(&csv->text);
    csv->n_cells = 0;
    for (bool last = false; !last;) {
        fm_status status = read_cell(csv, &last, err);
        if (status)
            return status;
    }
    *more = true;
    return FM_OK;
}
