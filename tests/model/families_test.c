// Every family against the Hugging Face class itself: names, order, shapes, types, ties, buffers, counts. What is compared with
// was written by tests/golden/models/make.py; the counts of the catalogue come from its csv.
#include "testing.h"
#include <dirent.h>
#include "base/buf.h"
#include "floodmark/model.h"
#include "model/family.h"

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fm_buf text = {0};
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        fm_buf_add(&text, chunk, n);
    fclose(f);
    size_t n;
    return fm_buf_take(&text, &n);
}

static char *golden(const char *name, const char *suffix)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/models/%s%s", getenv("FLOODMARK_SOURCE"), name, suffix);
    return path;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Sorts the lines from the first that starts with "buffer ": modules register them in another order than they run.
static void sort_buffers(char *text)
{
    char *start = text, *lines[512];
    size_t n = 0;
    while (start && strncmp(start, "buffer ", 7) != 0)
        start = (start = strchr(start, '\n')) ? start + 1 : NULL;
    if (!start)
        return;
    char *copy = strdup(start), *end = strstr(copy, "call ");
    char *count = strdup(end);
    *end = '\0';
    for (char *line = strtok(copy, "\n"); line && n < 512; line = strtok(NULL, "\n"))
        lines[n++] = line;
    qsort(lines, n, sizeof *lines, by_text);
    char *p = start;
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, "%s\n", lines[i]);
    strcpy(p, count);
    free(count);
    free(copy);
}

// Modules with parameters in the order of use.
static void print_calls(const fm_model *m, fm_buf *out)
{
    size_t n = fm_model_n_tensors(m);
    char last[256] = "";
    for (uint32_t call = 0; call < n; call++)
        for (size_t i = 0; i < n; i++) {
            const fm_model_param *p = fm_model_param_at(m, i);
            size_t length = (size_t)(strrchr(p->name, '.') - p->name);
            if (p->call != call || (strlen(last) == length && !strncmp(last, p->name, length)))
                continue;
            snprintf(last, sizeof last, "%.*s", (int)length, p->name);
            fm_buf_printf(out, "call %s\n", last);
        }
}

static void print_model(const fm_model *m, fm_buf *out)
{
    for (size_t i = 0; i < fm_model_n_tensors(m); i++) {
        const fm_model_param *p = fm_model_param_at(m, i);
        if (p->tied_to >= 0)
            continue;
        fm_buf_printf(out, "param %s [", p->name);
        for (uint32_t k = 0; k < p->n_dims; k++)
            fm_buf_printf(out, "%s%llu", k ? "," : "", (unsigned long long)p->dims[k]);
        fm_buf_printf(out, "] %s\n", p->dtype);
    }
    for (size_t i = 0; i < fm_model_n_tensors(m); i++) {
        const fm_model_param *p = fm_model_param_at(m, i);
        if (p->tied_to >= 0)
            fm_buf_printf(out, "tied %s %s\n", p->name, fm_model_param_at(m, (size_t)p->tied_to)->name);
    }
    for (size_t i = 0; i < fm_model_n_buffers(m); i++) {
        const fm_model_buffer *b = fm_model_buffer_at(m, i);
        fm_buf_printf(out, "buffer %s %llu %s\n", b->name, (unsigned long long)b->n_elems, b->dtype);
    }
    print_calls(m, out);
    fm_buf_printf(out, "count %llu\n", (unsigned long long)fm_model_n_trained(m));
}

// The first line in which two texts differ.
static void assert_same_text(const char *name, char *want, const char *got)
{
    const char *a = want, *b = got;
    while (*a && *b) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || strncmp(a, b, n) != 0)
            fail_msg("%s: expected \"%.*s\", got \"%.*s\"", name, (int)n, a, (int)m, b);
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    if (*a || *b)
        fail_msg("%s: one text ends before the other (expected \"%.60s\", got \"%.60s\")", name, a, b);
}

