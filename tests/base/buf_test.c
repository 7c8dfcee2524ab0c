#include "testing.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/fault.h"

static void grows_and_ends_with_zero(void **state)
{
    (void)state;
    fm_buf b = {0};
    fm_err err = {0};
    assert_string_equal(fm_buf_text(&b), "");
    for (int i = 0; i < 1000; i++) {
        fm_buf_printf(&b, "%d,", i);
        assert_int_equal(b.data[b.size], 0);
    }
    assert_int_equal(b.size, 10 * 2 + 90 * 3 + 900 * 4);
    assert_memory_equal(b.data, "0,1,2,3,", 8);
    FM_ASSERT_OK(fm_buf_check(&b, &err));
    fm_buf_clear(&b);
    assert_string_equal(fm_buf_text(&b), "");
    fm_buf_add(&b, NULL, 0);
    fm_buf_fill(&b, '-', 3);
    fm_buf_add_char(&b, '>');
    assert_string_equal(fm_buf_text(&b), "--->");
    fm_buf_reset(&b);
    assert_null(b.data);
}

static void integers_are_little_endian(void **state)
{
    (void)state;
    fm_buf b = {0};
    fm_buf_add_u8(&b, 1);
    fm_buf_add_u16(&b, 0x0302);
    fm_buf_add_u32(&b, 0x07060504);
    fm_buf_add_u64(&b, UINT64_C(0x0f0e0d0c0b0a0908));
    assert_int_equal(b.size, 15);
    for (int i = 0; i < 15; i++)
        assert_int_equal(b.data[i], i + 1);
    fm_buf_align(&b, 8);
    assert_int_equal(b.size, 16);
    fm_buf_align(&b, 8);
    assert_int_equal(b.size, 16);
    fm_buf_reset(&b);
}

static void failure_sticks(void **state)
{
    (void)state;
    fm_err err = {0};
    for (uint64_t nth = 1; nth <= 6; nth++) {
        fm_buf b = {0};
        fm_fault_arm(FM_FAULT_ALLOC, nth, false);
        for (int i = 0; i < 200; i++)
            fm_buf_printf(&b, "%06d\n", i);
        bool struck = fm_fault_calls(FM_FAULT_ALLOC) >= nth;
        fm_fault_disarm();
        assert_int_equal(b.failed, struck);
        if (struck) {
            size_t before = b.size;
            fm_buf_add_text(&b, "more");
            assert_int_equal(b.size, before);
            FM_ASSERT_FAILS(fm_buf_check(&b, &err), FM_ERR_NO_MEMORY);
            size_t size = 9;
            assert_null(fm_buf_take(&b, &size)); // frees
            assert_int_equal(size, 0);
        } else {
            FM_ASSERT_OK(fm_buf_check(&b, &err));
            fm_buf_reset(&b);
        }
    }
    fm_buf b = {0};
    assert_null(fm_buf_extend(&b, SIZE_MAX));
    assert_true(b.failed);
    fm_buf_reset(&b);
}

static void gives_its_bytes_away(void **state)
{
    (void)state;
    fm_buf b = {0};
    size_t size = 9;
    char *empty = fm_buf_take(&b, &size);
    assert_non_null(empty);
    assert_string_equal(empty, "");
    assert_int_equal(size, 0);
    fm_free(empty);
    fm_buf_add_text(&b, "abc");
    char *text = fm_buf_take(&b, &size);
    assert_string_equal(text, "abc");
    assert_int_equal(size, 3);
    assert_null(b.data);
    fm_free(text);
}

static void allocation_corners(void **state)
{
    (void)state;
    void *p = fm_alloc(0), *q = fm_calloc(0, 8);
    assert_non_null(p);
    assert_non_null(q);
    p = fm_realloc(p, 0);
    assert_non_null(p);
    fm_free(p);
    fm_free(q);
    assert_null(fm_alloc_array(SIZE_MAX / 2, 3));
    assert_null(fm_realloc_array(NULL, SIZE_MAX / 2, 3));
    assert_null(fm_calloc(SIZE_MAX / 2, 3));
    void *aligned = fm_alloc_aligned(4096, 10);
    assert_int_equal((uintptr_t)aligned % 4096, 0);
    fm_free(aligned);
    char *cut = fm_strndup("abcdef", 3), *whole = fm_strdup("abc");
    assert_string_equal(cut, whole);
    fm_free(cut);
    fm_free(whole);
    int *items = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 100; i++) {
        int *grown = fm_grow(items, &capacity, (size_t)i, sizeof *items);
        assert_non_null(grown);
        items = grown;
        items[i] = i;
        assert_true(capacity > (size_t)i);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(items[i], i);
    fm_free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_ends_with_zero), cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(failure_sticks),           cmocka_unit_test(gives_its_bytes_away),
        cmocka_unit_test(allocation_corners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
