// Trees: values exact, places right, every refusal named.
#include "testing.h"
#include "floodmark/tree.h"

static fm_tree *json(const char *text)
{
    fm_tree *tree = NULL;
    fm_err err = {0};
    if (fm_tree_parse_json(text, strlen(text), "t.json", &tree, &err))
        fail_msg("%s", err.message);
    return tree;
}

static fm_tree *yaml(const char *text)
{
    fm_tree *tree = NULL;
    fm_err err = {0};
    if (fm_tree_parse_yaml(text, strlen(text), "t.yaml", &tree, &err))
        fail_msg("%s", err.message);
    return tree;
}

static void refused(bool is_yaml, const char *text, size_t n, fm_status code, const char *words)
{
    fm_tree *tree = NULL;
    fm_err err = {0};
    fm_status got =
        is_yaml ? fm_tree_parse_yaml(text, n, "t", &tree, &err) : fm_tree_parse_json(text, n, "t", &tree, &err);
    assert_null(tree);
    if (got != code || !strstr(err.message, words))
        fail_msg("%.60s: code %d, message \"%s\", wanted %d, \"%s\"", text, got, err.message, code, words);
    assert_int_equal(err.code, code);
}

static void json_refused(const char *text, fm_status code, const char *words)
{
    refused(false, text, strlen(text), code, words);
}

static void yaml_refused(const char *text, fm_status code, const char *words)
{
    refused(true, text, strlen(text), code, words);
}

