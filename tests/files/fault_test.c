// Failure sweeps: for each kind of call that can fail (allocation, open, read, write, sync, rename) the first one fails,
// then the second, and so on until a run needs no more of them. Each run must end with a status and a message or, when the
// failure was one that does not matter, with success; leave nothing behind but on success; leak nothing (ASan looks).
#include "testing.h"
#include <dirent.h>
#include <jansson.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/fault.h"
#include "floodmark/imatrix.h"
#include "floodmark/tree.h"
#include "floodmark/weights.h"

static char folder[] = "/tmp/floodmark-fault-XXXXXX";
static char golden[4096];

static int sweep(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            char path[8192];
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            unlink(path);
            n++;
        }
    closedir(dir);
    return n;
}

static void path_of(char *out, size_t n, const char *root, const char *name)
{
    snprintf(out, n, "%s/%s", root, name);
}

// ---- jobs: each returns its first failure ----

static fm_status parse_json(fm_err *err)
{
    static const char text[] = "{\"a\": [1, 2.5, \"x\", null, true], \"b\": {\"c\": {}, \"d\": 1, \"e\": 1, \"f\": 1, "
                               "\"g\": 1, \"h\": 1, \"i\": 1, "
                               "\"j\": 1, \"k\": 1, \"l\": 1}}";
    fm_tree *tree = NULL;
    fm_status status = fm_tree_parse_json(text, sizeof text - 1, "t.json", &tree, err);
    assert_true(!status == !!tree);
    fm_tree_destroy(tree);
    return status;
}

static fm_status parse_yaml(fm_err *err)
{
    static const char text[] = "a: &x {k: 1, l: [1, 2]}\nb:\n  <<: *x\n  m: 3\nc: [*x, *x]\n";
    fm_tree *tree = NULL;
    fm_status status = fm_tree_parse_yaml(text, sizeof text - 1, "t.yaml", &tree, err);
    assert_true(!status == !!tree);
    fm_tree_destroy(tree);
    return status;
}

static fm_status open_one(const char *name, fm_err *err)
{
    char path[8192], bytes[64];
    fm_weights *w = NULL;
    path_of(path, sizeof path, golden, name);
    fm_status status = fm_weights_open(path, &w, err);
    assert_true(!status == !!w);
    if (!status && fm_weights_n_tensors(w))
        status = fm_weights_read(w, 0, 0, bytes, 8, err);
    fm_weights_destroy(w);
    return status;
}

static fm_status open_gguf(fm_err *err)
{
    return open_one("gguf/tokenizer.gguf", err);
}

static fm_status open_safetensors(fm_err *err)
{
    return open_one("safetensors/model.safetensors", err);
}

static fm_status open_sharded(fm_err *err)
{
    return open_one("safetensors/sharded", err);
}

static fm_status write_safetensors(fm_err *err)
{
    char path[8192];
    fm_safetensors_writer *w = NULL;
    uint64_t dims[2] = {4, 8};
    float data[32] = {0};
    path_of(path, sizeof path, folder, "out.safetensors");
    fm_status status = fm_safetensors_writer_create(path, 200, false, &w, err);
    status = status ? status : fm_safetensors_writer_metadata(w, "format", "pt", err);
    status = status ? status : fm_safetensors_writer_add(w, "a", FM_TENSOR_F32, 2, dims, NULL, err);
    status = status ? status : fm_safetensors_writer_add(w, "b", FM_TENSOR_F32, 2, dims, NULL, err);
    status = status ? status : fm_safetensors_writer_add(w, "c", FM_TENSOR_F16, 2, dims, NULL, err);
    status = status ? status : fm_safetensors_writer_begin(w, err);
    status = status ? status : fm_safetensors_writer_write(w, 0, 0, data, 128, err);
    status = status ? status : fm_safetensors_writer_write(w, 1, 0, data, 128, err);
    status = status ? status : fm_safetensors_writer_write(w, 2, 0, data, 64, err);
    status = status ? status : fm_safetensors_writer_finish(w, NULL, err);
    fm_safetensors_writer_destroy(w);
    return status;
}

