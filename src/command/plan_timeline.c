// The timeline drawn in letters: memory over the instructions of two steps.
#include <stdio.h>
#include <string.h>
#include "command/plan_view.h"

enum { AXIS_COLUMNS = 12, MIN_COLUMNS = 20, MAX_COLUMNS = 200 };

// The part of a cell that is filled, in eighths.
static const char *block(unsigned eighths)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    return blocks[eighths > 8 ? 8 : eighths];
}

static uint64_t highest(const fm_plan_view *view)
{
    uint64_t top = 0;
    for (size_t i = 0; i < view->n_series; i++)
        top = view->series[i] > top ? view->series[i] : top;
    return top;
}

// Names of phases under the columns where they begin; those that have no room are left out.
static void phase_names(const fm_plan_view *view, unsigned columns, fm_buf *out)
{
    char line[MAX_COLUMNS + 1];
    memset(line, ' ', sizeof line);
    size_t free_from = 0;
    for (size_t p = 0; p < view->n_phases; p++) {
        size_t at = (size_t)((unsigned __int128)view->phases[p].first * columns / view->n_series);
        size_t next = p + 1 < view->n_phases
                          ? (size_t)((unsigned __int128)view->phases[p + 1].first * columns / view->n_series)
                          : columns;
        size_t n = strlen(view->phases[p].name);
        if (at < free_from || at + n + 1 > columns + 1 || next - at < n + 1)
            continue;
        line[at] = '|';
        memcpy(line + at + 1, view->phases[p].name, n < columns - at - 1 ? n : columns - at - 1);
        free_from = at + n + 2;
    }
    size_t end = columns;
    while (end && line[end - 1] == ' ')
        end--;
    if (!end)
        return;
    fm_buf_fill(out, ' ', AXIS_COLUMNS);
    fm_buf_add(out, line, end);
    fm_buf_add_char(out, '\n');
}

void fm_view_timeline(const fm_plan_view *view, fm_units units, unsigned width, unsigned rows, fm_buf *out)
{
    if (!view->n_series || rows < 2)
        return;
    unsigned columns = width > AXIS_COLUMNS + MIN_COLUMNS ? width - AXIS_COLUMNS : MIN_COLUMNS;
    columns = columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    uint64_t top = highest(view), limit = view->machine->gpu.memory_bytes;
    // The memory's limit is drawn where it is near the curve or crossed by it.
    bool show_limit = limit <= top || limit - top < top;
    uint64_t scale = show_limit && limit > top ? limit : top ? top : 1;
    for (unsigned row = rows; row-- > 0;) {
        // A row shows levels above its floor; the one that holds the limit has it as its axis label.
        double floor_level = (double)scale * row / rows, ceiling = (double)scale * (row + 1) / rows;
        bool holds_limit = show_limit && (double)limit > floor_level && (double)limit <= ceiling;
        char label[FM_UNITS_TEXT_BYTES] = "";
        if (row == rows - 1 || row == rows / 2 || holds_limit)
            fm_format_giga(label, holds_limit ? limit : (uint64_t)ceiling, units, 1);
        fm_buf_printf(out, "%10s %s", label, holds_limit ? "┤" : "│");
        fm_buf line = {0};
        size_t kept = 0;
        for (unsigned c = 0; c < columns; c++) {
            double level = (double)fm_view_column(view, c, columns);
            double part = (level - floor_level) / (ceiling - floor_level);
            unsigned eighths = part <= 0 ? 0 : part >= 1 ? 8 : (unsigned)(part * 8 + 0.5);
            fm_buf_add_text(&line, eighths ? block(eighths) : holds_limit ? "╌" : " ");
            if (eighths || holds_limit)
                kept = line.size;
        }
        fm_buf_add(out, line.data, kept);
        fm_buf_add_char(out, '\n');
        out->failed = out->failed || line.failed;
        fm_buf_reset(&line);
    }
    fm_buf_printf(out, "%10s └", "0");
    for (unsigned c = 0; c < columns; c++)
        fm_buf_add_text(out, "─");
    fm_buf_add_char(out, '\n');
    phase_names(view, columns, out);
}