static void test_json_values(void **state)
{
    (void)state;
    fm_tree *t =
        json("\xef\xbb\xbf { \"i\": -9223372036854775808, \"u\": 18446744073709551615,\n \"big\": 18446744073709551616,"
             " \"d\": 1.5e3,\r\n\"t\": true, \"f\": false, \"n\": null, \"s\": \"a\\u00e9\\ud83d\\ude42\\n\","
             " \"z\": \"x\\u0000y\", \"l\": [1, [2, {}], []], \"m0\": -0, \"e\": 1e0}");
    const fm_node *root = fm_tree_root(t);
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;
    bool b = false;
    const char *s = NULL;
    fm_err err = {0};
    assert_int_equal(fm_node_count(root), 12);
    assert_int_equal(fm_node_i64(fm_node_get(root, "i"), &i, &err), FM_OK);
    assert_true(i == INT64_MIN);
    assert_int_equal(fm_node_u64(fm_node_get(root, "u"), &u, &err), FM_OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(fm_node_type_of(fm_node_get(root, "big")), FM_NODE_DOUBLE);
    assert_int_equal(fm_node_double(fm_node_get(root, "big"), &d, &err), FM_OK);
    assert_true(d == 18446744073709551616.0);
    assert_int_equal(fm_node_double(fm_node_get(root, "d"), &d, &err), FM_OK);
    assert_true(d == 1500);
    assert_int_equal(fm_node_bool(fm_node_get(root, "t"), &b, &err), FM_OK);
    assert_true(b);
    assert_int_equal(fm_node_string(fm_node_get(root, "s"), &s, &err), FM_OK);
    assert_string_equal(s, "a\xc3\xa9\xf0\x9f\x99\x82\n");
    assert_int_equal(fm_node_string(fm_node_get(root, "z"), &s, &err), FM_ERR_VALUE);
    size_t n = 0;
    assert_memory_equal(fm_node_bytes(fm_node_get(root, "z"), &n), "x\0y", 3);
    assert_int_equal(n, 3);
    assert_int_equal(fm_node_type_of(fm_node_get(root, "e")), FM_NODE_DOUBLE);
    assert_string_equal(fm_node_text(fm_node_get(root, "e")), "1e0");
    assert_int_equal(fm_node_type_of(fm_node_get(root, "m0")), FM_NODE_INT);
    const fm_node *list = fm_node_get(root, "l");
    assert_int_equal(fm_node_count(list), 3);
    assert_int_equal(fm_node_count(fm_node_at(list, 2)), 0);
    const fm_node *two = fm_node_at(fm_node_at(list, 1), 0);
    assert_int_equal(fm_node_u64(two, &u, &err), FM_OK);
    assert_int_equal(u, 2);
    char path[32];
    assert_string_equal(fm_node_path(two, path, sizeof path), "l[1][0]");
    assert_string_equal(fm_node_path(two, path, 3), "l[");
    assert_int_equal(fm_node_line(fm_node_get(root, "u")), 1);
    assert_int_equal(fm_node_line(fm_node_get(root, "big")), 2);
    assert_int_equal(fm_node_line(two), 3);
    assert_int_equal(fm_node_key_line(root, 4), 3);
    assert_null(fm_node_get(root, "absent"));
    assert_null(fm_node_get_set(root, "n"));
    assert_null(fm_node_get(two, "x"));
    fm_tree_destroy(t);
}

static void test_offsets(void **state)
{
    (void)state;
    const char *text = "{\"a\": [10, \"\xc3\xa9\", 30],\n  \"b\": {\"c\": true}}";
    fm_tree *t = json(text);
    const fm_node *root = fm_tree_root(t), *a = fm_node_get(root, "a");
    assert_memory_equal(text + fm_node_offset(a), "[10", 3);
    assert_memory_equal(text + fm_node_offset(fm_node_at(a, 2)), "30", 2);
    assert_memory_equal(text + fm_node_offset(fm_node_get(fm_node_get(root, "b"), "c")), "true", 4);
    fm_tree_destroy(t);
    const char *y = "# \xc3\xa9\xe4\xb8\xad\na: [10, \xc3\xa9, 30]\nb:\n  c: true\n";
    t = yaml(y);
    root = fm_tree_root(t);
    a = fm_node_get(root, "a");
    assert_memory_equal(y + fm_node_offset(fm_node_at(a, 2)), "30", 2);
    const fm_node *c = fm_node_get(fm_node_get(root, "b"), "c");
    assert_memory_equal(y + fm_node_offset(c), "true", 4);
    assert_int_equal(fm_node_line(c), 4);
    fm_tree_destroy(t);
}

static void test_many_members(void **state)
{
    (void)state;
    char text[20000] = "{", piece[64];
    for (int i = 0; i < 500; i++) {
        snprintf(piece, sizeof piece, "%s\"k%d\": %d", i ? "," : "", (i * 7919) % 500, i);
        strcat(text, piece);
    }
    strcat(text, "}");
    fm_tree *t = json(text);
    for (int i = 0; i < 500; i++) {
        snprintf(piece, sizeof piece, "k%d", (i * 7919) % 500);
        uint64_t u = 0;
        fm_err err = {0};
        assert_int_equal(fm_node_u64(fm_node_get(fm_tree_root(t), piece), &u, &err), FM_OK);
        assert_int_equal(u, i);
    }
    assert_null(fm_node_get(fm_tree_root(t), "k500"));
    fm_tree_destroy(t);
}

// `depth` containers inside one another, lists or objects.
static char *nested(size_t depth, bool objects)
{
    char *text = calloc(1, depth * 6 + 16), *p = text;
    for (size_t i = 0; i < depth; i++)
        p = stpcpy(p, objects ? "{\"a\":" : "[");
    if (objects)
        p = stpcpy(p, "1");
    for (size_t i = 0; i < depth; i++)
        *p++ = objects ? '}' : ']';
    return text;
}

static void test_depth(void **state)
{
    (void)state;
    for (int objects = 0; objects < 2; objects++) {
        char *fits = nested(127, objects), *deep = nested(128, objects);
        fm_tree_destroy(json(fits));
        fm_tree_destroy(yaml(fits));
        json_refused(deep, FM_ERR_VALUE, "127");
        yaml_refused(deep, FM_ERR_VALUE, "127");
        free(fits);
        free(deep);
    }
    char *bomb = nested(200000, false);
    json_refused(bomb, FM_ERR_VALUE, "127");
    yaml_refused(bomb, FM_ERR_VALUE, "127");
    free(bomb);
}

static void test_json_refusals(void **state)
{
    (void)state;
    json_refused("", FM_ERR_SYNTAX, "t: line 1");
    json_refused("{\"a\": 1,}", FM_ERR_SYNTAX, "line 1, column");
    json_refused("{\"a\": 1\n\n \"b\": 2}", FM_ERR_SYNTAX, "line 3");
    json_refused("{\"a\": [1, 2", FM_ERR_SYNTAX, "cut off");
    json_refused("{} {}", FM_ERR_SYNTAX, "line 1");
    json_refused("{\"a\": 01}", FM_ERR_SYNTAX, "line 1");
    json_refused("// c\n{}", FM_ERR_SYNTAX, "line 1");
    json_refused("{\"a\": \"\xff\"}", FM_ERR_SYNTAX, "UTF-8");
    json_refused("{\"a\": \"\\ud800\"}", FM_ERR_SYNTAX, "line 1");
    json_refused("{\"a\": \"\n\"}", FM_ERR_SYNTAX, "line 1");
    json_refused("{\"x\": 1,\n\"eps\": NaN}", FM_ERR_VALUE, "line 2, column 8: NaN");
    json_refused("{\"eps\": -Infinity}", FM_ERR_VALUE, "NaN and Infinity");
    json_refused("{\"eps\": [Infinity]}", FM_ERR_VALUE, "NaN and Infinity");
    json_refused("{\"eps\": 1e999}", FM_ERR_VALUE, "double");
    json_refused("{\"a\\u0000b\": 1}", FM_ERR_VALUE, "zero byte");
    json_refused("{\"a\": 1,\n \"b\": {\"a\": [{\"a\": 2}]},\n \"a\": 3}", FM_ERR_CONFLICT,
                 "line 3, column 2: key \"a\" occurs twice in one object (first on line 1)");
    json_refused("[{\"k\": 1}, {\"x\": {},\n\"k\": \"k\", \n\"\\u006b\": 3}]", FM_ERR_CONFLICT, "(first on line 2)");
    refused(false, "{}\0", 3, FM_ERR_SYNTAX, "line 1");
}

static void test_yaml_scalars(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fm_node_type type;
        int64_t i;
        double d;
    } rows[] = {
        {"12", FM_NODE_INT, 12, 0},
        {"-3", FM_NODE_INT, -3, 0},
        {"+3", FM_NODE_INT, 3, 0},
        {"0", FM_NODE_INT, 0, 0},
        {"1_000", FM_NODE_INT, 1000, 0},
        {"0x1F", FM_NODE_INT, 31, 0},
        {"0o17", FM_NODE_INT, 15, 0},
        {"0b101", FM_NODE_INT, 5, 0},
        {"-9223372036854775808", FM_NODE_INT, INT64_MIN, 0},
        {"1.5", FM_NODE_DOUBLE, 0, 1.5},
        {"1e-4", FM_NODE_DOUBLE, 0, 1e-4},
        {".5", FM_NODE_DOUBLE, 0, .5},
        {"5.", FM_NODE_DOUBLE, 0, 5},
        {"0.1", FM_NODE_DOUBLE, 0, .1},
        {"1_000.5", FM_NODE_DOUBLE, 0, 1000.5},
        {"36893488147419103232", FM_NODE_DOUBLE, 0, 36893488147419103232.0},
        {"yes", FM_NODE_BOOL, 1, 0},
        {"No", FM_NODE_BOOL, 0, 0},
        {"ON", FM_NODE_BOOL, 1, 0},
        {"off", FM_NODE_BOOL, 0, 0},
        {"true", FM_NODE_BOOL, 1, 0},
        {"~", FM_NODE_NULL, 0, 0},
        {"", FM_NODE_NULL, 0, 0},
        {"Null", FM_NODE_NULL, 0, 0},
        {"yEs", FM_NODE_STRING, 0, 0},
        {"y", FM_NODE_STRING, 0, 0},
        {"'yes'", FM_NODE_STRING, 0, 0},
        {"\"12\"", FM_NODE_STRING, 0, 0},
        {"1:30", FM_NODE_STRING, 0, 0},
        {"1__", FM_NODE_STRING, 0, 0},
        {"1.2.3", FM_NODE_STRING, 0, 0},
        {"-", FM_NODE_ARRAY, 0, 0},
        {"e5", FM_NODE_STRING, 0, 0},
        {"1e", FM_NODE_STRING, 0, 0},
        {"+", FM_NODE_STRING, 0, 0},
        {".", FM_NODE_STRING, 0, 0},
        {"0x", FM_NODE_STRING, 0, 0},
        {"2024-01-02", FM_NODE_STRING, 0, 0},
        {"!!str 12", FM_NODE_STRING, 0, 0},
        {"!!int '12'", FM_NODE_INT, 12, 0},
        {"!!float 3", FM_NODE_DOUBLE, 0, 3},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char text[80];
        snprintf(text, sizeof text, !strcmp(rows[k].text, "-") ? "v:\n  %s\n" : "v: %s\n", rows[k].text);
        fm_tree *t = yaml(text);
        const fm_node *v = fm_node_get(fm_tree_root(t), "v");
        if (fm_node_type_of(v) != rows[k].type)
            fail_msg("%s is %s", rows[k].text, fm_node_type_words(v));
        int64_t i = 0;
        double d = 0;
        bool b = false;
        fm_err err = {0};
        if (rows[k].type == FM_NODE_INT) {
            assert_int_equal(fm_node_i64(v, &i, &err), FM_OK);
            assert_true(i == rows[k].i);
        } else if (rows[k].type == FM_NODE_DOUBLE) {
            assert_int_equal(fm_node_double(v, &d, &err), FM_OK);
            assert_true(d == rows[k].d);
        } else if (rows[k].type == FM_NODE_BOOL) {
            assert_int_equal(fm_node_bool(v, &b, &err), FM_OK);
            assert_true(b == (rows[k].i == 1));
        }
        fm_tree_destroy(t);
    }
}

