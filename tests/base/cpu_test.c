#include "testing.h"
#include "base/cpu.h"

static void override_lowers_never_raises(void **state)
{
    (void)state;
    const char *problem;
    assert_int_equal(fm_cpu_level_for(NULL, FM_CPU_AVX2, &problem), FM_CPU_AVX2);
    assert_null(problem);
    assert_int_equal(fm_cpu_level_for("", FM_CPU_AVX2, &problem), FM_CPU_AVX2);
    assert_null(problem);
    assert_int_equal(fm_cpu_level_for("scalar", FM_CPU_AVX512, &problem), FM_CPU_SCALAR);
    assert_null(problem);
    assert_int_equal(fm_cpu_level_for("avx512", FM_CPU_AVX512, &problem), FM_CPU_AVX512);
    assert_null(problem);
    assert_int_equal(fm_cpu_level_for("avx512", FM_CPU_AVX2, &problem), FM_CPU_AVX2);
    assert_non_null(strstr(problem, "cannot run"));
    assert_int_equal(fm_cpu_level_for("sse", FM_CPU_AVX2, &problem), FM_CPU_AVX2);
    assert_non_null(strstr(problem, "scalar, avx2 or avx512"));
}

static void features_agree_with_the_compiler(void **state)
{
    (void)state;
    const fm_cpu *cpu = fm_cpu_features();
#if defined(__x86_64__)
    assert_int_equal(cpu->avx2, __builtin_cpu_supports("avx2") != 0);
    if (cpu->best >= FM_CPU_AVX2)
        assert_true(cpu->avx2 && cpu->fma && cpu->f16c);
    if (cpu->best >= FM_CPU_AVX512)
        assert_true(cpu->avx512);
#else
    assert_int_equal(cpu->best, FM_CPU_SCALAR);
#endif
}

static void environment_is_read(void **state)
{
    (void)state;
    setenv("FLOODMARK_CPU", "scalar", 1);
    assert_int_equal(fm_cpu_level_chosen(), FM_CPU_SCALAR);
    assert_string_equal(fm_cpu_level_name(fm_cpu_level_chosen()), "scalar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(override_lowers_never_raises),
        cmocka_unit_test(features_agree_with_the_compiler),
        cmocka_unit_test(environment_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
