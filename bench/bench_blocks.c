// The GGUF block formats from memory: GB/s of fp32 encoded and decoded, beside the machine's own read and store
// bandwidth and, where a build of ggml is given, beside its encoder, all in turns in one run. A second figure of each
// counts CPU time, which survives a busy machine.
//   bench_blocks [--mib 256] [--libdir DIR_OF_libggml-base.so]... [FORMAT]...
// FLOODMARK_GGML_LIBDIR (directories, separated by colons) does the same as --libdir. ggml is never needed.
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "floodmark/block_format.h"

enum { PASSES = 5, ROW = 4096, MAX_PEERS = 4 };

typedef size_t ggml_quantize(int type, const float *x, void *out, int64_t start, int64_t rows, int64_t n_per_row,
                             const float *weights);
typedef struct {
    const char *path;
    ggml_quantize *quantize;
} peer;

typedef struct {
    const fm_block_format *f;
    size_t n_rows;
    float *x, *y;
    uint8_t *blocks;
    ggml_quantize *peer;
} job;

typedef void work(const job *j, size_t first_row, size_t n_rows);

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t row_bytes(const job *j)
{
    return (size_t)ROW / j->f->block_elems * j->f->block_bytes;
}

static void encode(const job *j, size_t first, size_t n)
{
    fm_block_faults faults = {0}; // as the command calls it
    fm_err err;
    if (fm_block_encode(j->f, n, ROW, j->x + first * ROW, NULL, j->blocks + first * row_bytes(j), &faults, NULL, &err))
        exit(1);
}

static void decode(const job *j, size_t first, size_t n)
{
    fm_err err;
    if (fm_block_decode(j->f, n * ROW, j->blocks + first * row_bytes(j), j->y + first * ROW, &err))
        exit(1);
}

static void peer_encode(const job *j, size_t first, size_t n)
{
    j->peer((int)j->f->ggml_type, j->x + first * ROW, j->blocks + first * row_bytes(j), 0, (int64_t)n, ROW, NULL);
}

static volatile uint64_t sink; // keeps what is read

static void read_all(const job *j, size_t first, size_t n)
{
    const uint64_t *p = (const uint64_t *)(const void *)(j->x + first * ROW);
    uint64_t sum[32] = {0}; // enough chains for the compiler's widest vectors
    for (size_t i = 0; i < n * ROW / 2; i += 32)
        for (int k = 0; k < 32; k++)
            sum[k] += p[i + k];
    for (int k = 0; k < 32; k++)
        sink += sum[k];
}

static void store_all(const job *j, size_t first, size_t n)
{
    memset(j->y + first * ROW, 1, n * ROW * sizeof *j->y);
}

typedef struct {
    const job *j;
    work *w;
    size_t first, n;
    pthread_barrier_t *gate;
} half;

static void *run_half(void *arg)
{
    const half *h = arg;
    pthread_barrier_wait(h->gate);
    h->w(h->j, h->first, h->n);
    return NULL;
}

typedef struct {
    double wall, cpu; // best GB/s of fp32
} rate;

static void pass(const job *j, work *w, int threads, rate *best)
{
    double gb = (double)j->n_rows * ROW * 4e-9, wall, cpu;
    if (threads == 1) {
        wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        w(j, 0, j->n_rows);
    } else {
        pthread_barrier_t gate;
        pthread_t thread;
        pthread_barrier_init(&gate, NULL, 2);
        half other = {j, w, j->n_rows / 2, j->n_rows - j->n_rows / 2, &gate};
        if (pthread_create(&thread, NULL, run_half, &other))
            exit(1);
        wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID); // before either may begin
        pthread_barrier_wait(&gate);
        w(j, 0, j->n_rows / 2);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&gate);
    }
    wall = gb / (now(CLOCK_MONOTONIC) - wall);
    cpu = gb / (now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    best->wall = wall > best->wall ? wall : best->wall;
    best->cpu = cpu > best->cpu ? cpu : best->cpu;
}

static double rmse(const job *j)
{
    double sum = 0;
    decode(j, 0, j->n_rows);
    for (size_t i = 0; i < j->n_rows * ROW; i++)
        sum += ((double)j->y[i] - (double)j->x[i]) * ((double)j->y[i] - (double)j->x[i]);
    return sqrt(sum / (double)(j->n_rows * ROW));
}

static void say(const job *j, const char *what, int threads, const rate *r, const char *reference, const rate *of,
                double error, const char *library)
{
    printf("{\"bench\":\"%s.%s\",\"threads\":%d,\"gb_per_s\":%.4g,\"gb_per_cpu_s\":%.4g", j->f->name, what, threads,
           r->wall, r->cpu);
    if (reference)
        printf(",\"%s_gb_per_s\":%.4g,\"of_%s\":%.3f,\"of_%s_by_cpu\":%.3f", reference, of->wall, reference,
               r->wall / of->wall, reference, r->cpu / of->cpu);
    if (error >= 0)
        printf(",\"rmse\":%.6g", error);
    printf(",\"mib\":%zu,\"kernel\":\"%s\"}\n", j->n_rows * ROW * 4 >> 20, library ? library : fm_block_kernel(j->f));
    fflush(stdout);
}