static void check_one(const char *name)
{
    fm_err err;
    fm_model *m;
    fm_buf got = {0};
    char *want = slurp(golden(name, ".txt"));
    assert_non_null(want);
    FM_ASSERT_OK(fm_model_open(golden(name, ".json"), NULL, &m, &err));
    if (!strncmp(name, "count-", 6))
        fm_buf_printf(&got, "count %llu\n", (unsigned long long)fm_model_n_trained(m));
    else
        print_model(m, &got);
    sort_buffers(want);
    sort_buffers(got.data);
    assert_same_text(name, want, fm_buf_text(&got));
    fm_buf_reset(&got);
    free(want);
    fm_model_destroy(m);
}

static void every_class_as_transformers_builds_it(void **state)
{
    (void)state;
    char folder[4096];
    size_t n = 0;
    snprintf(folder, sizeof folder, "%s/tests/golden/models", getenv("FLOODMARK_SOURCE"));
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char *dot = strrchr(e->d_name, '.');
        if (dot && !strcmp(dot, ".txt")) {
            *dot = '\0';
            check_one(e->d_name);
            n++;
        }
    }
    closedir(dir);
    assert_true(n >= 42);
}

// Every family but the one that transformers never had is among the golden files under its own id.
static void every_family_has_a_golden_file(void **state)
{
    (void)state;
    for (const fm_family *const *f = fm_families; *f; f++) {
        char *text = slurp(golden((*f)->id, ".txt"));
        if (!text && strcmp((*f)->id, "qwen") != 0)
            fail_msg("family %s has no golden file", (*f)->id);
        free(text);
        assert_ptr_equal(fm_family_find((*f)->id), *f);
    }
    assert_null(fm_family_find("llam"));
    assert_null(fm_family_find(""));
    assert_ptr_equal(fm_family_find("RefinedWebModel"), fm_family_find("falcon"));
}

static void every_count_of_the_catalogue(void **state)
{
    (void)state;
    char *csv = slurp(golden("parameter-counts", ".csv"));
    size_t n = 0;
    assert_non_null(csv);
    for (char *line = strchr(csv, '\n') + 1; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char name[256], file[256];
        unsigned long long want;
        fm_err err;
        fm_model *m;
        assert_int_equal(sscanf(line, "%255[^,],%255[^,],%llu", name, file, &want), 3);
        FM_ASSERT_OK(fm_model_open(name, NULL, &m, &err));
        if (fm_model_n_params(m) != want)
            fail_msg("%s: %llu parameters, expected %llu", name, (unsigned long long)fm_model_n_params(m), want);
        fm_model_destroy(m);
        FM_ASSERT_OK(fm_model_open(file, NULL, &m, &err)); // the file's name works too
        fm_model_destroy(m);
        n++;
    }
    assert_int_equal(n, 53);
    free(csv);
}

// Units are whole: consecutive, all parameters once, blocks in order and as many as the model has.
static void units_hold_everything_once(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "deepseek-ai/DeepSeek-V3", "gemma-2-2b", "falcon-7b", "70B"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        fm_err err;
        fm_model *m;
        uint64_t sum = 0, next = 0, blocks = 0;
        FM_ASSERT_OK(fm_model_open(names[k], NULL, &m, &err));
        for (size_t i = 0; i < fm_model_n_units(m); i++) {
            const fm_model_unit *u = fm_model_unit_at(m, i);
            assert_int_equal(u->first_param, next);
            next += u->n_params;
            sum += u->n_elems;
            if (u->kind == FM_UNIT_BLOCK)
                assert_int_equal(u->block, blocks++);
            for (uint32_t p = 0; p < u->n_params; p++)
                assert_int_equal(fm_model_param_at(m, u->first_param + p)->unit, i);
        }
        assert_int_equal(next, fm_model_n_tensors(m));
        assert_int_equal(sum, fm_model_n_trained(m));
        assert_int_equal(blocks, fm_model_arch(m)->n_layers);
        fm_model_destroy(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_as_transformers_builds_it),
        cmocka_unit_test(every_family_has_a_golden_file),
        cmocka_unit_test(every_count_of_the_catalogue),
        cmocka_unit_test(units_hold_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
