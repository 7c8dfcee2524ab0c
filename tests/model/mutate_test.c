// Configurations with some values replaced by others: read or refused with a message, never a crash, a leak, or a family that
// contradicts itself. Deterministic.
#include "testing.h"
#include <dirent.h>
#include "floodmark/tree.h"
#include "model/config.h"
#include "model/declare.h"

enum { TEXT = 4096, ROUNDS = 60 };

static const char *const values[] = {"0",
                                     "-1",
                                     "1",
                                     "null",
                                     "true",
                                     "\"x\"",
                                     "2",
                                     "8",
                                     "16",
                                     "3",
                                     "7",
                                     "1e9",
                                     "99999999999999999999",
                                     "[]",
                                     "{}",
                                     "0.5",
                                     "64",
                                     "[1,2]",
                                     "\"sliding_attention\"",
                                     "2.5",
                                     "[\"full_attention\",\"sliding_attention\"]",
                                     "{\"rope_type\":\"yarn\",\"factor\":4}"};
static uint64_t seed = 1;

static uint64_t random_below(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

// Replaces the value after a random colon.
static void mutate(char text[TEXT])
{
    char out[2 * TEXT];
    size_t colons = 0;
    for (const char *p = text; (p = strchr(p, ':')); p++)
        colons++;
    if (!colons)
        return;
    char *at = strchr(text, ':');
    for (size_t skip = random_below(colons); skip; skip--)
        at = strchr(at + 1, ':');
    char *end = at + 1;
    for (int depth = 0; *end && (depth || (*end != ',' && *end != '}')); end++)
        depth += (*end == '[' || *end == '{') - (*end == ']' || *end == '}');
    int n = snprintf(out, sizeof out, "%.*s%s%s", (int)(at + 1 - text), text,
                     values[random_below(sizeof values / sizeof *values)], end);
    if (n < TEXT)
        memcpy(text, out, (size_t)n + 1);
}

static void try_one(const char *text, size_t *read)
{
    fm_tree *tree = NULL;
    fm_arch arch = {0};
    fm_parts parts = {0};
    fm_err err = {0};
    fm_status status = fm_tree_parse_json(text, strlen(text), "config.json", &tree, &err);
    if (!status)
        status = fm_arch_read(fm_tree_root(tree), "x", 0, &arch, &err);
    if (!status)
        status = fm_declare(&arch, &parts, &err);
    if (status == FM_ERR_INTERNAL || (status && !*err.message))
        fail_msg("%s: %s", text, err.message);
    *read += !status;
    fm_parts_reset(&parts);
    fm_arch_reset(&arch);
    fm_tree_destroy(tree);
}

static void mutated_configurations_are_read_or_refused(void **state)
{
    (void)state;
    char folder[4096];
    size_t read = 0, n = 0;
    snprintf(folder, sizeof folder, "%s/tests/golden/models", getenv("FLOODMARK_SOURCE"));
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[8192], text[TEXT], changed[TEXT];
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".json") != 0 || !strncmp(e->d_name, "count-", 6))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        text[fread(text, 1, TEXT - 1, f)] = '\0';
        fclose(f);
        for (int round = 0; round < ROUNDS; round++, n++) {
            memcpy(changed, text, TEXT);
            for (uint64_t k = random_below(2) + 1; k; k--)
                mutate(changed);
            try_one(changed, &read);
        }
    }
    closedir(dir);
    if (n < 30 * ROUNDS || read <= n / 20 || read == n)
        fail_msg("%zu configurations, %zu read: the mutations are too many or too few", n, read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutated_configurations_are_read_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
