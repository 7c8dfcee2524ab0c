// Case files: every shared one is read whole, typed and resolved; bad files are refused with a place, never a crash.
#include "testing.h"
#include <unistd.h>
#include "floodmark/cases.h"
#include "floodmark/machine.h"

static const char *shared;

typedef struct {
    unsigned rows, wrong, resolved, later, conflict;
} tally;

static tally walk(const char *path)
{
    fm_cases *cases = NULL;
    fm_case row;
    fm_err err = {0};
    tally t = {0};
    bool more = false;
    FM_ASSERT_OK(fm_cases_open(path, &cases, &err));
    for (;;) {
        FM_ASSERT_OK(fm_cases_next(cases, &row, &more, &err));
        if (!more)
            break;
        t.rows++;
        assert_true(row.bytes > 0 || row.phase == FM_AT_HOST);
        assert_true(row.trust != FM_TRUST_UNKNOWN);
        assert_string_equal(fm_cases_cell(cases, "id"), row.id);
        if (row.status) {
            fail_msg("%s: line %u: %s", path, row.line, row.reason);
            t.wrong++;
        }
        fm_machine machine;
        fm_recipe resolved;
        FM_ASSERT_OK(fm_machine_parse(row.on, &machine, &err));
        fm_recipe_site site = {.machine = machine.text,
                               .gpu = machine.gpu.name,
                               .world = machine.world,
                               .capability = machine.gpu.capability};
        fm_status status = fm_recipe_resolve(&row.recipe, &site, &resolved, &err);
        t.resolved += status == FM_OK;
        t.later += status == FM_ERR_LATER;
        t.conflict += status != FM_OK && status != FM_ERR_LATER;
        if (status && status != FM_ERR_LATER)
            print_message("%s: line %u: %s\n", path, row.line, err.message);
    }
    fm_cases_close(cases);
    return t;
}

static void test_shared(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned rows;
        bool built; // every row can be planned now
    } files[] = {{"steps", 2507, true}, {"finetune", 2470, false}, {"zero", 506, false}, {"measured", 245, false}};
    for (size_t i = 0; i < 4; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/cases/%s.csv", shared, files[i].name);
        tally t = walk(path);
        print_message("%s: %u rows, %u resolved, %u later, %u contradictory\n", files[i].name, t.rows, t.resolved,
                      t.later, t.conflict);
        assert_int_equal(t.rows, files[i].rows);
        assert_int_equal(t.conflict, 0);
        if (files[i].built)
            assert_int_equal(t.resolved, t.rows);
    }
}

// Writes n bytes as a file and reads it to its end. Returns the first error, rows in *n_rows.
static fm_status read_bytes(const char *bytes, size_t n, unsigned *n_rows, fm_case *last, fm_err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/fm-cases-%d.csv", (int)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
    fm_cases *cases = NULL;
    fm_case row;
    bool more = true;
    *n_rows = 0;
    fm_status status = fm_cases_open(path, &cases, err);
    while (!status && more && !(status = fm_cases_next(cases, &row, &more, err)))
        if (more) {
            ++*n_rows;
            if (last)
                *last = row;
        }
    fm_cases_close(cases);
    unlink(path);
    return status;
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned rows;
        fm_status row_status; // of the last row
    } good[] = {
        {"id,model,phase,bytes\n", 0, FM_OK},
        {"id,model,phase,bytes", 0, FM_OK},
        {"\xef\xbb\xbfid,model,phase,bytes\r\na,b,run,1\r\n", 1, FM_OK},
        {"id,model,phase,bytes\na,b,run,1", 1, FM_OK},
        {"bytes,phase,model,id\n1,run,b,a\n\n\n2,run,b,a\n", 2, FM_OK},
        {"id,model,phase,bytes,lora_on\n\"a\"\"b\n,c\",b,run,1,\"q,v\"\n", 1, FM_OK},
        {"id,model,phase,bytes\na,b,,1\n", 1, FM_OK},
        {"id,model,phase,bytes\na,b,rum,1\n", 1, FM_ERR_VALUE},
        {"id,model,phase,bytes\na,b,run,\n", 1, FM_ERR_VALUE},
        {"id,model,phase,bytes\na,b,run,-1\n", 1, FM_ERR_VALUE},
        {"id,model,phase,bytes\na,b,run,1e9\n", 1, FM_ERR_VALUE},
        {"id,model,phase,bytes,trust\na,b,run,1,maybe\n", 1, FM_ERR_VALUE},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        unsigned rows = 0;
        fm_case last = {0};
        fm_err err = {0};
        if (read_bytes(good[i].text, strlen(good[i].text), &rows, &last, &err) || rows != good[i].rows ||
            last.status != good[i].row_status)
            fail_msg("%s: %u rows, row status %d, %s", good[i].text, rows, last.status, err.message);
        assert_true(!last.status == !last.reason[0]);
    }
    static const char *const bad[][2] = {
        {"", "empty"},
        {"\n\n", "empty"},
        {"id,model,phase\n", "no column \"bytes\""},
        {"id,model,phase,bytes,sequence\n", "unknown column \"sequence\""},
        {"id,model,phase,bytes,seqq\n", "did you mean seq"},
        {"id,model,phase,bytes,seq,seq\n", "occurs twice"},
        {"id,model,phase,bytes\na,b,run\n", "line 2: 3 cells"},
        {"id,model,phase,bytes\na,b,run,1,2\n", "line 2: 5 cells"},
        {"id,model,phase,bytes\n\"a\nb\",b,run,1\n\"c,b,run,1\n", "line 4"},
        {"id,model,phase,bytes\n\"a\"b,b,run,1\n", "after a closing quote"},
        {"id,model,phase,bytes\na\"b,b,run,1\n", "a quote inside"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        unsigned rows = 0;
        fm_err err = {0};
        fm_status status = read_bytes(bad[i][0], strlen(bad[i][0]), &rows, NULL, &err);
        if (status == FM_OK || !strstr(err.message, bad[i][1]) || !strstr(err.message, "fm-cases-"))
            fail_msg("%s: status %d, %s", bad[i][0], status, err.message);
    }
    unsigned rows = 0;
    fm_err err = {0};
    static const char zero[] = "id,model,phase,bytes\na,b\0,run,1\n";
    FM_ASSERT_FAILS(read_bytes(zero, sizeof zero - 1, &rows, NULL, &err), FM_ERR_SYNTAX);
    fm_cases *cases = NULL;
    FM_ASSERT_FAILS(fm_cases_open("/nonexistent/cases.csv", &cases, &err), FM_ERR_NOT_FOUND);
    FM_ASSERT_FAILS(fm_cases_open("/tmp", &cases, &err), FM_ERR_IO);
}

