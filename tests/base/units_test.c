#include "testing.h"
#include "base/units.h"

static char text[FM_UNITS_TEXT_BYTES];

static void counts_have_commas(void **state)
{
    (void)state;
    assert_string_equal(fm_format_count(text, 0), "0");
    assert_string_equal(fm_format_count(text, 999), "999");
    assert_string_equal(fm_format_count(text, 1000), "1,000");
    assert_string_equal(fm_format_count(text, 1050673152), "1,050,673,152");
    assert_string_equal(fm_format_count(text, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void sizes_round_half_up(void **state)
{
    (void)state;
    assert_string_equal(fm_format_bytes(text, 512, FM_UNITS_GB, 2), "512 B");
    assert_string_equal(fm_format_bytes(text, 17500000000, FM_UNITS_GB, 1), "17.5 GB");
    assert_string_equal(fm_format_bytes(text, 629145600, FM_UNITS_GIB, 0), "600 MiB");
    assert_string_equal(fm_format_bytes(text, 1500, FM_UNITS_GB, 0), "2 kB");
    assert_string_equal(fm_format_bytes(text, 1499, FM_UNITS_GB, 0), "1 kB");
    assert_string_equal(fm_format_bytes(text, UINT64_MAX, FM_UNITS_GIB, 3), "16.000 EiB");
    assert_string_equal(fm_format_giga(text, 840000000000, FM_UNITS_GB, 0), "840 GB");
    assert_string_equal(fm_format_giga(text, 105000000000, FM_UNITS_GB, 1), "105.0 GB");
    assert_string_equal(fm_format_giga(text, 1234567890123456, FM_UNITS_GB, 2), "1,234,567.89 GB");
    assert_string_equal(fm_format_giga(text, UINT64_C(80) << 30, FM_UNITS_GIB, 2), "80.00 GiB");
    assert_string_equal(fm_format_count_short(text, 8030261248), "8.03B");
    assert_string_equal(fm_format_count_short(text, 70553706496), "70.6B");
    assert_string_equal(fm_format_count_short(text, 405853388800), "406B");
    assert_string_equal(fm_format_count_short(text, 12), "12");
}

static void seconds_in_words(void **state)
{
    (void)state;
    assert_string_equal(fm_format_seconds(text, 0.42), "0.4 s");
    assert_string_equal(fm_format_seconds(text, 12.4), "12 s");
    assert_string_equal(fm_format_seconds(text, 185), "3 min 05 s");
    assert_string_equal(fm_format_seconds(text, 59.7), "1 min 00 s");
    assert_string_equal(fm_format_seconds(text, 7620), "2 h 07 min");
    assert_string_equal(fm_format_seconds(text, -1), "?");
}

static void reads_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"80GB", 80000000000},
                {"600MiB", 629145600},
                {"1.5GB", 1500000000},
                {"1073741824", 1073741824},
                {"80 GB", 80000000000},
                {"80gb", 80000000000},
                {"0", 0},
                {"0.5KiB", 512},
                {"18446744073709551615", UINT64_MAX},
                {"1.500000000000000000000000GB", 1500000000},
                {"12B", 12}};
    fm_err err = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t v = 1;
        FM_ASSERT_OK(fm_parse_bytes(good[i].text, &v, &err));
        assert_true(v == good[i].bytes);
    }
    static const struct {
        const char *text;
        fm_status code;
    } bad[] = {{"", FM_ERR_VALUE},           {"GB", FM_ERR_VALUE},
               {"-1GB", FM_ERR_VALUE},       {"80G", FM_ERR_VALUE},
               {"0.3B", FM_ERR_VALUE},       {"1.GB", FM_ERR_VALUE},
               {"1..5GB", FM_ERR_VALUE},     {"nan", FM_ERR_VALUE},
               {"80GBx", FM_ERR_VALUE},      {"1e9", FM_ERR_VALUE},
               {" 80GB", FM_ERR_VALUE},      {"80  GB", FM_ERR_VALUE},
               {"99999EB", FM_ERR_OVERFLOW}, {"18446744073709551616", FM_ERR_OVERFLOW},
               {"80 ", FM_ERR_VALUE},        {"99999999999999999999999999999", FM_ERR_OVERFLOW}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t v = 77;
        FM_ASSERT_FAILS(fm_parse_bytes(bad[i].text, &v, &err), bad[i].code);
        assert_true(v == 77);
    }
}

static void reads_counts(void **state)
{
    (void)state;
    fm_err err = {0};
    uint64_t v;
    FM_ASSERT_OK(fm_parse_count("70B", &v, &err));
    assert_true(v == 70000000000);
    FM_ASSERT_OK(fm_parse_count("1.5b", &v, &err));
    assert_true(v == 1500000000);
    FM_ASSERT_OK(fm_parse_count("135M", &v, &err));
    assert_true(v == 135000000);
    FM_ASSERT_FAILS(fm_parse_count("1.5", &v, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_parse_count("70X", &v, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_parse_count("99999999T", &v, &err), FM_ERR_OVERFLOW);
    FM_ASSERT_OK(fm_parse_u64("12", 1, 12, &v, &err));
    assert_true(v == 12);
    FM_ASSERT_FAILS(fm_parse_u64("13", 1, 12, &v, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_parse_u64("0", 1, 12, &v, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_parse_u64("-1", 0, 12, &v, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_parse_u64("", 0, 12, &v, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_parse_u64("99999999999999999999", 0, 12, &v, &err), FM_ERR_OVERFLOW);
    fm_units units;
    FM_ASSERT_OK(fm_parse_units("GiB", &units, &err));
    assert_int_equal(units, FM_UNITS_GIB);
    FM_ASSERT_FAILS(fm_parse_units("MB", &units, &err), FM_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_have_commas), cmocka_unit_test(sizes_round_half_up), cmocka_unit_test(seconds_in_words),
        cmocka_unit_test(reads_sizes),        cmocka_unit_test(reads_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
