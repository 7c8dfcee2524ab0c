// The whole command beside llama-quantize: the same f16 model of about 1 GB, one thread, file and output in memory
// (/dev/shm) so that neither waits for a disk; then ours once more to a disk, where the difference is writing and the sync.
//   bench_end_to_end [--llama-quantize PROGRAM] [--floodmark PROGRAM] [--layers 10] [FORMAT]...
// PROGRAM takes IN OUT TYPE THREADS; FLOODMARK_LLAMA_QUANTIZE names it, too. Without one, only ours is measured, and a
// line says so. Processor time (user + system) survives a busy machine; the ratio is made of it. What starting PROGRAM
// costs by itself is measured without arguments and taken off its time.
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "floodmark/convert.h"
#include "floodmark/gguf.h"

enum { HIDDEN = 2048, INNER = 5632, KV = 512, VOCABULARY = 32000, TILE = 1048573, PASSES = 3 };
static const double patience_s = 20; // a program that takes longer is run once

typedef struct {
    double wall, cpu, rss_mib;
    bool failed;
} run;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the model ----

typedef struct {
    fm_gguf_writer *w;
    uint16_t *tile; // values of matrices, twice over, so that TILE of them can be taken from anywhere
    size_t n_tensors;
    struct {
        uint64_t n;
        bool matrix;
    } tensors[2048];
} model;

// Near-normal with the spread of trained weights.
static bool make_tile(model *m)
{
    uint64_t random = 20261130;
    float *x = malloc(sizeof *x * TILE);
    m->tile = malloc(2 * sizeof *m->tile * TILE);
    for (size_t i = 0; x && i < TILE; i++) {
        int64_t sum = 0;
        for (int k = 0; k < 12; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            sum += (int64_t)(random >> 40);
        }
        x[i] = 0.05f * (float)(sum - 12 * (INT64_C(1) << 23)) / (float)(1 << 24);
    }
    if (x && m->tile) {
        fm_f16_from_f32(TILE, x, m->tile);
        memcpy(m->tile + TILE, m->tile, sizeof *m->tile * TILE);
    }
    free(x);
    return m->tile != NULL;
}

static fm_status add(model *m, const char *name, uint64_t rows, uint64_t cols, fm_err *err)
{
    uint64_t dims[2] = {rows, cols};
    size_t index;
    fm_status status = rows ? fm_gguf_writer_add(m->w, name, FM_TENSOR_F16, 2, dims, &index, err)
                            : fm_gguf_writer_add(m->w, name, FM_TENSOR_F32, 1, dims + 1, &index, err);
    m->tensors[m->n_tensors].matrix = rows > 0;
    m->tensors[m->n_tensors++].n = rows ? rows * cols : cols;
    return status;
}

static fm_status keys(fm_gguf_writer *w, uint32_t layers, fm_err *err)
{
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.block_count", layers},        {"llama.context_length", 2048},     {"llama.embedding_length", HIDDEN},
        {"llama.feed_forward_length", INNER}, {"llama.attention.head_count", 16}, {"llama.attention.head_count_kv", 4},
        {"llama.rope.dimension_count", 128},  {"llama.vocab_size", VOCABULARY},   {"general.file_type", 1}};
    fm_status status = fm_gguf_writer_string(w, "general.architecture", "llama", 5, err);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++)
        status = fm_gguf_writer_u32(w, numbers[i].key, numbers[i].value, err);
    return status ? status : fm_gguf_writer_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f, err);
}

static fm_status declare(model *m, uint32_t layers, fm_err *err)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } parts[] = {{"attn_norm", 0, HIDDEN},    {"attn_q", HIDDEN, HIDDEN},      {"attn_k", KV, HIDDEN},
                 {"attn_v", KV, HIDDEN},      {"attn_output", HIDDEN, HIDDEN}, {"ffn_norm", 0, HIDDEN},
                 {"ffn_gate", INNER, HIDDEN}, {"ffn_up", INNER, HIDDEN},       {"ffn_down", HIDDEN, INNER}};
    fm_status status = add(m, "token_embd.weight", VOCABULARY, HIDDEN, err);
    for (uint32_t i = 0; i < layers; i++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts && !status; k++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s.weight", i, parts[k].name);
            status = add(m, name, parts[k].rows, parts[k].cols, err);
        }
    return status ? status : add(m, "output_norm.weight", 0, HIDDEN, err);
}

