#include "testing.h"
#include <errno.h>
#include "base/alloc.h"
#include "base/fault.h"

static void nth_fails_once(void **state)
{
    (void)state;
    fm_fault_arm(FM_FAULT_ALLOC, 3, false);
    for (int call = 1; call <= 5; call++) {
        void *p = fm_alloc(1);
        assert_int_equal(p == NULL, call == 3);
        fm_free(p);
    }
    assert_int_equal(fm_fault_calls(FM_FAULT_ALLOC), 5);
    fm_fault_disarm();
    assert_int_equal(fm_fault_calls(FM_FAULT_ALLOC), 0);
}

static void stays_failed(void **state)
{
    (void)state;
    fm_fault_arm(FM_FAULT_WRITE, 2, true);
    assert_false(fm_fault(FM_FAULT_WRITE));
    for (int i = 0; i < 3; i++) {
        errno = 0;
        assert_true(fm_fault(FM_FAULT_WRITE));
        assert_int_equal(errno, ENOSPC);
    }
    assert_false(fm_fault(FM_FAULT_READ));
    fm_fault_disarm();
    assert_false(fm_fault(FM_FAULT_WRITE));
}

static void counts_only(void **state)
{
    (void)state;
    fm_fault_arm(FM_FAULT_READ, 0, true);
    for (int i = 0; i < 4; i++)
        assert_false(fm_fault(FM_FAULT_READ));
    assert_int_equal(fm_fault_calls(FM_FAULT_READ), 4);
    fm_fault_disarm();
}

static void reads_the_environment(void **state)
{
    (void)state;
    fm_err err = {0};
    unsetenv("FLOODMARK_FAULT");
    FM_ASSERT_OK(fm_fault_arm_from_env(&err));
    assert_false(fm_fault_armed_);
    setenv("FLOODMARK_FAULT", "read:2,sync:1+", 1);
    FM_ASSERT_OK(fm_fault_arm_from_env(&err));
    assert_false(fm_fault(FM_FAULT_READ));
    assert_true(fm_fault(FM_FAULT_READ));
    assert_false(fm_fault(FM_FAULT_READ));
    assert_true(fm_fault(FM_FAULT_SYNC));
    assert_true(fm_fault(FM_FAULT_SYNC));
    fm_fault_disarm();
    static const char *const bad[] = {
        "read", "read:", "read:x", "reads:1", "read:1-", "read:+", "read:99999999999999999999", ",", "read: 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("FLOODMARK_FAULT", bad[i], 1);
        FM_ASSERT_FAILS(fm_fault_arm_from_env(&err), FM_ERR_USAGE);
        fm_fault_disarm();
    }
    unsetenv("FLOODMARK_FAULT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_fails_once),
        cmocka_unit_test(stays_failed),
        cmocka_unit_test(counts_only),
        cmocka_unit_test(reads_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