static void test_long_cells(void **state)
{
    (void)state;
    static char text[2 << 20];
    for (int quoted = 0; quoted < 2; quoted++) {
        size_t n = (size_t)snprintf(text, sizeof text, "id,model,phase,bytes\n%s", quoted ? "\"" : "");
        memset(text + n, 'x', sizeof text - n);
        unsigned rows = 0;
        fm_err err = {0};
        FM_ASSERT_FAILS(read_bytes(text, sizeof text, &rows, NULL, &err), FM_ERR_OVERFLOW);
    }
    size_t n = 0; // as many cells as bytes
    memset(text, ',', sizeof text);
    unsigned rows = 0;
    fm_err err = {0};
    FM_ASSERT_FAILS(read_bytes(text + n, sizeof text, &rows, NULL, &err), FM_ERR_SYNTAX);
}

// Damaged files: bytes changed, cut and doubled at every place. Any outcome but a crash.
static void test_damage(void **state)
{
    (void)state;
    static const char text[] =
        "id,model,phase,bytes,lora_on,clip,trust\r\n\"a \"\"1\"\"\",m,run,12,\"q,v\",yes,exact\r\n"
        "b,m,steady,99,,0.5,high\r\n";
    static const char with[] = "\",\n\r\0\x80x9";
    char copy[sizeof text];
    unsigned n_read = 0, n_refused = 0;
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (size_t w = 0; w < sizeof with; w++) {
            memcpy(copy, text, sizeof text);
            copy[at] = with[w];
            size_t n = w == sizeof with - 1 ? at : sizeof text - 1; // the last one cuts instead
            unsigned rows = 0;
            fm_err err = {0};
            fm_status status = read_bytes(copy, n, &rows, NULL, &err);
            n_read += !status;
            n_refused += status && err.message[0] && err.code == status;
        }
    assert_int_equal(n_read + n_refused, (sizeof text - 1) * sizeof with);
    assert_true(n_read > 100 && n_refused > 100);
}

static void test_where(void **state)
{
    (void)state;
    static const char text[] = "id,model,phase,bytes,lora_on,engine\n1,m,run,1,\"q,v\",ddp\n2,m,steady,1,,fsdp2\n"
                               "3,m,run,1,,fsdp2\n";
    static const struct {
        const char *where, *ids;
    } good[] = {
        {"phase=run", "13"}, {"phase=run,engine=fsdp2", "3"},
        {"lora_on=", "23"},  {"lora_on=q,v,phase=run", "1"},
        {"clip=", "123"},    {"clip=no", ""},
        {"id=1,id=2", "12"}, {"phase=", ""},
    };
    char path[64];
    snprintf(path, sizeof path, "/tmp/fm-where-%d.csv", (int)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fm_err err = {0};
        fm_where *where = NULL;
        fm_cases *cases = NULL;
        fm_case row;
        bool more = true;
        char ids[8] = "";
        FM_ASSERT_OK(fm_where_parse(good[i].where, &where, &err));
        FM_ASSERT_OK(fm_cases_open(path, &cases, &err));
        while (fm_cases_next(cases, &row, &more, &err) == FM_OK && more)
            if (fm_where_match(where, cases))
                strcat(ids, row.id);
        assert_string_equal(ids, good[i].ids);
        fm_cases_close(cases);
        fm_where_destroy(where);
    }
    unlink(path);
    static const char *const bad[] = {"", "phase", "fase=run", "phase=run,fase=run", "=x", "phase=run,engien=ddp"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fm_err err = {0};
        fm_where *where = NULL;
        FM_ASSERT_FAILS(fm_where_parse(bad[i], &where, &err), FM_ERR_USAGE);
        assert_null(where);
    }
}

int main(void)
{
    shared = fm_test_shared();
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_long_cells),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_where),
    };
    const struct CMUnitTest with_shared[] = {cmocka_unit_test(test_shared)};
    int failed = cmocka_run_group_tests(own, NULL, NULL);
    if (shared)
        failed += cmocka_run_group_tests(with_shared, NULL, NULL);
    return failed ? 1 : shared ? 0 : FM_TEST_SKIPPED;
}
