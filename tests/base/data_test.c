#include "testing.h"
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/data.h"
#include "base/fault.h"

static void found_from_any_directory(void **state)
{
    (void)state;
    fm_err err = {0};
    char *path = NULL;
    unsetenv("FLOODMARK_DATA");
    assert_int_equal(chdir("/"), 0);
    FM_ASSERT_OK(fm_data_path("models", &path, &err));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    fm_free(path);
    path = NULL;
    FM_ASSERT_FAILS(fm_data_path("no/such.json", &path, &err), FM_ERR_NOT_FOUND);
    assert_null(path);
    assert_non_null(strstr(err.message, "FLOODMARK_DATA"));
}

static void environment_comes_first(void **state)
{
    (void)state;
    fm_err err = {0};
    char *path = NULL, folder[] = "/tmp/fm-data-XXXXXX", file[64];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/mine.json", folder);
    fclose(fopen(file, "w"));
    setenv("FLOODMARK_DATA", folder, 1);
    FM_ASSERT_OK(fm_data_path("mine.json", &path, &err));
    assert_string_equal(path, file);
    fm_free(path);
    FM_ASSERT_FAILS(fm_data_path("models", &path, &err), FM_ERR_NOT_FOUND);
    fm_fault_arm(FM_FAULT_ALLOC, 1, true);
    FM_ASSERT_FAILS(fm_data_path("mine.json", &path, &err), FM_ERR_NO_MEMORY);
    fm_fault_disarm();
    unsetenv("FLOODMARK_DATA");
    unlink(file);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_from_any_directory),
        cmocka_unit_test(environment_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
