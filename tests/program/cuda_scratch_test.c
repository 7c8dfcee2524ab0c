// Sizes that CUDA kernels and libraries take inside, against figures known from elsewhere.
#include "testing.h"
#include "program/cuda_scratch.h"

// What torch.cuda.memory_allocated shows after a first product: 8.125 MiB, 32 MiB on Hopper and Blackwell.
static void test_cublas_workspace(void **state)
{
    (void)state;
    assert_int_equal(fm_cublas_workspace_bytes(70), 8519680);
    assert_int_equal(fm_cublas_workspace_bytes(80), 8519680);
    assert_int_equal(fm_cublas_workspace_bytes(89), 8519680);
    assert_int_equal(fm_cublas_workspace_bytes(90), 33554432);
    assert_int_equal(fm_cublas_workspace_bytes(100), 33554432);
    assert_int_equal(fm_cublas_workspace_bytes(120), 33554432);
}

static void test_embedding(void **state)
{
    (void)state;
    assert_int_equal(fm_embedding_backward_scratch(3072, 32000, 2048), 0); // added up in place
    // 4096 look-ups in 32000 rows: 4096 runs, 409 + 4096 pieces of 2048 floats.
    uint64_t lists = 5 * 32768 + 36352 + 1024; // 8 x 4505 = 36040, rounded up
    assert_int_equal(fm_embedding_backward_scratch(4096, 32000, 2048), lists + 4505ull * 2048 * 4);
    // No more runs than rows.
    uint64_t few = 3 * 65536 + 2 * 1024 + 7680 + 1024;                            // 8 x (819 + 100) = 7352
    assert_int_equal(fm_embedding_backward_scratch(8192, 100, 64), few + 235520); // 919 x 64 x 4 = 235264
}

static void test_efficient_attention(void **state)
{
    (void)state;
    // One tile of 64 x 64 with its four words: 16400 bytes, the size of the kernel's GradQTempStorage; delta 256.
    fm_attention_shape one = {.batch = 1, .heads = 1, .queries = 64, .keys = 64, .width = 32, .value_width = 32};
    assert_int_equal(fm_efficient_backward_scratch(&one, FM_ELEM_F16, 80), 16896 + 512);
    // fp32: outside of the kernel a product of the outputs' size, and twice delta, which is more than the tiles.
    fm_attention_shape s = {.batch = 2, .heads = 8, .queries = 1024, .keys = 1024, .width = 64, .value_width = 64};
    uint64_t heads = 16, delta = heads * 1024 * 4;
    assert_int_equal(fm_efficient_backward_scratch(&s, FM_ELEM_F32, 90), heads * 1024 * 64 * 4 + 2 * delta);
    assert_int_equal(fm_efficient_backward_scratch(&s, FM_ELEM_BF16, 90), delta + heads * 16 * 16400);
    // 200 queries: four tiles hold 256.
    s.queries = s.keys = 200;
    assert_int_equal(fm_efficient_backward_scratch(&s, FM_ELEM_BF16, 80), 12800 + heads * 4 * 16400);
    // Above a head size of 128 in 16 bits dk and dv are added up in fp32 too: 200 / 16 heads = 12 splits at most.
    fm_attention_shape wide = {.batch = 2, .heads = 8, .queries = 1024, .keys = 1024, .width = 256, .value_width = 256};
    uint64_t dq = 8 * 4 * (128 * 64 + 4), dk_dv = 12 * 64 * 512;
    assert_int_equal(fm_efficient_backward_scratch(&wide, FM_ELEM_BF16, 80), 65536 + 16 * (dq + dk_dv) * 4);
}

static void test_foreach_norm(void **state)
{
    (void)state;
    assert_int_equal(fm_foreach_norm_scratch(3, 65536), 512);
    assert_int_equal(fm_foreach_norm_scratch(291, 128256ull * 4096), 9330688); // 8016 parts of the largest: 9330624
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cublas_workspace),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_efficient_attention),
        cmocka_unit_test(test_foreach_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
