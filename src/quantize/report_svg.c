// The picture of a report: one line a kind of tensor ("ffn_down", "self_attn.q_proj"), layer to the right, SQNR upward.
#include "floodmark/quant_report.h"
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "base/buf.h"
#include "base/utf8.h"

enum { WIDTH = 960, HEIGHT = 420, LEFT = 60, RIGHT = 260, TOP = 50, BOTTOM = 50, MAX_KINDS = 24 };

typedef struct {
    char kind[96];
    int layer; // -1: none
    double db;
} point;

// "model.layers.12.mlp.up_proj.weight" -> layer 12, kind "mlp.up_proj"; without a number: layer -1, the whole name.
static point point_of(const fm_quant_bar *bar)
{
    point p = {.layer = -1, .db = bar->sqnr_db};
    const char *rest = bar->name;
    for (const char *s = bar->name; *s; s++)
        if ((s == bar->name || s[-1] == '.') && *s >= '0' && *s <= '9') {
            char *end;
            long n = strtol(s, &end, 10);
            if (*end == '.' && n < 100000) {
                p.layer = (int)n;
                rest = end + 1;
                break;
            }
        }
    size_t length = strlen(rest);
    if (length > 7 && strcmp(rest + length - 7, ".weight") == 0)
        length -= 7;
    if (length > sizeof p.kind - 1)
        length = sizeof p.kind - 1;
    memcpy(p.kind, rest, length);
    return p;
}

static const char *const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd",
                                      "#8c564b", "#17becf", "#e377c2", "#7f7f7f", "#bcbd22"};

typedef struct {
    double low, high; // dB
    int layers;
} frame;

static double x_of(const frame *f, int layer)
{
    return LEFT + (layer + 0.5) * (WIDTH - LEFT - RIGHT) / (f->layers > 0 ? f->layers : 1);
}
static double y_of(const frame *f, double db)
{
    double at = db > f->high ? f->high : db < f->low ? f->low : db;
    return TOP + (f->high - at) / (f->high - f->low) * (HEIGHT - TOP - BOTTOM);
}

static frame frame_of(size_t n, const point *points)
{
    double low = 1e9, high = -1e9;
    int layers = 1;
    for (size_t i = 0; i < n; i++) {
        if (points[i].layer >= layers)
            layers = points[i].layer + 1;
        if (points[i].db < -1000 || points[i].db > 1000)
            continue;
        low = points[i].db < low ? points[i].db : low;
        high = points[i].db > high ? points[i].db : high;
    }
    if (low > high)
        low = 0, high = 100;
    frame f = {(double)((int)(low / 10) * 10) - (low < 0 ? 10 : 0), (double)((int)(high / 10) + 1) * 10, layers};
    return f;
}

// Names of files and tensors are foreign: what XML does not hold (no UTF-8, control characters, U+FFFE, U+FFFF) is shown
// as a question mark. Source: XML 1.0, production Char.
static void add_escaped(fm_buf *b, const char *text)
{
    uint32_t letter;
    for (size_t taken, n = strlen(text); n; text += taken, n -= taken) {
        taken = fm_utf8_decode(text, n, &letter);
        if (!taken || letter < 0x20 || letter == 0xfffe || letter == 0xffff) {
            taken = taken ? taken : 1;
            fm_buf_add_char(b, '?');
        } else if (letter == '<') {
            fm_buf_add_text(b, "&lt;");
        } else if (letter == '&') {
            fm_buf_add_text(b, "&amp;");
        } else if (letter == '"') {
            fm_buf_add_text(b, "&quot;");
        } else {
            fm_buf_add(b, text, taken);
        }
    }
}

static void draw_axes(fm_buf *b, const frame *f)
{
    for (unsigned line = 0; f->low + 10 * line <= f->high + 0.5; line++) {
        double db = f->low + 10 * line, y = y_of(f, db);
        fm_buf_printf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>", LEFT, y, WIDTH - RIGHT,
                      y);
        fm_buf_printf(b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f dB</text>\n", LEFT - 6, y + 4, db);
    }
    int step = f->layers / 16 + 1;
    for (int layer = 0; layer < f->layers; layer += step)
        fm_buf_printf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(f, layer),
                      HEIGHT - BOTTOM + 18, layer);
    fm_buf_printf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">layer</text>\n", (LEFT + WIDTH - RIGHT) / 2,
                  HEIGHT - 12);
}

static void draw_kind(fm_buf *b, const frame *f, size_t n, const point *points, size_t first, int row)
{
    const char *colour = colours[(size_t)row % (sizeof colours / sizeof *colours)], *kind = points[first].kind;
    bool layered = points[first].layer >= 0;
    if (layered) {
        fm_buf_printf(b, "<polyline fill=\"none\" stroke=\"%s\" points=\"", colour);
        for (size_t i = first; i < n; i++)
            if (strcmp(points[i].kind, kind) == 0)
                fm_buf_printf(b, "%.1f,%.1f ", x_of(f, points[i].layer), y_of(f, points[i].db));
        fm_buf_add_text(b, "\"/>\n");
        for (size_t i = first; i < n; i++)
            if (strcmp(points[i].kind, kind) == 0)
                fm_buf_printf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", x_of(f, points[i].layer),
                              y_of(f, points[i].db), colour);
    } else { // a tensor outside the layers: a dashed level
        double y = y_of(f, points[first].db);
        fm_buf_printf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-dasharray=\"4 3\"/>\n",
                      LEFT, y, WIDTH - RIGHT, y, colour);
    }
    int y = TOP + 14 * row;
    fm_buf_printf(b, "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">",
                  WIDTH - RIGHT + 14, y - 9, colour, WIDTH - RIGHT + 30, y);
    add_escaped(b, kind);
    fm_buf_add_text(b, "</text>\n");
}

static bool seen_before(const point *points, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(points[j].kind, points[i].kind) == 0)
            return true;
    return false;
}

fm_status fm_quant_svg(size_t n, const fm_quant_bar *bars, const char *title, char **svg, fm_err *err)
{
    fm_buf b = {0};
    point *points = fm_alloc_array(n + 1, sizeof *points);
    if (!points)
        return fm_fail_memory(err, "picture");
    for (size_t i = 0; i < n; i++)
        points[i] = point_of(bars + i);
    frame f = frame_of(n, points);
    fm_buf_printf(
        &b,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    fm_buf_printf(&b, "<text x=\"%d\" y=\"24\" font-size=\"15\">", LEFT);
    add_escaped(&b, title);
    fm_buf_add_text(&b, "</text>\n");
    draw_axes(&b, &f);
    int row = 0;
    for (size_t i = 0; i < n && row < MAX_KINDS; i++)
        if (!seen_before(points, i))
            draw_kind(&b, &f, n, points, i, row++);
    fm_buf_add_text(&b, "</svg>\n");
    fm_free(points);
    fm_status status = fm_buf_check(&b, err);
    if (status == FM_OK)
        *svg = fm_buf_take(&b, NULL);
    fm_buf_reset(&b);
    return status;
}