static fm_status write_gguf(fm_err *err)
{
    char path[8192];
    fm_gguf_writer *w = NULL;
    uint64_t dims[2] = {3, 32};
    uint8_t data[102] = {0};
    path_of(path, sizeof path, folder, "out.gguf");
    fm_status status = fm_gguf_writer_create(path, false, &w, err);
    status = status ? status : fm_gguf_writer_string(w, "general.architecture", "llama", 5, err);
    status = status ? status : fm_gguf_writer_u32(w, "n", 1, err);
    status = status ? status : fm_gguf_writer_u32(w, "n", 2, err);
    status = status ? status : fm_gguf_writer_add(w, "a", FM_TENSOR_Q8_0, 2, dims, NULL, err);
    status = status ? status : fm_gguf_writer_begin(w, err);
    status = status ? status : fm_gguf_writer_write(w, 0, 0, data, 50, err);
    status = status ? status : fm_gguf_writer_write(w, 0, 50, data, 52, err);
    status = status ? status : fm_gguf_writer_finish(w, NULL, err);
    fm_gguf_writer_destroy(w);
    return status;
}

static fm_status read_imatrix(fm_err *err)
{
    static const uint8_t old[] = {1, 0, 0, 0, 1, 0,    0, 0, 'w', 4, 0, 0, 0, 1, 0,
                                  0, 0, 0, 0, 0, 0x41, 7, 0, 0,   0, 1, 0, 0, 0, 'a'};
    fm_imatrix *im = NULL;
    fm_status status = fm_imatrix_parse(old, sizeof old, "old", &im, err);
    assert_true(!status == !!im);
    fm_imatrix_destroy(im);
    return status;
}

static const struct {
    const char *name;
    fm_status (*run)(fm_err *err);
    bool writes, reads_json;
} jobs[] = {
    {"parse_json", parse_json, false, true},     {"parse_yaml", parse_yaml, false, false},
    {"open_gguf", open_gguf, false, false},      {"open_safetensors", open_safetensors, false, true},
    {"open_sharded", open_sharded, false, true}, {"write_safetensors", write_safetensors, true, false},
    {"write_gguf", write_gguf, true, false},     {"read_imatrix", read_imatrix, false, false},
};

// How many failures of this kind the job met.
static unsigned sweep_job(size_t job, fm_fault_kind kind)
{
    static const char *const words[] = {"alloc", "open", "read", "write", "sync", "rename"};
    unsigned met = 0;
    for (uint64_t nth = 1; nth < 10000; nth++) {
        fm_err err = {0};
        fm_fault_arm(kind, nth, false);
        fm_status status = jobs[job].run(&err);
        bool struck = fm_fault_calls(kind) >= nth;
        fm_fault_disarm();
        int left = sweep();
        if (!status && !left == jobs[job].writes)
            fail_msg("%s: %s %llu: success leaves %d files", jobs[job].name, words[kind], (unsigned long long)nth,
                     left);
        // Only the sync of the folder comes after the rename: then the file is whole, and stays.
        if (status && left && !strstr(err.message, "in place"))
            fail_msg("%s: %s %llu: %d files left: %s", jobs[job].name, words[kind], (unsigned long long)nth, left,
                     err.message);
        if (status && (err.code != status || strlen(err.message) < 8))
            fail_msg("%s: %s %llu: says \"%s\"", jobs[job].name, words[kind], (unsigned long long)nth, err.message);
        // Jansson calls memory that runs out inside a string bad syntax.
        bool said_so = status == FM_ERR_NO_MEMORY || (jobs[job].reads_json && status == FM_ERR_SYNTAX);
        if (status && kind == FM_FAULT_ALLOC && !said_so)
            fail_msg("%s: allocation %llu: %s", jobs[job].name, (unsigned long long)nth, err.message);
        if (!struck) {
            assert_int_equal(status, FM_OK);
            break;
        }
        met++;
    }
    return met;
}

static void test_sweep(void **state)
{
    (void)state;
    unsigned total[FM_FAULT_KINDS] = {0};
    // Jansson's memory too comes from where it can be made to fail.
    json_set_alloc_funcs(fm_alloc, fm_free);
    for (size_t job = 0; job < sizeof jobs / sizeof *jobs; job++)
        for (unsigned kind = FM_FAULT_ALLOC; kind <= FM_FAULT_RENAME; kind++)
            total[kind] += sweep_job(job, (fm_fault_kind)kind);
    json_set_alloc_funcs(malloc, free);
    printf("failures met: %u allocations, %u opens, %u reads, %u writes, %u syncs, %u renames\n", total[FM_FAULT_ALLOC],
           total[FM_FAULT_OPEN], total[FM_FAULT_READ], total[FM_FAULT_WRITE], total[FM_FAULT_SYNC],
           total[FM_FAULT_RENAME]);
    for (unsigned kind = FM_FAULT_ALLOC; kind <= FM_FAULT_RENAME; kind++)
        assert_true(total[kind] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};
    const char *source = getenv("FLOODMARK_SOURCE");
    snprintf(golden, sizeof golden, "%s/tests/golden/files", source ? source : ".");
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sweep();
    rmdir(folder);
    return failed;
}
