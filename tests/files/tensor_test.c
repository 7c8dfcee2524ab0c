// The table of stored types: consistent in itself and with the formats that can be written; sizes that cannot be said.
#include "testing.h"
#include <strings.h>
#include "floodmark/block_format.h"
#include "floodmark/tensor.h"

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < FM_TENSOR_TYPE_N; i++) {
        const fm_tensor_type_info *a = fm_tensor_type_of((fm_tensor_type)i);
        assert_int_equal(a->type, i);
        assert_ptr_equal(fm_tensor_type_by_name(a->name), a);
        assert_true(a->safetensors || a->ggml >= 0);
        if (a->safetensors)
            assert_ptr_equal(fm_tensor_type_by_safetensors(a->safetensors), a);
        if (a->ggml >= 0) {
            assert_ptr_equal(fm_tensor_type_by_ggml((uint32_t)a->ggml), a);
            assert_int_equal(a->block_bits % 8, 0);
        }
        assert_true(a->block_elems >= 1 && (a->block_elems & (a->block_elems - 1)) == 0);
    }
    assert_null(fm_tensor_type_of(FM_TENSOR_TYPE_N));
    assert_null(fm_tensor_type_by_safetensors("f32"));
    assert_ptr_equal(fm_tensor_type_by_name("q4_k"), fm_tensor_type_of(FM_TENSOR_Q4_K));
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, UINT32_MAX};
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++)
        assert_null(fm_tensor_type_by_ggml(removed[i]));
}

// What quantize/ writes is what files/ lays out.
static void test_block_formats(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ggml, elems, bytes;
    } rows[] = {
#define ROW(NAME, name, ggml, elems, bytes, exact) {#name, ggml, elems, bytes},
        FM_BLOCK_LIST(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const fm_tensor_type_info *t = fm_tensor_type_by_ggml(rows[i].ggml);
        assert_non_null(t);
        assert_int_equal(strcasecmp(t->name, rows[i].name), 0);
        assert_int_equal(t->block_elems, rows[i].elems);
        assert_int_equal(t->block_bits, rows[i].bytes * 8);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        fm_tensor_type type;
        uint32_t n_dims;
        uint64_t dims[3];
        fm_status status;
        uint64_t bytes;
    } rows[] = {
        {FM_TENSOR_F32, 0, {0}, FM_OK, 4},
        {FM_TENSOR_F32, 2, {3, 5}, FM_OK, 60},
        {FM_TENSOR_F32, 3, {UINT64_MAX, 0, UINT64_MAX}, FM_OK, 0},
        {FM_TENSOR_F4, 2, {3, 2}, FM_OK, 3},
        {FM_TENSOR_F4, 1, {3}, FM_ERR_VALUE, 0},
        {FM_TENSOR_F6_E2M3, 1, {4}, FM_OK, 3},
        {FM_TENSOR_F6_E2M3, 1, {2}, FM_ERR_VALUE, 0},
        {FM_TENSOR_Q4_K, 2, {2, 512}, FM_OK, 576},
        {FM_TENSOR_Q4_K, 2, {256, 2}, FM_ERR_VALUE, 0},
        {FM_TENSOR_Q4_K, 0, {0}, FM_ERR_VALUE, 0},
        {FM_TENSOR_U8, 1, {INT64_MAX}, FM_OK, INT64_MAX},
        {FM_TENSOR_U8, 1, {(uint64_t)INT64_MAX + 1}, FM_ERR_OVERFLOW, 0},
        {FM_TENSOR_U8, 2, {(uint64_t)1 << 33, (uint64_t)1 << 33}, FM_ERR_OVERFLOW, 0},
        {FM_TENSOR_TYPE_N, 1, {1}, FM_ERR_USAGE, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fm_err err = {0};
        uint64_t n = 77, bytes = 77;
        FM_ASSERT_FAILS(fm_tensor_size(rows[i].type, rows[i].n_dims, rows[i].dims, &n, &bytes, &err), rows[i].status);
        assert_true(bytes == (rows[i].status ? 77 : rows[i].bytes));
    }
    char text[40];
    uint64_t dims[3] = {4096, 128, 3};
    assert_string_equal(fm_tensor_shape_text(3, dims, text, sizeof text), "[4096, 128, ...]");
    assert_string_equal(fm_tensor_shape_text(1, dims, text, sizeof text), "[4096]");
    assert_string_equal(fm_tensor_shape_text(0, dims, text, sizeof text), "[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_block_formats),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
