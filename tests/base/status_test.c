#include "testing.h"

static void fills_the_record(void **state)
{
    (void)state;
    fm_err err = {0};
    assert_int_equal(fm_fail(&err, FM_ERR_VALUE, "file \"%s\" is %d", "a", 7), FM_ERR_VALUE);
    assert_string_equal(err.message, "file \"a\" is 7");
    assert_true(err.offset == FM_NO_OFFSET && err.line == 0 && err.code == FM_ERR_VALUE);
    assert_int_equal(fm_fail_at(&err, FM_ERR_SYNTAX, 12, 3, "bad"), FM_ERR_SYNTAX);
    assert_true(err.offset == 12 && err.line == 3);
    assert_int_equal(fm_fail(NULL, FM_ERR_IO, "x"), FM_ERR_IO);
}

static void one_line_whatever_is_said(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_fail(&err, FM_ERR_VALUE, "a\nb\x1b[31m\tc");
    assert_string_equal(err.message, "a?b?[31m?c");
}

static void cuts_between_letters(void **state)
{
    (void)state;
    fm_err err = {0};
    for (int lead = 0; lead < 5; lead++) {
        char text[2 * FM_ERR_MESSAGE_BYTES] = "";
        memset(text, 'x', (size_t)lead);
        for (int i = lead; i + 3 < (int)sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4); // the euro sign
        fm_fail(&err, FM_ERR_VALUE, "%s", text);
        size_t n = strlen(err.message);
        assert_in_range(n, FM_ERR_MESSAGE_BYTES - 4, FM_ERR_MESSAGE_BYTES - 1);
        assert_int_equal((n - (size_t)lead) % 3, 0);
    }
}

static void prefix_comes_before(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_fail(&err, FM_ERR_IO, "short");
    assert_int_equal(fm_err_prefix(&err, "%s", "model.gguf"), FM_ERR_IO);
    assert_string_equal(err.message, "model.gguf: short");
    fm_fail(&err, FM_ERR_IO, "again: %s", err.message); // an argument inside the record itself
    assert_string_equal(err.message, "again: model.gguf: short");
    char longest[2000];
    memset(longest, 'p', sizeof longest);
    longest[1999] = 0;
    fm_err_prefix(&err, "%s", longest);
    assert_int_equal(strlen(err.message), FM_ERR_MESSAGE_BYTES - 1);
}

static void every_code_has_words(void **state)
{
    (void)state;
    assert_string_equal(fm_status_words(FM_OK), "ok");
    assert_string_equal(fm_status_words((fm_status)99), "unknown status");
    for (int code = 0; code <= FM_ERR_INTERNAL; code++)
        assert_string_not_equal(fm_status_words((fm_status)code), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_the_record),     cmocka_unit_test(one_line_whatever_is_said),
        cmocka_unit_test(cuts_between_letters), cmocka_unit_test(prefix_comes_before),
        cmocka_unit_test(every_code_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