static void test_yaml_structure(void **state)
{
    (void)state;
    fm_tree *t = yaml(
        "\xef\xbb\xbf# a comment\non: 1\nbase: &b {lr: 1e-4, wd: 0.1}\nrun:\n  <<: *b\n  lr: 2e-4\nlist: [*b, x]\n");
    const fm_node *root = fm_tree_root(t), *run = fm_node_get(root, "run");
    double d = 0;
    fm_err err = {0};
    assert_non_null(fm_node_get(root, "on"));
    assert_int_equal(fm_node_count(run), 2);
    assert_int_equal(fm_node_opt_double(run, "lr", &d, &err), FM_OK);
    assert_true(d == 2e-4);
    assert_int_equal(fm_node_opt_double(run, "wd", &d, &err), FM_OK);
    assert_true(d == .1);
    const fm_node *copied = fm_node_get(fm_node_at(fm_node_get(root, "list"), 0), "wd");
    char path[32];
    assert_string_equal(fm_node_path(copied, path, sizeof path), "list[0].wd");
    assert_int_equal(fm_node_line(copied), 3);
    fm_tree_destroy(t);
    t = yaml("");
    assert_int_equal(fm_node_type_of(fm_tree_root(t)), FM_NODE_NULL);
    fm_tree_destroy(t);
    t = yaml("{\"a\": [1, 2.5, \"x\"], \"b\": null}"); // JSON is YAML
    assert_int_equal(fm_node_count(fm_node_get(fm_tree_root(t), "a")), 3);
    fm_tree_destroy(t);
}

