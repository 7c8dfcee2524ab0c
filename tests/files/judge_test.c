// Every file of a golden folder judged as its index says, through the one door that commands use: the files that came
// with the source, then the shared ones where they are.
#include "testing.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include "floodmark/tree.h"
#include "floodmark/weights.h"

static const char *root; // the folder that holds gguf/, gguf_bad/, safetensors/, safetensors_bad/
static int n_judged, n_wrong;

static fm_tree *read_index(const char *folder)
{
    char path[4096];
    fm_tree *tree = NULL;
    fm_err err = {0};
    snprintf(path, sizeof path, "%s/%s/index.json", root, folder);
    FM_ASSERT_OK(fm_tree_read(path, &tree, &err));
    return tree;
}

static const char *text(const fm_node *node, const char *key)
{
    const char *s = NULL;
    fm_err err = {0};
    FM_ASSERT_OK(fm_node_string(fm_node_get(node, key), &s, &err));
    return s;
}

static void judge(const char *path, const char *spec, const char *mutation)
{
    fm_weights *w = NULL;
    fm_err err = {0};
    fm_status status = fm_weights_open(path, &w, &err);
    bool wrong = (!strcmp(spec, "valid") && status) || (!strcmp(spec, "invalid") && !status);
    // A refusal names the file, says something, and leaves the output alone.
    const char *slash = strrchr(path, '/');
    wrong = wrong || (status && (w || strlen(err.message) < strlen(slash + 1) + 10 || err.code != status));
    wrong = wrong || (status && !strstr(err.message, slash + 1) && !strstr(path, "index.json"));
    printf("%s%-11s %-26s %-48s %s\n", wrong ? "WRONG " : "", spec, slash + 1, mutation,
           status ? err.message : "accepted");
    n_wrong += wrong;
    n_judged++;
    fm_weights_destroy(w);
}

static void judge_folder(const char *folder)
{
    fm_tree *index = read_index(folder);
    const fm_node *files = fm_node_get(fm_tree_root(index), "files");
    for (size_t i = 0; i < fm_node_count(files); i++) {
        const fm_node *file = fm_node_at(files, i);
        char path[4096];
        snprintf(path, sizeof path, "%s/%s/%s", root, folder, text(file, "file"));
        if (!access(path, F_OK))
            judge(path, text(file, "spec"), text(file, "mutation"));
    }
    fm_tree_destroy(index);
}

static void test_bad(void **state)
{
    (void)state;
    n_judged = n_wrong = 0;
    judge_folder("gguf_bad");
    judge_folder("safetensors_bad");
    assert_true(n_judged > 20);
    assert_int_equal(n_wrong, 0);
}

// ---- indexes: each spoilt one stands, for the test, beside the good shards ----

