#include "testing.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/fault.h"

static char folder[] = "/tmp/fm-atomic-XXXXXX", target[64];

static int setup(void **state)
{
    (void)state;
    signal(SIGINT, SIG_DFL); // an ignored signal would stay ignored, as under nohup
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    if (!mkdtemp(folder))
        return -1;
    snprintf(target, sizeof target, "%s/target", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(target);
    return rmdir(folder); // fails when a stray was left
}

static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(d);
    return n;
}

static void assert_content(const char *want)
{
    char text[100] = "";
    FILE *f = fopen(target, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    assert_string_equal(text, want);
}

static void put(const char *text)
{
    fm_err err = {0};
    FM_ASSERT_OK(fm_atomic_file_write(target, text, strlen(text), true, &err));
}

static void appears_whole(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_atomic_file *f = NULL;
    double seconds = -1;
    unlink(target);
    FM_ASSERT_OK(fm_atomic_file_create(target, false, &f, &err));
    FM_ASSERT_OK(fm_atomic_file_reserve(f, 10, &err));
    FM_ASSERT_OK(fm_atomic_file_append(f, "01234", 5, &err));
    assert_int_equal(access(target, F_OK), -1);
    FM_ASSERT_OK(fm_atomic_file_append(f, "56789", 5, &err));
    FM_ASSERT_OK(fm_atomic_file_pwrite(f, "ab", 2, 3, &err));
    assert_int_equal(fm_atomic_file_size(f), 10);
    fm_atomic_file_flush_behind(f, 0, 10);
    FM_ASSERT_OK(fm_atomic_file_commit(&f, &seconds, &err));
    assert_null(f);
    assert_true(seconds >= 0);
    assert_content("012ab56789");
    assert_int_equal(n_files(), 1);
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
}

static void refuses_and_replaces(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_atomic_file *f = NULL;
    put("old");
    chmod(target, 0640);
    FM_ASSERT_FAILS(fm_atomic_file_create(target, false, &f, &err), FM_ERR_EXISTS);
    assert_non_null(strstr(err.message, "--force"));
    put("new");
    assert_content("new");
    struct stat st;
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    FM_ASSERT_FAILS(fm_atomic_file_create(folder, true, &f, &err), FM_ERR_IO);
    FM_ASSERT_FAILS(fm_atomic_file_create("/dev/null", true, &f, &err), FM_ERR_IO);
    FM_ASSERT_FAILS(fm_atomic_file_create("/nowhere/at/all", false, &f, &err), FM_ERR_NOT_FOUND);
    FM_ASSERT_FAILS(fm_atomic_file_create("", false, &f, &err), FM_ERR_USAGE);
    assert_null(f);
    unlink(target);
    FM_ASSERT_OK(fm_atomic_file_create(target, false, &f, &err)); // the target appears while it is made
    put("other");
    FM_ASSERT_FAILS(fm_atomic_file_commit(&f, NULL, &err), FM_ERR_EXISTS);
    assert_content("other");
    assert_int_equal(n_files(), 1);
}

static void links_are_followed(void **state)
{
    (void)state;
    fm_err err = {0};
    char link[80];
    snprintf(link, sizeof link, "%s/link", folder);
    put("old");
    assert_int_equal(symlink("target", link), 0);
    assert_true(fm_same_file(link, target));
    FM_ASSERT_OK(fm_atomic_file_write(link, "through", 7, true, &err));
    assert_content("through");
    assert_true(fm_same_file(link, target));
    unlink(link);
    assert_false(fm_same_file(link, target));
}

static void abort_leaves_nothing(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_atomic_file *f = NULL;
    put("old");
    FM_ASSERT_OK(fm_atomic_file_create(target, true, &f, &err));
    FM_ASSERT_OK(fm_atomic_file_append(f, "x", 1, &err));
    assert_int_equal(n_files(), 2);
    fm_atomic_file_abort(&f);
    assert_null(f);
    fm_atomic_file_abort(&f);
    assert_content("old");
    assert_int_equal(n_files(), 1);
}

// Every kind of failure at every call: the old file is there, whole, and nothing else.
static void failure_sweep(void **state)
{
    (void)state;
    static const fm_fault_kind kinds[] = {FM_FAULT_ALLOC, FM_FAULT_OPEN, FM_FAULT_WRITE, FM_FAULT_SYNC,
                                          FM_FAULT_RENAME};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int failures = 0;
        for (uint64_t nth = 1;; nth++) {
            fm_err err = {0};
            put("old");
            fm_fault_arm(kinds[k], nth, false);
            fm_status status = fm_atomic_file_write(target, "new", 3, true, &err);
            bool struck = fm_fault_calls(kinds[k]) >= nth;
            fm_fault_disarm();
            assert_int_equal(n_files(), 1);
            if (!struck) {
                assert_int_equal(status, FM_OK);
                break;
            }
            failures++;
            assert_int_not_equal(status, FM_OK);
            assert_true(strlen(err.message) > 10);
            // The directory is synced after the new file is in place, and the message says so.
            assert_content(strstr(err.message, "written and in place") ? "new" : "old");
        }
        assert_true(failures > 0);
    }
}

static void full_disk_says_how_much(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_atomic_file *f = NULL;
    unlink(target);
    FM_ASSERT_OK(fm_atomic_file_create(target, false, &f, &err));
    FM_ASSERT_FAILS(fm_atomic_file_reserve(f, UINT64_C(1) << 60, &err), FM_ERR_IO);
    assert_non_null(strstr(err.message, "disk full: needs 1,152,921,504,606,846,976 bytes, "));
    FM_ASSERT_FAILS(fm_atomic_file_reserve(f, UINT64_MAX, &err), FM_ERR_OVERFLOW);
    FM_ASSERT_FAILS(fm_atomic_file_pwrite(f, "x", 1, UINT64_MAX, &err), FM_ERR_OVERFLOW);
    fm_fault_arm(FM_FAULT_WRITE, 1, false);
    FM_ASSERT_FAILS(fm_atomic_file_append(f, "0123456789", 10, &err), FM_ERR_IO);
    fm_fault_disarm();
    assert_non_null(strstr(err.message, "disk full: needs "));
    fm_atomic_file_abort(&f);
    assert_int_equal(n_files(), 0);
}

static void signals_remove_the_temporary(void **state)
{
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        put("old");
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            fm_atomic_file *f = NULL;
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            for (int shard = 0; shard < 100; shard++) // a large model's
                if (fm_atomic_file_create(target, true, &f, NULL) != FM_OK ||
                    fm_atomic_file_append(f, "x", 1, NULL) != FM_OK)
                    _exit(8);
            if (write(ready[1], n_files() == 101 ? "y" : "n", 1) == 1)
                for (;;)
                    pause();
            _exit(9);
        }
        char answer = 0;
        assert_int_equal(read(ready[0], &answer, 1), 1);
        assert_int_equal(answer, 'y');
        kill(child, numbers[i]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
        assert_content("old");
        assert_int_equal(n_files(), 1);
        close(ready[0]);
        close(ready[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appears_whole),
        cmocka_unit_test(refuses_and_replaces),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(abort_leaves_nothing),
        cmocka_unit_test(failure_sweep),
        cmocka_unit_test(full_disk_says_how_much),
        cmocka_unit_test(signals_remove_the_temporary),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