static fm_status fill(model *m, fm_err *err)
{
    float ones[INNER];
    for (size_t i = 0; i < INNER; i++)
        ones[i] = 1;
    fm_status status = FM_OK;
    for (size_t i = 0; i < m->n_tensors && !status; i++) {
        uint64_t n = m->tensors[i].n;
        if (!m->tensors[i].matrix)
            status = fm_gguf_writer_write(m->w, i, 0, ones, n * sizeof *ones, err);
        const uint16_t *values = m->tile + i * 7919 % TILE;
        for (uint64_t at = 0; m->tensors[i].matrix && at < n && !status; at += TILE)
            status = fm_gguf_writer_write(m->w, i, at * 2, values, (n - at < TILE ? n - at : TILE) * 2, err);
    }
    return status;
}

static bool make_model(const char *path, uint32_t layers)
{
    fm_err err = {0};
    model *m = calloc(1, sizeof *m);
    if (!m || !make_tile(m)) {
        free(m);
        return false;
    }
    fm_status status = fm_gguf_writer_create(path, true, &m->w, &err);
    if (!status)
        status = keys(m->w, layers, &err);
    if (!status)
        status = declare(m, layers, &err);
    if (!status)
        status = fm_gguf_writer_begin(m->w, &err);
    if (!status)
        status = fill(m, &err);
    if (!status)
        status = fm_gguf_writer_finish(m->w, NULL, &err);
    fm_gguf_writer_destroy(m->w);
    free(m->tile);
    free(m);
    if (status)
        fprintf(stderr, "bench_end_to_end: %s: %s\n", path, err.message);
    return status == FM_OK;
}

// ---- running ----

static run run_once(const char *const *arguments)
{
    double begin = now();
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    struct rusage used = {0};
    int status = 0;
    run r = {.failed = child < 0 || wait4(child, &status, 0, &used) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)};
    r.wall = now() - begin;
    r.cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
            1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    r.rss_mib = (double)used.ru_maxrss / 1024;
    return r;
}

// The least of some passes; the wall clock and the processor each by itself.
static run least(const char *const *arguments)
{
    run best = run_once(arguments);
    for (int i = 1; i < PASSES && !best.failed && best.wall < patience_s; i++) {
        run r = run_once(arguments);
        best.failed |= r.failed;
        best.wall = r.wall < best.wall ? r.wall : best.wall;
        best.cpu = r.cpu < best.cpu ? r.cpu : best.cpu;
        best.rss_mib = r.rss_mib > best.rss_mib ? r.rss_mib : best.rss_mib;
    }
    return best;
}

static long long size_of(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (long long)s.st_size : 0;
}

static void report(const char *format, const char *program, const char *to, const char *in, const char *out, run r)
{
    printf("{\"bench\":\"end_to_end\",\"format\":\"%s\",\"program\":\"%s\",\"output_in\":\"%s\",\"threads\":1,", format,
           program, to);
    if (r.failed)
        printf("\"failed\":true}\n");
    else
        printf("\"input_bytes\":%lld,\"output_bytes\":%lld,\"wall_s\":%.3f,\"cpu_s\":%.3f,\"gb_per_cpu_s\":%.3f,"
               "\"max_rss_mib\":%.1f}\n",
               size_of(in), size_of(out), r.wall, r.cpu, 1e-9 * (double)size_of(in) / r.cpu, r.rss_mib);
    fflush(stdout);
}