static void test_yaml_refusals(void **state)
{
    (void)state;
    yaml_refused("a: 017\n", FM_ERR_VALUE, "line 1, column 4: 017: a number with a leading zero");
    yaml_refused("a: 1\nb: 2\na: 3\n", FM_ERR_CONFLICT,
                 "line 3: key \"a\" occurs twice in one object (first on line 1)");
    yaml_refused("a: [1, 2\n", FM_ERR_SYNTAX, "line 2");
    yaml_refused("a: *x\n", FM_ERR_SYNTAX, "alias *x has no");
    yaml_refused("a: &x [*x]\n", FM_ERR_SYNTAX, "alias *x has no finished");
    yaml_refused("a: !!python/object:os.system x\n", FM_ERR_VALUE, "tag");
    yaml_refused("a: !foo x\n", FM_ERR_VALUE, "tag");
    yaml_refused("? [1]\n: 2\n", FM_ERR_UNSUPPORTED, "as a key");
    yaml_refused("a: 1\n---\nb: 2\n", FM_ERR_UNSUPPORTED, "second document");
    yaml_refused("a: \xff\n", FM_ERR_SYNTAX, "UTF-8");
    yaml_refused("<<: 3\n", FM_ERR_VALUE, "<< takes a mapping");
    yaml_refused("a:\n\t- b\n", FM_ERR_SYNTAX,
                 "line 2, column 1: not YAML: YAML does not indent with tabs; use spaces");
    char bomb[1200] = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n", line[128];
    for (int i = 1; i < 9; i++) {
        snprintf(line, sizeof line, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1,
                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
        strcat(bomb, line);
    }
    yaml_refused(bomb, FM_ERR_VALUE, "aliases of this add more than 100,000");
}

static void test_messages(void **state)
{
    (void)state;
    fm_tree *t = json("{\"hidden_size\": \"4k\",\n \"rope\": {\"factor\": -2, \"x\": null},\n \"num_heads\": 8}");
    const fm_node *root = fm_tree_root(t), *found = NULL;
    uint64_t u = 7;
    fm_err err = {0};
    assert_int_equal(fm_node_opt_u64(root, "hidden_size", &u, &err), FM_ERR_VALUE);
    assert_string_equal(err.message,
                        "t.json: line 1, column 17: \"hidden_size\" must be a whole number of at least 0, not "
                        "a string (\"4k\")");
    assert_int_equal(fm_node_opt_u64(fm_node_get(root, "rope"), "factor", &u, &err), FM_ERR_VALUE);
    assert_string_equal(err.message,
                        "t.json: line 2, column 21: \"rope.factor\" must be a whole number of at least 0, not -2");
    assert_int_equal(err.line, 2);
    assert_int_equal(fm_node_opt_u64(root, "absent", &u, &err), FM_OK);
    assert_int_equal(fm_node_opt_u64(fm_node_get(root, "rope"), "x", &u, &err), FM_OK);
    assert_int_equal(u, 7);
    assert_int_equal(fm_node_need(root, "num_head", &found, &err), FM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "\"num_head\" is missing; \"num_heads\" is there"));
    assert_int_equal(fm_node_need(fm_node_get(root, "rope"), "x", &found, &err), FM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "\"rope.x\" is null"));
    assert_int_equal(fm_node_need(root, "rope", &found, &err), FM_OK);
    fm_tree_destroy(t);
    assert_int_equal(fm_tree_read("/nonexistent/config.json", &t, &err), FM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/config.json"));
    assert_int_equal(fm_tree_read("/", &t, &err), FM_ERR_IO);
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const words[] = {"zero1", "zero2", "fsdp2", "adamw", "checkpoint", "micro_batch", "bf16"};
    size_t n = sizeof words / sizeof *words;
    assert_string_equal(fm_nearest("fdsp2", words, n), "fsdp2");
    assert_string_equal(fm_nearest("Zero-2", words, n), "zero2");
    assert_string_equal(fm_nearest("chekpoint", words, n), "checkpoint");
    assert_string_equal(fm_nearest("micro-batch", words, n), "micro_batch");
    assert_string_equal(fm_nearest("bf15", words, n), "bf16");
    assert_null(fm_nearest("sgd", words, n));
    assert_null(fm_nearest("", words, n));
    assert_null(fm_nearest("somethingelse", words, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_values),    cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_many_members),   cmocka_unit_test(test_depth),
        cmocka_unit_test(test_json_refusals),  cmocka_unit_test(test_yaml_scalars),
        cmocka_unit_test(test_yaml_structure), cmocka_unit_test(test_yaml_refusals),
        cmocka_unit_test(test_messages),       cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
