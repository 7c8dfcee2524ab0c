#include "base/progress.h"
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "base/table.h"
#include "base/units.h"

enum { DRAW_EVERY_US = 100000, BAR_COLUMNS = 24 };

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void fm_progress_line(fm_buf *out, const char *label, uint64_t done_bytes, uint64_t total_bytes, double seconds,
                      unsigned width)
{
    char done[FM_UNITS_TEXT_BYTES], total[FM_UNITS_TEXT_BYTES], speed[FM_UNITS_TEXT_BYTES], left[FM_UNITS_TEXT_BYTES];
    double rate = seconds > 0 ? (double)done_bytes / seconds : 0;
    fm_buf line = {0};
    fm_buf_add_text(&line, label);
    fm_format_bytes(done, done_bytes, FM_UNITS_GB, 1);
    fm_format_bytes(speed, rate < 1e18 ? (uint64_t)rate : 0, FM_UNITS_GB, 1);
    if (total_bytes == 0)
        fm_buf_printf(&line, "  %s  %s/s", done, speed);
    else {
        double share = done_bytes >= total_bytes ? 1 : (double)done_bytes / (double)total_bytes;
        size_t filled = (size_t)(share * BAR_COLUMNS);
        fm_buf_add_text(&line, "  [");
        fm_buf_fill(&line, '#', filled);
        fm_buf_fill(&line, '.', BAR_COLUMNS - filled);
        fm_buf_printf(&line, "] %3d%%  %s of %s  %s/s", (int)(share * 100), done,
                      fm_format_bytes(total, total_bytes, FM_UNITS_GB, 1), speed);
        if (rate > 0)
            fm_buf_printf(&line, "  %s left", fm_format_seconds(left, (1 - share) * (double)total_bytes / rate));
    }
    fm_text_cut(out, fm_buf_text(&line), width);
    fm_buf_reset(&line);
}

void fm_progress_begin(fm_progress *p, const char *label, uint64_t total_bytes)
{
    *p = (fm_progress){.label = label, .total_bytes = total_bytes, .begin_us = now_us(), .shown = isatty(2) == 1};
    atomic_init(&p->next_us, DRAW_EVERY_US);
    pthread_mutex_init(&p->drawing, NULL);
}

static unsigned terminal_width(void)
{
    struct winsize size;
    return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79;
}

static void put(const fm_buf *line)
{
    fwrite(fm_buf_text(line), 1, line->size, stderr);
    fflush(stderr);
}

void fm_progress_add(fm_progress *p, uint64_t bytes)
{
    uint64_t done = atomic_fetch_add(&p->done_bytes, bytes) + bytes;
    if (!p->shown)
        return;
    uint64_t us = now_us() - p->begin_us;
    if (us < atomic_load(&p->next_us) || pthread_mutex_trylock(&p->drawing) != 0)
        return;
    atomic_store(&p->next_us, us + DRAW_EVERY_US);
    fm_buf line = {0};
    fm_buf_add_text(&line, "\r");
    fm_progress_line(&line, p->label, done, p->total_bytes, (double)us * 1e-6, terminal_width());
    fm_buf_add_text(&line, "\x1b[K");
    put(&line);
    fm_buf_reset(&line);
    pthread_mutex_unlock(&p->drawing);
}

void fm_progress_end(fm_progress *p)
{
    if (p->shown) {
        fputs("\r\x1b[K", stderr);
        fflush(stderr);
    }
    p->shown = false;
    pthread_mutex_destroy(&p->drawing);
}
