#include "testing.h"
#include <float.h>
#include <math.h>
#include "base/json_out.h"

static void compact_and_pretty(void **state)
{
    (void)state;
    fm_err err = {0};
    for (int pretty = 0; pretty < 2; pretty++) {
        fm_buf out = {0};
        fm_json j;
        fm_json_init(&j, &out, pretty);
        fm_json_begin_object(&j);
        fm_json_put_u64(&j, "n", UINT64_MAX);
        fm_json_put_i64(&j, "i", INT64_MIN);
        fm_json_put_text(&j, "none", NULL);
        fm_json_put_bool(&j, "yes", true);
        fm_json_key(&j, "list");
        fm_json_begin_array(&j);
        fm_json_f64(&j, 0.1);
        fm_json_begin_object(&j);
        fm_json_end_object(&j);
        fm_json_end_array(&j);
        fm_json_end_object(&j);
        FM_ASSERT_OK(fm_json_finish(&j, &err));
        assert_string_equal(fm_buf_text(&out),
                            pretty ? "{\n  \"n\": 18446744073709551615,\n  \"i\": -9223372036854775808,\n"
                                     "  \"none\": null,\n  \"yes\": true,\n  \"list\": [\n    0.1,\n"
                                     "    {}\n  ]\n}\n"
                                   : "{\"n\":18446744073709551615,\"i\":-9223372036854775808,"
                                     "\"none\":null,\"yes\":true,\"list\":[0.1,{}]}\n");
        fm_buf_reset(&out);
    }
}

static void texts_are_escaped(void **state)
{
    (void)state;
    fm_buf out = {0};
    fm_json_quote(&out, "a\"\\/\b\f\n\r\t\x01é\xff水\0z", 18);
    assert_string_equal(fm_buf_text(&out), "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001é\xef\xbf\xbd水\\u0000z\"");
    fm_buf_reset(&out);
}

static void doubles_read_back(void **state)
{
    (void)state;
    static const double values[] = {
        0, -0.0, 1, 100, 0.1, 1.0 / 3, 1e300, DBL_MIN, DBL_MAX, 4.9e-324, 123456789012345, -2.5e-7};
    static const char *const short_ones[] = {"0", "-0", "1", "100", "0.1"};
    fm_buf out = {0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        fm_buf_clear(&out);
        fm_buf_add_f64(&out, values[i]);
        double back = strtod(fm_buf_text(&out), NULL);
        assert_memory_equal(&back, values + i, sizeof back);
        if (i < 5)
            assert_string_equal(fm_buf_text(&out), short_ones[i]);
    }
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) { // random bit patterns
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = seed ^ seed >> 29;
        double v, back;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        fm_buf_clear(&out);
        fm_buf_add_f64(&out, v);
        back = strtod(fm_buf_text(&out), NULL);
        assert_memory_equal(&back, &v, sizeof v);
    }
    fm_buf_reset(&out);
}

typedef void (*writer)(fm_json *);
static void no_key(fm_json *j)
{
    fm_json_begin_object(j);
    fm_json_u64(j, 1);
    fm_json_end_object(j);
}
static void key_in_array(fm_json *j)
{
    fm_json_begin_array(j);
    fm_json_key(j, "a");
    fm_json_end_array(j);
}
static void wrong_end(fm_json *j)
{
    fm_json_begin_array(j);
    fm_json_end_object(j);
}
static void two_values(fm_json *j)
{
    fm_json_null(j);
    fm_json_null(j);
}
static void unfinished(fm_json *j)
{
    fm_json_begin_array(j);
}
static void nothing(fm_json *j)
{
    (void)j;
}
static void not_finite(fm_json *j)
{
    fm_json_f64(j, NAN);
}
static void infinite(fm_json *j)
{
    fm_json_f64(j, INFINITY);
}
static void key_without_value(fm_json *j)
{
    fm_json_begin_object(j);
    fm_json_key(j, "a");
    fm_json_end_object(j);
}
static void too_deep(fm_json *j)
{
    for (int i = 0; i <= FM_JSON_DEPTH; i++)
        fm_json_begin_array(j);
    for (int i = 0; i <= FM_JSON_DEPTH; i++)
        fm_json_end_array(j);
}

static void misuse_is_an_error(void **state)
{
    (void)state;
    static const writer wrong[] = {no_key,  key_in_array, wrong_end, two_values,        unfinished,
                                   nothing, not_finite,   infinite,  key_without_value, too_deep};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fm_err err = {0};
        fm_buf out = {0};
        fm_json j;
        fm_json_init(&j, &out, false);
        wrong[i](&j);
        FM_ASSERT_FAILS(fm_json_finish(&j, &err), FM_ERR_INTERNAL);
        fm_buf_reset(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compact_and_pretty),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(doubles_read_back),
        cmocka_unit_test(misuse_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
