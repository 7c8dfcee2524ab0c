#include "testing.h"
#include "base/fault.h"
#include "base/table.h"

static void fill(fm_table *t)
{
    fm_table_column(t, "role", FM_ALIGN_AUTO);
    fm_table_column(t, "bytes", FM_ALIGN_AUTO);
    fm_table_column(t, "note", FM_ALIGN_AUTO);
    fm_table_cell(t, "parameters");
    fm_table_cell(t, "%d", 140);
    fm_table_cell(t, "é");
    fm_table_cell(t, "moments");
    fm_table_cell(t, "%d", 5600);
    fm_table_end_row(t);
    fm_table_rule(t);
    fm_table_cell(t, "total");
    fm_table_cell(t, "-");
    fm_table_cell(t, "%s", "x");
}

static void plain_table_lines_up(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_table t = {0};
    fm_buf out = {0};
    fill(&t);
    FM_ASSERT_OK(fm_table_print(&t, FM_TABLE_PLAIN, 2, &out, &err));
    assert_string_equal(fm_buf_text(&out), "  role        bytes  note\n"
                                           "  ----------  -----  ----\n"
                                           "  parameters    140  é\n"
                                           "  moments      5600\n"
                                           "  ----------  -----  ----\n"
                                           "  total           -  x\n");
    fm_buf_clear(&out);
    FM_ASSERT_OK(fm_table_print(&t, FM_TABLE_MARKDOWN, 0, &out, &err));
    assert_string_equal(fm_buf_text(&out), "| role       | bytes | note |\n"
                                           "|------------|------:|------|\n"
                                           "| parameters |   140 | é    |\n"
                                           "| moments    |  5600 |      |\n"
                                           "| total      |     - | x    |\n");
    fm_buf_reset(&out);
    fm_table_reset(&t);
}

static void empty_tables(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_table t = {0};
    fm_buf out = {0};
    FM_ASSERT_OK(fm_table_print(&t, FM_TABLE_PLAIN, 0, &out, &err));
    fm_table_column(&t, "", FM_ALIGN_LEFT);
    FM_ASSERT_OK(fm_table_print(&t, FM_TABLE_PLAIN, 0, &out, &err));
    assert_string_equal(fm_buf_text(&out), "");
    fm_table_cell(&t, "%s", "only");
    FM_ASSERT_OK(fm_table_print(&t, FM_TABLE_PLAIN, 0, &out, &err));
    assert_string_equal(fm_buf_text(&out), "only\n");
    fm_buf_reset(&out);
    fm_table_reset(&t);
}

static void widths(void **state)
{
    (void)state;
    assert_int_equal(fm_text_width("abc", 3), 3);
    assert_int_equal(fm_text_width("é", 2), 1);
    assert_int_equal(fm_text_width("e\xcc\x81", 3), 1); // e and a combining acute
    assert_int_equal(fm_text_width("水", 3), 2);
    assert_int_equal(fm_text_width("\xff\xfe", 2), 2);
    static const struct {
        size_t width;
        const char *want;
    } cuts[] = {{9, "ab水水cd"}, {8, "ab水水cd"}, {7, "ab水水…"}, {6, "ab水…"},
                {5, "ab水…"},    {4, "ab…"},      {1, "…"},       {0, ""}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        fm_buf out = {0};
        fm_text_cut(&out, "ab水水cd", cuts[i].width);
        assert_string_equal(fm_buf_text(&out), cuts[i].want);
        fm_buf_reset(&out);
    }
}

static void out_of_memory_is_told_once(void **state)
{
    (void)state;
    fm_err err = {0};
    for (uint64_t nth = 1;; nth++) {
        fm_table t = {0};
        fm_buf out = {0};
        fm_fault_arm(FM_FAULT_ALLOC, nth, false);
        fill(&t);
        fm_status status = fm_table_print(&t, FM_TABLE_PLAIN, 0, &out, &err);
        bool struck = fm_fault_calls(FM_FAULT_ALLOC) >= nth;
        fm_fault_disarm();
        fm_buf_reset(&out);
        fm_table_reset(&t);
        assert_int_equal(status, struck ? FM_ERR_NO_MEMORY : FM_OK);
        if (!struck)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_table_lines_up),
        cmocka_unit_test(empty_tables),
        cmocka_unit_test(widths),
        cmocka_unit_test(out_of_memory_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