typedef struct {
    const char *floodmark, *llama; // llama NULL: not given
    char in[4096], out[4096], disk[4096];
    double start_cpu; // of llama by itself
} setup;

static bool measure(const setup *s, const char *format)
{
    const char *to_memory[] = {s->floodmark, "quantize", s->in, s->out, "-f", format, "-t", "1", "--force", NULL};
    const char *to_disk[] = {s->floodmark, "quantize", s->in, s->disk, "-f", format, "-t", "1", "--force", NULL};
    run ours = least(to_memory);
    report(format, "floodmark", "memory", s->in, s->out, ours);
    unlink(s->out);
    run disk = least(to_disk);
    report(format, "floodmark", "disk, synced", s->in, s->disk, disk);
    unlink(s->disk);
    if (!s->llama || ours.failed)
        return !ours.failed && !disk.failed;
    const char *theirs[] = {s->llama, s->in, s->out, format, "1", NULL};
    run peer = least(theirs);
    peer.cpu -= peer.failed ? 0 : s->start_cpu;
    report(format, "llama-quantize", "memory", s->in, s->out, peer);
    unlink(s->out);
    if (!peer.failed)
        printf("{\"bench\":\"end_to_end\",\"format\":\"%s\",\"llama_quantize_over_floodmark_cpu\":%.2f,"
               "\"llama_quantize_over_floodmark_wall\":%.2f}\n",
               format, peer.cpu / ours.cpu, peer.wall / ours.wall);
    fflush(stdout);
    return !peer.failed && !disk.failed;
}

int main(int argc, char **argv)
{
    static setup s;
    char beside[4200], *formats[16] = {"q8_0", "q4_k_m"};
    size_t n_formats = 0;
    uint32_t layers = 10;
    s.llama = getenv("FLOODMARK_LLAMA_QUANTIZE");
    s.floodmark = getenv("FLOODMARK");
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--llama-quantize") == 0)
            s.llama = argv[++i];
        else if (more && strcmp(argv[i], "--floodmark") == 0)
            s.floodmark = argv[++i];
        else if (more && strcmp(argv[i], "--layers") == 0)
            layers = (uint32_t)atoi(argv[++i]);
        else if (argv[i][0] != '-' && n_formats < 16)
            formats[n_formats++] = argv[i];
        else
            layers = 0;
    }
    if (layers < 1 || layers > 200) {
        fprintf(stderr, "usage: bench_end_to_end [--llama-quantize PROGRAM] [--floodmark PROGRAM] [--layers 1..200] "
                        "[FORMAT]...\n");
        return 2;
    }
    if (!s.floodmark) {
        char here[4000];
        snprintf(here, sizeof here, "%s", argv[0]);
        snprintf(beside, sizeof beside, "%s/../floodmark", dirname(here));
        s.floodmark = beside;
    }
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", *disk = getenv("TMPDIR");
    snprintf(s.in, sizeof s.in, "%s/floodmark-bench-%d.gguf", folder, (int)getpid());
    snprintf(s.out, sizeof s.out, "%s/floodmark-bench-%d-out.gguf", folder, (int)getpid());
    snprintf(s.disk, sizeof s.disk, "%s/floodmark-bench-%d-disk.gguf", disk ? disk : "/tmp", (int)getpid());
    bool good = make_model(s.in, layers);
    if (s.llama && s.llama[0]) {
        const char *nothing[] = {s.llama, NULL};
        s.start_cpu = run_once(nothing).cpu;
    } else {
        s.llama = NULL;
        printf("{\"bench\":\"end_to_end\",\"program\":\"llama-quantize\",\"skipped\":\"no llama-quantize was given: "
               "FLOODMARK_LLAMA_QUANTIZE=PROGRAM\"}\n");
    }
    for (size_t i = 0; i < (n_formats ? n_formats : 2) && good; i++)
        good = measure(&s, formats[i]);
    unlink(s.in);
    unlink(s.out);
    unlink(s.disk);
    return good ? 0 : 1;
}
