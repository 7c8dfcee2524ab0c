// What is written is what was read: every good golden file goes through the writers and back, GGUF byte for byte; what a
// container cannot say is refused by name; nothing stands under the name before the end.
#include "testing.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include "floodmark/imatrix.h"
#include "floodmark/weights.h"

static char folder[] = "/tmp/floodmark-write-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[0], "%s/%s", folder, name);
    return path[turn];
}

// How many files are in the folder; removes them.
static int sweep(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            unlink(in_folder(e->d_name));
            n++;
        }
    closedir(dir);
    return n;
}

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *bytes = malloc(1 << 20);
    *n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = slurp(a, &n), *y = slurp(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void assert_same_tensors(const fm_weights *a, const fm_weights *b)
{
    fm_err err = {0};
    assert_int_equal(fm_weights_n_tensors(a), fm_weights_n_tensors(b));
    for (size_t i = 0; i < fm_weights_n_tensors(a); i++) {
        const fm_tensor_info *x = fm_weights_tensor(a, i), *y = fm_weights_tensor(b, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->type, y->type);
        assert_int_equal(x->n_dims, y->n_dims);
        if (x->n_dims)
            assert_memory_equal(x->dims, y->dims, x->n_dims * sizeof *x->dims);
        assert_true(x->bytes == y->bytes);
        char *p = malloc(x->bytes + 1), *q = malloc(x->bytes + 1);
        FM_ASSERT_OK(fm_weights_read(a, i, 0, p, x->bytes, &err));
        // By two pieces, to see that a place inside a tensor is found.
        size_t half = x->bytes / 3;
        FM_ASSERT_OK(fm_weights_read(b, i, half, q + half, x->bytes - half, &err));
        FM_ASSERT_OK(fm_weights_read(b, i, 0, q, half, &err));
        assert_memory_equal(p, q, x->bytes);
        FM_ASSERT_FAILS(fm_weights_read(a, i, 1, p, x->bytes, &err), FM_ERR_USAGE);
        free(p);
        free(q);
    }
}

static char *tensor_bytes(const fm_weights *w, size_t i)
{
    fm_err err = {0};
    const fm_tensor_info *t = fm_weights_tensor(w, i);
    char *bytes = malloc(t->bytes + 1);
    FM_ASSERT_OK(fm_weights_read(w, i, 0, bytes, t->bytes, &err));
    return bytes;
}

static void rewrite_safetensors(const fm_weights *in, const char *path, uint64_t shard_bytes, bool force)
{
    const fm_safetensors *st = fm_weights_safetensors(in);
    fm_safetensors_writer *w = NULL;
    fm_err err = {0};
    FM_ASSERT_OK(fm_safetensors_writer_create(path, shard_bytes, force, &w, &err));
    for (size_t i = 0; i < fm_safetensors_n_metadata(st); i++)
        FM_ASSERT_OK(fm_safetensors_writer_metadata(w, fm_safetensors_metadata_key(st, i),
                                                    fm_safetensors_metadata_value(st, i), &err));
    for (size_t i = 0; i < fm_weights_n_tensors(in); i++) {
        const fm_tensor_info *t = fm_weights_tensor(in, i);
        size_t index = 99;
        FM_ASSERT_OK(fm_safetensors_writer_add(w, t->name, t->type, t->n_dims, t->dims, &index, &err));
        assert_int_equal(index, i);
    }
    FM_ASSERT_OK(fm_safetensors_writer_begin(w, &err));
    for (size_t i = fm_weights_n_tensors(in); i-- > 0;) { // in any order
        char *bytes = tensor_bytes(in, i);
        FM_ASSERT_OK(fm_safetensors_writer_write(w, i, 0, bytes, fm_weights_tensor(in, i)->bytes, &err));
        free(bytes);
    }
    double seconds = -1;
    FM_ASSERT_OK(fm_safetensors_writer_finish(w, &seconds, &err));
    assert_true(seconds >= 0);
    fm_safetensors_writer_destroy(w);
}

// No shard holds more than it may, unless it is one tensor that does.
static void check_shards(const fm_weights *w, uint64_t shard_bytes)
{
    uint64_t bytes[32] = {0};
    size_t tensors[32] = {0};
    for (size_t i = 0; i < fm_weights_n_tensors(w); i++) {
        const fm_tensor_info *t = fm_weights_tensor(w, i);
        bytes[t->file] += t->bytes;
        tensors[t->file] += t->bytes > 0;
    }
    for (size_t i = 0; i < fm_weights_n_files(w); i++)
        assert_true(!shard_bytes || bytes[i] <= shard_bytes || tensors[i] == 1);
    if (!shard_bytes)
        assert_int_equal(fm_weights_n_files(w), 1);
}

static void test_safetensors(void **state)
{
    const char *golden = *state;
    static const char *const names[] = {"model.safetensors", "all_dtypes.safetensors", "subbyte.safetensors",
                                        "sharded"};
    for (size_t k = 0; k < 4; k++)
        for (uint64_t shard_bytes = 0; shard_bytes <= 300; shard_bytes += 100) {
            char path[4096];
            fm_weights *in = NULL, *out = NULL;
            fm_err err = {0};
            snprintf(path, sizeof path, "%s/safetensors/%s", golden, names[k]);
            FM_ASSERT_OK(fm_weights_open(path, &in, &err));
            rewrite_safetensors(in, in_folder("out.safetensors"), shard_bytes, false);
            FM_ASSERT_OK(fm_weights_open(folder, &out, &err));
            assert_same_tensors(in, out);
            size_t n = fm_weights_n_files(out);
            check_shards(out, shard_bytes);
            const fm_safetensors *a = fm_weights_safetensors(in), *b = fm_weights_safetensors(out);
            assert_int_equal(fm_safetensors_n_metadata(a), fm_safetensors_n_metadata(b));
            for (size_t i = 0; i < fm_safetensors_n_metadata(a); i++) {
                assert_string_equal(fm_safetensors_metadata_key(a, i), fm_safetensors_metadata_key(b, i));
                assert_string_equal(fm_safetensors_metadata_value(a, i), fm_safetensors_metadata_value(b, i));
            }
            for (size_t i = 0; i < n; i++)
                assert_int_equal(fm_safetensors_file_header_bytes(b, i) % 8, 0);
            // Every value lies at a multiple of its own size.
            for (size_t i = 0; i < fm_weights_n_tensors(out); i++) {
                const fm_tensor_info *t = fm_weights_tensor(out, i);
                unsigned bits = fm_tensor_type_of(t->type)->block_bits;
                assert_true(bits < 8 || t->offset % (bits / 8) == 0);
            }
            fm_weights_destroy(in);
            fm_weights_destroy(out);
            assert_int_equal(sweep(), n > 1 ? n + 1 : 1);
        }
}

static void rewrite_gguf(const fm_weights *in, const char *path)
{
    fm_gguf_writer *w = NULL;
    fm_err err = {0};
    FM_ASSERT_OK(fm_gguf_writer_create(path, false, &w, &err));
    FM_ASSERT_OK(fm_gguf_writer_copy_keys(w, fm_weights_gguf(in), &err));
    for (size_t i = 0; i < fm_weights_n_tensors(in); i++) {
        const fm_tensor_info *t = fm_weights_tensor(in, i);
        FM_ASSERT_OK(fm_gguf_writer_add(w, t->name, t->type, t->n_dims, t->dims, NULL, &err));
    }
    FM_ASSERT_OK(fm_gguf_writer_begin(w, &err));
    for (size_t i = 0; i < fm_weights_n_tensors(in); i++) {
        char *bytes = tensor_bytes(in, i);
        uint64_t n = fm_weights_tensor(in, i)->bytes;
        FM_ASSERT_OK(fm_gguf_writer_write(w, i, n / 2, bytes + n / 2, n - n / 2, &err));
        FM_ASSERT_OK(fm_gguf_writer_write(w, i, 0, bytes, n / 2, &err));
        free(bytes);
    }
    FM_ASSERT_OK(fm_gguf_writer_finish(w, NULL, &err));
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_true((uint64_t)about.st_size == fm_gguf_writer_file_bytes(w));
    fm_gguf_writer_destroy(w);
}

static void test_gguf(void **state)
{
    const char *golden = *state;
    static const char *const names[] = {"gguf/all_keys.gguf", "gguf/aligned.gguf", "gguf/tokenizer.gguf",
                                        "gguf_bad/ok.gguf", "gguf_bad/array_nested.gguf"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[4096];
        fm_weights *in = NULL;
        fm_err err = {0};
        snprintf(path, sizeof path, "%s/%s", golden, names[k]);
        FM_ASSERT_OK(fm_weights_open(path, &in, &err));
        rewrite_gguf(in, in_folder("out.gguf"));
        assert_same_file(path, in_folder("out.gguf"));
        fm_weights_destroy(in);
        assert_int_equal(sweep(), 1);
    }
}

static void test_gguf_keys(void **state)
{
    (void)state;
    fm_gguf_writer *w = NULL;
    fm_gguf *g = NULL;
    fm_err err = {0};
    const char *path = in_folder("keys.gguf");
    FM_ASSERT_OK(fm_gguf_writer_create(path, false, &w, &err));
    FM_ASSERT_OK(fm_gguf_writer_string(w, "general.architecture", "llama", 5, &err));
    FM_ASSERT_OK(fm_gguf_writer_u32(w, "a", 1, &err));
    FM_ASSERT_OK(fm_gguf_writer_bool(w, "gone", true, &err));
    FM_ASSERT_OK(fm_gguf_writer_f32(w, "f", -1.5f, &err));
    FM_ASSERT_OK(fm_gguf_writer_u64(w, "a", UINT64_MAX, &err)); // replaces, in place
    assert_true(fm_gguf_writer_remove(w, "gone"));
    assert_false(fm_gguf_writer_remove(w, "gone"));
    FM_ASSERT_FAILS(fm_gguf_writer_u32(w, "general.alignment", 12, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_writer_u64(w, "general.alignment", 64, &err), FM_ERR_VALUE);
    FM_ASSERT_OK(fm_gguf_writer_u32(w, "general.alignment", 64, &err));
    FM_ASSERT_FAILS(fm_gguf_writer_u32(w, "", 1, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_writer_string(w, "s", "\xff", 1, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_writer_raw(w, "s", FM_GGUF_U32, "abc", 3, &err), FM_ERR_SYNTAX);
    FM_ASSERT_FAILS(fm_gguf_writer_raw(w, "s", FM_GGUF_U8, "abc", 3, &err), FM_ERR_VALUE);
    uint64_t dims[5] = {2, 32, 1, 1, 1}, none[2] = {0, 32}, rows[2] = {2, 33};
    char long_name[65];
    memset(long_name, 'n', 64);
    long_name[64] = 0;
    FM_ASSERT_FAILS(fm_gguf_writer_add(w, long_name, FM_TENSOR_F32, 2, dims, NULL, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_writer_add(w, "t", FM_TENSOR_F32, 5, dims, NULL, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_writer_add(w, "t", FM_TENSOR_F32, 2, none, NULL, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_writer_add(w, "t", FM_TENSOR_Q8_0, 2, rows, NULL, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_writer_add(w, "t", FM_TENSOR_C64, 2, dims, NULL, &err), FM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"t\""));
    FM_ASSERT_OK(fm_gguf_writer_add(w, "t", FM_TENSOR_Q8_0, 2, dims, NULL, &err));
    FM_ASSERT_OK(fm_gguf_writer_begin(w, &err));
    FM_ASSERT_FAILS(fm_gguf_writer_u32(w, "late", 1, &err), FM_ERR_USAGE);
    char data[68];
    memset(data, 7, sizeof data);
    FM_ASSERT_FAILS(fm_gguf_writer_write(w, 0, 1, data, 68, &err), FM_ERR_USAGE);
    FM_ASSERT_OK(fm_gguf_writer_write(w, 0, 0, data, 34, &err));
    assert_int_not_equal(access(path, F_OK), 0);
    FM_ASSERT_OK(fm_gguf_writer_write(w, 0, 34, data, 34, &err));
    FM_ASSERT_OK(fm_gguf_writer_finish(w, NULL, &err));
    fm_gguf_writer_destroy(w);
    FM_ASSERT_OK(fm_gguf_open(path, &g, &err));
    uint64_t u = 0;
    double d = 0;
    FM_ASSERT_OK(fm_gguf_u64(g, "a", &u, &err));
    assert_true(u == UINT64_MAX);
    assert_string_equal(fm_gguf_key(g, 1)->key, "a");
    FM_ASSERT_OK(fm_gguf_double(g, "f", &d, &err));
    assert_true(d == -1.5);
    FM_ASSERT_FAILS(fm_gguf_u64(g, "f", &u, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_gguf_u64(g, "absent", &u, &err), FM_ERR_NOT_FOUND);
    FM_ASSERT_OK(fm_gguf_opt_u64(g, "absent", &u, &err));
    assert_true(fm_gguf_string_is(g, "general.architecture", "llama"));
    assert_int_equal(fm_gguf_alignment(g), 64);
    assert_int_equal(fm_gguf_data_offset(g) % 64, 0);
    assert_int_equal(fm_gguf_n_keys(g), 4);
    fm_gguf_destroy(g);
    sweep();
}

static void test_incomplete(void **state)
{
    (void)state;
    fm_safetensors_writer *w = NULL;
    fm_err err = {0};
    uint64_t dims[1] = {4};
    const char *path = in_folder("part.safetensors");
    FM_ASSERT_FAILS(fm_safetensors_writer_create("out.bin", 0, false, &w, &err), FM_ERR_USAGE);
    FM_ASSERT_OK(fm_safetensors_writer_create(path, 0, false, &w, &err));
    FM_ASSERT_FAILS(fm_safetensors_writer_add(w, "q", FM_TENSOR_Q4_K, 1, dims, NULL, &err), FM_ERR_UNSUPPORTED);
    FM_ASSERT_FAILS(fm_safetensors_writer_add(w, "__metadata__", FM_TENSOR_F32, 1, dims, NULL, &err), FM_ERR_VALUE);
    FM_ASSERT_FAILS(fm_safetensors_writer_add(w, "\xff", FM_TENSOR_F32, 1, dims, NULL, &err), FM_ERR_VALUE);
    FM_ASSERT_OK(fm_safetensors_writer_add(w, "a", FM_TENSOR_F32, 1, dims, NULL, &err));
    FM_ASSERT_OK(fm_safetensors_writer_begin(w, &err));
    FM_ASSERT_OK(fm_safetensors_writer_write(w, 0, 0, dims, 8, &err));
    FM_ASSERT_FAILS(fm_safetensors_writer_finish(w, NULL, &err), FM_ERR_USAGE);
    assert_non_null(strstr(err.message, "\"a\" was given 8 of its 16 bytes"));
    fm_safetensors_writer_destroy(w);
    assert_int_equal(sweep(), 0); // nothing is left
    FM_ASSERT_OK(fm_safetensors_writer_create(path, 0, false, &w, &err));
    FM_ASSERT_OK(fm_safetensors_writer_add(w, "a", FM_TENSOR_F32, 1, dims, NULL, &err));
    FM_ASSERT_OK(fm_safetensors_writer_add(w, "a", FM_TENSOR_F32, 1, dims, NULL, &err));
    FM_ASSERT_FAILS(fm_safetensors_writer_begin(w, &err), FM_ERR_CONFLICT);
    fm_safetensors_writer_destroy(w);
    // A file in the way stays as it is unless told otherwise.
    FILE *f = fopen(path, "w");
    fputs("old", f);
    fclose(f);
    FM_ASSERT_OK(fm_safetensors_writer_create(path, 0, false, &w, &err));
    FM_ASSERT_FAILS(fm_safetensors_writer_begin(w, &err), FM_ERR_EXISTS);
    fm_safetensors_writer_destroy(w);
    FM_ASSERT_OK(fm_safetensors_writer_create(path, 0, true, &w, &err));
    FM_ASSERT_OK(fm_safetensors_writer_begin(w, &err));
    FM_ASSERT_OK(fm_safetensors_writer_finish(w, NULL, &err));
    fm_safetensors_writer_destroy(w);
    fm_safetensors *st = NULL;
    FM_ASSERT_OK(fm_safetensors_open(path, &st, &err));
    assert_int_equal(fm_safetensors_n_tensors(st), 0);
    fm_safetensors_destroy(st);
    assert_int_equal(sweep(), 1);
}

static void test_split_gguf(void **state)
{
    (void)state;
    fm_err err = {0};
    uint64_t dims[1] = {8};
    for (int part = 1; part <= 2; part++) {
        fm_gguf_writer *w = NULL;
        char name[64], tensor[16];
        float data[8];
        snprintf(name, sizeof name, "m-%05d-of-00002.gguf", part);
        snprintf(tensor, sizeof tensor, "t%d", part);
        for (int i = 0; i < 8; i++)
            data[i] = (float)(part * 10 + i);
        FM_ASSERT_OK(fm_gguf_writer_create(in_folder(name), false, &w, &err));
        uint16_t count = 2;
        FM_ASSERT_OK(fm_gguf_writer_raw(w, "split.count", FM_GGUF_U16, &count, 2, &err));
        FM_ASSERT_OK(fm_gguf_writer_add(w, tensor, FM_TENSOR_F32, 1, dims, NULL, &err));
        FM_ASSERT_OK(fm_gguf_writer_begin(w, &err));
        FM_ASSERT_OK(fm_gguf_writer_write(w, 0, 0, data, sizeof data, &err));
        FM_ASSERT_OK(fm_gguf_writer_finish(w, NULL, &err));
        fm_gguf_writer_destroy(w);
    }
    fm_weights *w = NULL;
    FM_ASSERT_FAILS(fm_weights_open(in_folder("m-00002-of-00002.gguf"), &w, &err), FM_ERR_USAGE);
    FM_ASSERT_OK(fm_weights_open(in_folder("m-00001-of-00002.gguf"), &w, &err));
    assert_int_equal(fm_weights_n_tensors(w), 2);
    float x = 0;
    FM_ASSERT_OK(fm_weights_read(w, 1, 4, &x, 4, &err));
    assert_true(x == 21);
    fm_weights_destroy(w);
    w = NULL;
    unlink(in_folder("m-00002-of-00002.gguf"));
    FM_ASSERT_FAILS(fm_weights_open(in_folder("m-00001-of-00002.gguf"), &w, &err), FM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "m-00002-of-00002.gguf"));
    sweep();
}

// A file that is cut after it was opened: the read says so.
static void test_shrunk(void **state)
{
    const char *golden = *state;
    char path[4096], buffer[4096];
    fm_weights *in = NULL, *w = NULL;
    fm_err err = {0};
    snprintf(path, sizeof path, "%s/safetensors/model.safetensors", golden);
    FM_ASSERT_OK(fm_weights_open(path, &in, &err));
    rewrite_safetensors(in, in_folder("cut.safetensors"), 0, false);
    FM_ASSERT_OK(fm_weights_open(in_folder("cut.safetensors"), &w, &err));
    assert_int_equal(truncate(in_folder("cut.safetensors"), 500), 0);
    size_t failed = 0;
    for (size_t i = 0; i < fm_weights_n_tensors(w); i++)
        failed += fm_weights_read(w, i, 0, buffer, fm_weights_tensor(w, i)->bytes, &err) == FM_ERR_IO;
    assert_true(failed > 0);
    assert_non_null(strstr(err.message, "shrank"));
    fm_weights_destroy(in);
    fm_weights_destroy(w);
    sweep();
}

static void test_imatrix(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_gguf_writer *w = NULL;
    fm_imatrix *im = NULL;
    const char *path = in_folder("im.gguf");
    uint64_t sums_dims[2] = {2, 3}, counts_dims[2] = {2, 1};
    float sums[6] = {2, 4, 6, 1, 1, 1}, counts[2] = {2, 0};
    FM_ASSERT_OK(fm_gguf_writer_create(path, false, &w, &err));
    FM_ASSERT_OK(fm_gguf_writer_string(w, "general.type", "imatrix", 7, &err));
    FM_ASSERT_OK(fm_gguf_writer_u32(w, "imatrix.chunk_count", 5, &err));
    FM_ASSERT_OK(fm_gguf_writer_add(w, "blk.0.up.weight.in_sum2", FM_TENSOR_F32, 2, sums_dims, NULL, &err));
    FM_ASSERT_OK(fm_gguf_writer_add(w, "blk.0.up.weight.counts", FM_TENSOR_F32, 2, counts_dims, NULL, &err));
    FM_ASSERT_OK(fm_gguf_writer_begin(w, &err));
    FM_ASSERT_OK(fm_gguf_writer_write(w, 0, 0, sums, sizeof sums, &err));
    FM_ASSERT_OK(fm_gguf_writer_write(w, 1, 0, counts, sizeof counts, &err));
    FM_ASSERT_OK(fm_gguf_writer_finish(w, NULL, &err));
    fm_gguf_writer_destroy(w);
    FM_ASSERT_OK(fm_imatrix_read(path, &im, &err));
    const fm_imatrix_entry *e = fm_imatrix_find(im, "blk.0.up.weight");
    assert_non_null(e);
    assert_int_equal(e->row_elems, 3);
    assert_int_equal(e->n_mats, 2);
    const float want[6] = {1, 2, 3, 1, 1, 1};
    assert_memory_equal(e->values, want, sizeof want);
    assert_int_equal(fm_imatrix_n_chunks(im), 5);
    assert_null(fm_imatrix_find(im, "blk.1.up.weight"));
    fm_imatrix_destroy(im);
    sweep();
    // One that gguf-py wrote.
    const char *source = getenv("FLOODMARK_SOURCE");
    char other[4096];
    snprintf(other, sizeof other, "%s/tests/fuzz/corpus/imatrix/new.gguf", source ? source : ".");
    FM_ASSERT_OK(fm_imatrix_read(other, &im, &err));
    e = fm_imatrix_find(im, "blk.0.a.weight");
    assert_non_null(e);
    const float others[6] = {0, .5f, 1, 1, 1, 1};
    assert_memory_equal(e->values, others, sizeof others);
    assert_string_equal(fm_imatrix_dataset(im), "wiki.txt");
    fm_imatrix_destroy(im);
    // The older form: one entry "w", 4 calls, 2 values, then chunks and data set.
    static const uint8_t old[] = {
        1, 0, 0, 0, 1, 0, 0, 0, 'w', 4,   0,  0, 0, 2, 0, 0, 0, 0, 0, 0, 0x41 /* 8 */, 0, 0, 0x80, 0x40 /* 4 */,
        7, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c'};
    FM_ASSERT_OK(fm_imatrix_parse(old, sizeof old, "old", &im, &err));
    e = fm_imatrix_find(im, "w");
    assert_non_null(e);
    assert_true(e->row_elems == 2 && e->values[0] == 2 && e->values[1] == 1);
    assert_int_equal(fm_imatrix_n_chunks(im), 7);
    assert_string_equal(fm_imatrix_dataset(im), "abc");
    fm_imatrix_destroy(im);
    for (size_t n = 0; n < 25; n++) { // cut anywhere inside the entry
        im = NULL;
        assert_int_not_equal(fm_imatrix_parse(old, n, "old", &im, &err), FM_OK);
        assert_null(im);
    }
}

int main(void)
{
    const char *source = getenv("FLOODMARK_SOURCE");
    char golden[4096];
    snprintf(golden, sizeof golden, "%s/tests/golden/files", source ? source : ".");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_safetensors, golden),
        cmocka_unit_test_prestate(test_gguf, golden),
        cmocka_unit_test_prestate(test_shrunk, golden),
        cmocka_unit_test(test_gguf_keys),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_split_gguf),
        cmocka_unit_test(test_imatrix),
    };
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sweep();
    rmdir(folder);
    return failed;
}
