#include "testing.h"
#include "base/progress.h"

static void line_says_speed_and_time_left(void **state)
{
    (void)state;
    fm_buf out = {0};
    fm_progress_line(&out, "quantize", 250000000, 1000000000, 0.5, 120);
    assert_string_equal(fm_buf_text(&out),
                        "quantize  [######..................]  25%  250.0 MB of 1.0 GB  500.0 MB/s  1.5 s left");
    fm_buf_clear(&out);
    fm_progress_line(&out, "read", 2000, 0, 2, 120);
    assert_string_equal(fm_buf_text(&out), "read  2.0 kB  1.0 kB/s");
    fm_buf_clear(&out);
    fm_progress_line(&out, "read", 0, 10, 0, 12);
    assert_string_equal(fm_buf_text(&out), "read  [....…");
    fm_buf_reset(&out);
}

static void silent_without_a_terminal(void **state)
{
    (void)state;
    char name[] = "/tmp/fm-progress-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *reopened = freopen(name, "w", stderr); // stderr is a file now
    assert_non_null(reopened);
    fm_progress p;
    fm_progress_begin(&p, "x", 100);
    for (int i = 0; i < 100; i++)
        fm_progress_add(&p, 1);
    assert_int_equal(atomic_load(&p.done_bytes), 100);
    fm_progress_end(&p);
    fflush(stderr);
    assert_int_equal(ftell(stderr), 0);
    remove(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_says_speed_and_time_left),
        cmocka_unit_test(silent_without_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
