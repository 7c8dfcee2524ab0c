#include "testing.h"
#include "base/utf8.h"

static void every_code_point_there_and_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        char bytes[4];
        uint32_t back;
        size_t n = fm_utf8_encode(c, bytes);
        if (fm_utf8_decode(bytes, n, &back) != n || back != c)
            fail_msg("U+%04X", (unsigned)c);
        for (size_t cut = 0; cut < n; cut++)
            assert_int_equal(fm_utf8_decode(bytes, cut, &back), 0);
    }
}

static void malformed_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x80\x80",     "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
        "\xc3\x28",     "\xe2\x28\xa1",     "\xe2\x82\x28"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t c;
        assert_int_equal(fm_utf8_decode(bad[i], strlen(bad[i]), &c), 0);
        assert_false(fm_utf8_valid(bad[i], strlen(bad[i])));
    }
    assert_true(fm_utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a", 10));
    assert_true(fm_utf8_valid("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_there_and_back),
        cmocka_unit_test(malformed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