static void link_into(const char *folder, const char *from, const char *name)
{
    char target[4096], path[8192];
    char *real = realpath(from, NULL);
    snprintf(target, sizeof target, "%s/%s", real, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
    free(real);
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    closedir(dir);
    rmdir(folder);
}

static void test_bad_indexes(void **state)
{
    (void)state;
    char folder[] = "/tmp/floodmark-judge-XXXXXX", good[4096], bad[4096], path[8192];
    assert_non_null(mkdtemp(folder));
    snprintf(good, sizeof good, "%s/safetensors/sharded", root);
    snprintf(bad, sizeof bad, "%s/safetensors/sharded_bad", root);
    fm_tree *index = read_index("safetensors");
    const fm_node *sharded = fm_node_get(fm_tree_root(index), "sharded"), *files = fm_node_get(sharded, "files");
    for (size_t i = 0; i < fm_node_count(files); i++) {
        const char *name = fm_node_text(fm_node_at(files, i));
        if (strstr(name, ".safetensors") && !strstr(name, ".json"))
            link_into(folder, good, name);
    }
    n_judged = n_wrong = 0;
    const fm_node *rows = fm_node_get(sharded, "bad");
    for (size_t i = 0; i < fm_node_count(rows); i++) {
        const fm_node *row = fm_node_at(rows, i);
        link_into(folder, bad, text(row, "file"));
        snprintf(path, sizeof path, "%s/%s", folder, text(row, "file"));
        judge(path, text(row, "spec"), text(row, "mutation"));
        unlink(path);
    }
    remove_folder(folder);
    fm_tree_destroy(index);
    assert_true(n_judged >= 10);
    assert_int_equal(n_wrong, 0);
}

// ---- good files: what the index lists is what is read ----

static uint64_t number(const fm_node *node)
{
    uint64_t u = 0;
    fm_err err = {0};
    FM_ASSERT_OK(fm_node_u64(node, &u, &err));
    return u;
}

static void check_dims(const fm_tensor_info *t, const fm_node *dims, bool reversed)
{
    assert_int_equal(t->n_dims, fm_node_count(dims));
    for (uint32_t i = 0; i < t->n_dims; i++)
        assert_true(t->dims[reversed ? t->n_dims - 1 - i : i] == number(fm_node_at(dims, i)));
}

static void test_safetensors(void **state)
{
    (void)state;
    fm_tree *index = read_index("safetensors");
    const fm_node *files = fm_node_get(fm_tree_root(index), "files");
    size_t n_tensors = 0;
    for (size_t f = 0; f < fm_node_count(files); f++) {
        char path[4096];
        fm_weights *w = NULL;
        fm_err err = {0};
        snprintf(path, sizeof path, "%s/safetensors/%s", root, fm_node_key(files, f));
        FM_ASSERT_OK(fm_weights_open(path, &w, &err));
        const fm_safetensors *st = fm_weights_safetensors(w);
        const fm_node *want = fm_node_at(files, f), *tensors = fm_node_get(want, "tensors");
        const fm_node *metadata = fm_node_get_set(want, "metadata");
        assert_int_equal(fm_weights_n_tensors(w), fm_node_count(tensors));
        assert_int_equal(fm_safetensors_n_metadata(st), fm_node_count(metadata));
        for (size_t i = 0; i < fm_node_count(metadata); i++)
            assert_string_equal(fm_safetensors_metadata(st, fm_node_key(metadata, i)),
                                fm_node_text(fm_node_at(metadata, i)));
        uint64_t header = fm_safetensors_file_header_bytes(st, 0);
        for (size_t i = 0; i < fm_node_count(tensors); i++) {
            const fm_node *row = fm_node_at(tensors, i), *range = fm_node_get(row, "data_offsets");
            const fm_tensor_info *t = fm_weights_find(w, fm_node_key(tensors, i));
            assert_non_null(t);
            assert_string_equal(fm_tensor_type_of(t->type)->safetensors, text(row, "dtype"));
            check_dims(t, fm_node_get(row, "shape"), false);
            assert_true(t->offset == header + number(fm_node_at(range, 0)));
            assert_true(t->offset + t->bytes == header + number(fm_node_at(range, 1)));
            n_tensors++;
        }
        fm_weights_destroy(w);
    }
    fm_tree_destroy(index);
    assert_true(n_tensors > 20);
    char path[4096];
    fm_weights *w = NULL;
    fm_err err = {0};
    snprintf(path, sizeof path, "%s/safetensors/sharded", root);
    FM_ASSERT_OK(fm_weights_open(path, &w, &err));
    assert_int_equal(fm_weights_n_files(w), 4);
    assert_int_equal(fm_weights_n_tensors(w), 10);
    assert_int_equal(fm_weights_total_bytes(w), 10688);
    fm_weights_destroy(w);
}

// A JSON value of the index against element i of a GGUF value.
static void check_scalar(const fm_gguf_value *v, uint64_t i, const fm_node *want)
{
    uint64_t u = 0;
    int64_t s = 0;
    double d = 0, e = 0;
    bool flag = false;
    fm_err err = {0};
    switch (fm_node_type_of(want)) {
    case FM_NODE_BOOL:
        FM_ASSERT_OK(fm_node_bool(want, &flag, &err));
        assert_true(v->elem == FM_GGUF_BOOL && v->data[i] == flag);
        break;
    case FM_NODE_UINT:
        assert_true(fm_gguf_value_u64(v, i, &u) && u == number(want));
        break;
    case FM_NODE_INT:
        FM_ASSERT_OK(fm_node_i64(want, &s, &err));
        assert_true(fm_gguf_value_i64(v, i, (int64_t *)&u) && (int64_t)u == s);
        break;
    default:
        FM_ASSERT_OK(fm_node_double(want, &d, &err));
        assert_true(fm_gguf_value_double(v, i, &e) && d == e);
    }
}

static void check_key(const fm_gguf *g, const fm_node *row)
{
    const fm_gguf_value *v = fm_gguf_find(g, text(row, "key"));
    const fm_node *types = fm_node_get(row, "types"), *want = fm_node_get(row, "value");
    size_t n = 0;
    assert_non_null(v);
    assert_string_equal(fm_gguf_type_name(v->type), fm_node_text(fm_node_at(types, 0)));
    if (fm_node_type_of(want) == FM_NODE_STRING) {
        const char *bytes = fm_node_bytes(want, &n);
        assert_int_equal(v->count, n);
        assert_memory_equal(v->data, bytes, n);
    } else if (fm_node_type_of(want) != FM_NODE_ARRAY) {
        check_scalar(v, 0, want);
    } else {
        assert_string_equal(fm_gguf_type_name(v->elem), fm_node_text(fm_node_at(types, 1)));
        assert_int_equal(v->count, fm_node_count(want));
        const uint8_t *cursor = v->data;
        for (size_t i = 0; i < v->count; i++) {
            const char *got = NULL, *bytes = fm_node_bytes(fm_node_at(want, i), &n);
            size_t got_n = 0;
            if (v->elem != FM_GGUF_STRING) {
                check_scalar(v, i, fm_node_at(want, i));
                continue;
            }
            assert_true(fm_gguf_value_next_string(v, &cursor, &got, &got_n));
            assert_int_equal(got_n, n);
            assert_memory_equal(got, bytes, n);
        }
    }
}

static void test_gguf(void **state)
{
    (void)state;
    fm_tree *index = read_index("gguf");
    const fm_node *files = fm_node_get(fm_tree_root(index), "files");
    for (size_t f = 0; f < fm_node_count(files); f++) {
        char path[4096];
        fm_gguf *g = NULL;
        fm_err err = {0};
        snprintf(path, sizeof path, "%s/gguf/%s", root, fm_node_key(files, f));
        if (access(path, F_OK))
            continue;
        FM_ASSERT_OK(fm_gguf_open(path, &g, &err));
        const fm_node *want = fm_node_at(files, f), *keys = fm_node_get(want, "keys"),
                      *tensors = fm_node_get(want, "tensors");
        assert_true(fm_gguf_data_offset(g) == number(fm_node_get(want, "data_offset")));
        assert_true(fm_gguf_alignment(g) == number(fm_node_get(want, "alignment")));
        assert_int_equal(fm_gguf_n_keys(g), fm_node_count(keys));
        for (size_t i = 0; i < fm_node_count(keys); i++)
            check_key(g, fm_node_at(keys, i));
        assert_int_equal(fm_gguf_n_tensors(g), fm_node_count(tensors));
        for (size_t i = 0; i < fm_node_count(tensors); i++) {
            const fm_node *row = fm_node_at(tensors, i);
            const fm_tensor_info *t = fm_gguf_find_tensor(g, text(row, "name"));
            assert_non_null(t);
            assert_string_equal(fm_tensor_type_of(t->type)->name, text(row, "type"));
            check_dims(t, fm_node_get(row, "dims"), true);
            assert_true(t->bytes == number(fm_node_get(row, "bytes")));
            assert_true(t->offset == fm_gguf_data_offset(g) + number(fm_node_get(row, "offset_in_data")));
        }
        fm_gguf_destroy(g);
    }
    fm_tree_destroy(index);
}

static int run(const char *folder)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_bad_indexes),
        cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_safetensors),
    };
    root = folder;
    printf("judging %s\n", folder);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    char path[4096];
    const char *source = getenv("FLOODMARK_SOURCE");
    if (argc > 1)
        return run(argv[1]);
    snprintf(path, sizeof path, "%s/tests/golden/files", source ? source : ".");
    int failed = run(path);
    const char *shared = fm_test_shared();
    if (shared) {
        snprintf(path, sizeof path, "%s/golden/files", shared);
        failed += run(path);
    }
    return failed;
}
