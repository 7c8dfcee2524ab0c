#include "testing.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/map.h"

enum { SIZE = 100000 };
static char folder[] = "/tmp/fm-map-XXXXXX", file[64], path[64];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/file", folder);
    FILE *f = fopen(file, "w");
    for (int i = 0; f && i < SIZE; i++)
        fputc(i % 251, f);
    return f ? fclose(f) : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static void maps_and_drops(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_map map = {0};
    FM_ASSERT_OK(fm_map_open(file, &map, &err));
    assert_int_equal(map.size, SIZE);
    fm_map_advise(&map, 0, UINT64_MAX, FM_MAP_SEQUENTIAL);
    fm_map_advise(&map, 5, 10, FM_MAP_SOON);
    fm_map_advise(&map, SIZE + 1, 10, FM_MAP_SOON);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SIZE; i++)
            assert_int_equal(map.data[i], i % 251);
        fm_map_advise(&map, 100, SIZE, FM_MAP_DROP); // read again in the next round
    }
    fm_map_close(&map);
    assert_null(map.data);
    fm_map_close(&map);
}

static void empty_file(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_map map = {0};
    snprintf(path, sizeof path, "%s/empty", folder);
    fclose(fopen(path, "w"));
    FM_ASSERT_OK(fm_map_open(path, &map, &err));
    assert_non_null(map.data);
    assert_int_equal(map.size, 0);
    fm_map_advise(&map, 0, 1, FM_MAP_DROP);
    fm_map_close(&map);
    unlink(path);
}

static void refuses_with_a_remedy(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_map map = {0};
    snprintf(path, sizeof path, "%s/nothing", folder);
    FM_ASSERT_FAILS(fm_map_open(path, &map, &err), FM_ERR_NOT_FOUND);
    assert_memory_equal(err.message, path, strlen(path));
    FM_ASSERT_FAILS(fm_map_open(folder, &map, &err), FM_ERR_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(mkfifo(path, 0600), 0);
    FM_ASSERT_FAILS(fm_map_open(path, &map, &err), FM_ERR_IO);
    assert_non_null(strstr(err.message, "not a regular file"));
    unlink(path);
    fm_fault_arm(FM_FAULT_OPEN, 1, false);
    FM_ASSERT_FAILS(fm_map_open(file, &map, &err), FM_ERR_IO);
    fm_fault_arm(FM_FAULT_MAP, 1, false);
    FM_ASSERT_FAILS(fm_map_open(file, &map, &err), FM_ERR_NO_MEMORY);
    fm_fault_disarm();
    assert_null(map.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_and_drops),
        cmocka_unit_test(empty_file),
        cmocka_unit_test(refuses_with_a_remedy),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