// One format: encoding on one and two threads, decoding, each peer; read and store bandwidth in turns with them.
static void measure(job *j, size_t all_rows, int n_peers, const peer *peers)
{
    rate read[3] = {{0}}, ours[3] = {{0}}, stores = {0}, decoded = {0}, theirs[MAX_PEERS] = {{0}};
    j->n_rows = 64 < all_rows ? 64 : all_rows; // slow encoders get fewer rows: a pass takes a third of a second
    rate first = {0};
    pass(j, encode, 1, &first);
    double rows = first.cpu / 4e-9 / ROW * 0.33;
    j->n_rows = rows < (double)all_rows ? ((size_t)rows + 2) / 2 * 2 : all_rows;
    j->n_rows = j->n_rows > all_rows ? all_rows : j->n_rows;
    for (int p = 0; p < PASSES; p++) {
        pass(j, read_all, 1, &read[1]);
        pass(j, encode, 1, &ours[1]);
        pass(j, read_all, 2, &read[2]);
        pass(j, encode, 2, &ours[2]);
    }
    double error = rmse(j);
    say(j, "encode", 1, &ours[1], "read", &read[1], error, NULL);
    say(j, "encode", 2, &ours[2], "read", &read[2], -1, NULL);
    size_t encoded = j->n_rows;
    for (int k = 0; k < n_peers; k++) {
        j->peer = peers[k].quantize;
        j->n_rows = 8;
        rate slow = {0};
        pass(j, peer_encode, 1, &slow);
        rows = slow.cpu / 4e-9 / ROW * 0.33;
        j->n_rows = rows < (double)encoded ? ((size_t)rows + 8) / 8 * 8 : encoded;
        j->n_rows = j->n_rows > encoded ? encoded : j->n_rows;
        for (int p = 0; p < PASSES; p++)
            pass(j, peer_encode, 1, &theirs[k]);
        error = rmse(j);
        say(j, "ggml", 1, &theirs[k], NULL, NULL, error, peers[k].path);
        encode(j, 0, j->n_rows); // on the same rows
        printf("{\"bench\":\"%s.against_ggml\",\"threads\":1,\"times\":%.2f,\"times_by_cpu\":%.2f,\"rmse_ratio\":%.4f,"
               "\"library\":\"%s\"}\n",
               j->f->name, ours[1].wall / theirs[k].wall, ours[1].cpu / theirs[k].cpu, rmse(j) / error, peers[k].path);
    }
    j->n_rows = all_rows;
    if (encoded < all_rows) // decoding wants blocks everywhere: those of the first rows over and over
        for (size_t r = encoded; r < all_rows; r++)
            memcpy(j->blocks + r * row_bytes(j), j->blocks + r % encoded * row_bytes(j), row_bytes(j));
    for (int p = 0; p < PASSES; p++) {
        pass(j, store_all, 1, &stores);
        pass(j, decode, 1, &decoded);
    }
    say(j, "decode", 1, &decoded, "store", &stores, -1, NULL);
}

static int add_peer(peer *peers, int n, const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libggml-base.so", dir);
    void *handle = n < MAX_PEERS ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    void *symbol = handle ? dlsym(handle, "ggml_quantize_chunk") : NULL;
    if (!symbol) {
        fprintf(stderr, "bench_blocks: %s: no ggml there (%s); going on without it\n", path, dlerror());
        return n;
    }
    peers[n].path = strdup(dir);
    memcpy(&peers[n].quantize, &symbol, sizeof symbol);
    return n + 1;
}

static void fill(size_t n, float *x)
{
    uint64_t s = 1;
    for (size_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int k = 0; k < 6; k++) { // near enough to normal, deviation 0.02
            s = s * 6364136223846793005u + 1442695040888963407u;
            sum += (int64_t)(s >> 40) - (1 << 23);
        }
        x[i] = (float)sum * (0.02f * 1.41421356f / 16777216);
    }
}

int main(int argc, char **argv)
{
    peer peers[MAX_PEERS];
    int n_peers = 0, n_names = 0;
    const char *names[FM_BLOCK_N];
    size_t mib = 256;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--libdir") && i + 1 < argc)
            n_peers = add_peer(peers, n_peers, argv[++i]);
        else if (!strcmp(argv[i], "--mib") && i + 1 < argc)
            mib = (size_t)strtoul(argv[++i], NULL, 10);
        else if (n_names < FM_BLOCK_N && fm_block_format_by_name(argv[i]))
            names[n_names++] = argv[i];
        else {
            fprintf(stderr, "usage: bench_blocks [--mib N] [--libdir DIR]... [FORMAT]...\n");
            return 2;
        }
    char *dirs = getenv("FLOODMARK_GGML_LIBDIR") ? strdup(getenv("FLOODMARK_GGML_LIBDIR")) : NULL;
    for (char *rest = dirs, *dir; rest && (dir = strsep(&rest, ":"));)
        n_peers = *dir ? add_peer(peers, n_peers, dir) : n_peers;
    free(dirs);
    size_t rows = (mib << 20) / 4 / ROW / 2 * 2;
    job j = {.x = aligned_alloc(64, rows * ROW * 4),
             .y = aligned_alloc(64, rows * ROW * 4),
             .blocks = aligned_alloc(64, rows * ROW * 2)};
    if (rows < 2 || !j.x || !j.y || !j.blocks) {
        fprintf(stderr, "bench_blocks: %zu MiB: no memory for that\n", mib);
        return 1;
    }
    fill(rows * ROW, j.x);
    memset(j.blocks, 0, rows * ROW * 2);
    for (int t = 0; t < FM_BLOCK_N; t++) {
        bool wanted = n_names == 0;
        j.f = fm_block_format_of((fm_block_type)t);
        for (int i = 0; i < n_names; i++)
            wanted |= fm_block_format_by_name(names[i]) == j.f;
        if (wanted)
            measure(&j, rows, n_peers, peers);
    }
    free(j.x), free(j.y), free(j.blocks);
    return 0;
}
