// The timeline as a picture.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "command/plan_view.h"

enum { WIDTH = 960, HEIGHT = 420, LEFT = 84, RIGHT = 24, TOP = 64, BOTTOM = 56, COLUMNS = 600 };

static void add_escaped(fm_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fm_buf_add_text(out, "&lt;");
        else if (*text == '>')
            fm_buf_add_text(out, "&gt;");
        else if (*text == '&')
            fm_buf_add_text(out, "&amp;");
        else if (*text == '"')
            fm_buf_add_text(out, "&quot;");
        else if ((unsigned char)*text >= 0x20)
            fm_buf_add_char(out, *text);
    }
}

static double y_of(double level, double scale)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - level / scale);
}

static void add_axis(const fm_plan_view *view, fm_units units, double scale, fm_buf *out)
{
    char label[FM_UNITS_TEXT_BYTES];
    for (int i = 0; i <= 4; i++) {
        double level = scale * i / 4, y = y_of(level, scale);
        fm_buf_printf(out, "<path d='M%d %.1fH%d' stroke='#ddd'/>", LEFT, y, WIDTH - RIGHT);
        fm_buf_printf(out, "<text x='%d' y='%.1f' text-anchor='end'>%s</text>\n", LEFT - 8, y + 4,
                      fm_format_giga(label, (uint64_t)level, units, 1));
    }
    double limit = (double)view->machine->gpu.memory_bytes;
    if (limit <= scale) {
        fm_buf_printf(out, "<path d='M%d %.1fH%d' stroke='#c0392b' stroke-dasharray='6 4'/>", LEFT, y_of(limit, scale),
                      WIDTH - RIGHT);
        fm_buf_printf(out, "<text x='%d' y='%.1f' text-anchor='end' fill='#c0392b'>", WIDTH - RIGHT,
                      y_of(limit, scale) - 5);
        add_escaped(out, view->machine->gpu.name);
        fm_buf_printf(out, " has %s</text>\n", fm_format_giga(label, view->machine->gpu.memory_bytes, units, 1));
    }
}

static void add_phases(const fm_plan_view *view, fm_buf *out)
{
    double span = WIDTH - LEFT - RIGHT, last = -1e9;
    for (size_t p = 0; p < view->n_phases; p++) {
        double x = LEFT + span * (double)view->phases[p].first / (double)view->n_series;
        fm_buf_printf(out, "<path d='M%.1f %dV%d' stroke='#bbb'/>", x, TOP, HEIGHT - BOTTOM + 6);
        if (x - last >= 12) {
            fm_buf_printf(out, "<text transform='translate(%.1f %d) rotate(30)'>%s</text>\n", x, HEIGHT - BOTTOM + 16,
                          view->phases[p].name);
            last = x;
        }
    }
}

static void add_curve(const fm_plan_view *view, double scale, fm_buf *out)
{
    double span = WIDTH - LEFT - RIGHT;
    size_t columns = view->n_series < COLUMNS ? view->n_series : COLUMNS;
    fm_buf_printf(out, "<path d='M%d %d", LEFT, HEIGHT - BOTTOM);
    for (size_t c = 0; c < columns; c++) {
        double y = y_of((double)fm_view_column(view, c, columns), scale);
        fm_buf_printf(out, "L%.1f %.1fH%.1f", LEFT + span * (double)c / (double)columns, y,
                      LEFT + span * (double)(c + 1) / (double)columns);
    }
    fm_buf_printf(out, "V%dZ' fill='#2e86c1' fill-opacity='.75'/>\n", HEIGHT - BOTTOM);
}

fm_status fm_view_svg(const fm_plan_view *view, fm_units units, fm_buf *out, fm_err *err)
{
    if (!view->n_series)
        return fm_fail(err, FM_ERR_UNSUPPORTED, "this plan has no timeline to draw");
    char peak[FM_UNITS_TEXT_BYTES];
    double limit = (double)view->machine->gpu.memory_bytes, scale = (double)view->peak_bytes * 1.05;
    if (limit > scale && limit < scale * 2)
        scale = limit * 1.05;
    scale = scale < 1 ? 1 : scale;
    fm_buf_printf(out,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
                  "font-family='sans-serif' font-size='12'>\n<rect width='%d' height='%d' fill='white'/>\n",
                  WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    fm_buf_printf(out, "<text x='%d' y='26' font-size='16'>", LEFT);
    add_escaped(out, view->model);
    fm_buf_add_text(out, " on ");
    add_escaped(out, view->machine->text);
    fm_buf_printf(out,
                  ", %s: %s</text>\n<text x='%d' y='46' fill='#555'>highest %s in %s; device memory over the "
                  "instructions of two training steps</text>\n",
                  fm_word_text(FM_FIELD_ENGINE, view->recipe->engine), fm_verdict_text(fm_view_judge(view).verdict),
                  LEFT, fm_format_giga(peak, view->peak_bytes, units, 2),
                  view->n_phases ? view->phases[view->peak_phase].name : "");
    add_axis(view, units, scale, out);
    add_curve(view, scale, out);
    add_phases(view, out);
    fm_buf_add_text(out, "</svg>\n");
    return fm_buf_check(out, err);
}
