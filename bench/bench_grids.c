// The grids of the quantizer from memory: GB/s of fp32 encoded (scales found, values encoded, codes packed) and decoded
// (codes unpacked, decoded), on one and two threads, beside reading and copying the same values, all in turns in one run.
// A second figure of each counts CPU time, which survives a busy machine. Each thread has half of the rows as a matrix of
// its own; granularities tensor and column pass over it twice. nvfp4's scale of the whole tensor is given.
//   bench_grids [--mib 256] [NAME]...
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "floodmark/quantize.h"

enum { PASSES = 5, ROW = 4096, TILE_ROWS = 16, TILE = TILE_ROWS * ROW };

static const struct {
    const char *name, *format, *granularity, *symmetry;
} entries[] = {{"int8.tensor", "int8", "tensor", NULL},
               {"int8.row", "int8", "row", NULL},
               {"int8.column", "int8", "column", NULL},
               {"int8.block128", "int8", "block:128", NULL},
               {"int4.block128", "int4", "block:128", "sym"},
               {"int4.block128.asym", "int4", "block:128", "asym"},
               {"fp8_e4m3.row", "fp8_e4m3", "row", NULL},
               {"fp8_e4m3.block128", "fp8_e4m3", "block:128", NULL},
               {"mxfp8", "mxfp8", NULL, NULL},
               {"mxfp4", "mxfp4", NULL, NULL},
               {"nvfp4", "nvfp4", NULL, NULL},
               {"nf4", "nf4", "flat:64", NULL}};

typedef struct {
    fm_group_scale *scales; // of all its rows, a tile after another, or shared
    uint8_t codes[TILE];
} hand;

typedef struct {
    fm_scheme s;
    bool shared; // scales of the whole matrix
    unsigned bits;
    size_t n_rows;
    float *x, *y, global;
    uint8_t *packed;
    hand *hands[2];
} job;

typedef void work(const job *j, hand *h, size_t first_row, size_t n_rows);

static void check(fm_status status, const fm_err *err)
{
    if (status) {
        fprintf(stderr, "bench_grids: %s\n", err->message);
        exit(1);
    }
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t groups_of(const job *j, size_t rows)
{
    uint64_t gr, gc;
    bool flat = j->s.granularity == FM_GRANULARITY_FLAT;
    fm_scheme_groups(&j->s, flat ? 1 : rows, flat ? rows * ROW : ROW, &gr, &gc);
    return j->shared ? 0 : gr * gc;
}

static void encode(const job *j, hand *h, size_t first, size_t n)
{
    fm_err err;
    bool flat = j->s.granularity == FM_GRANULARITY_FLAT;
    fm_group_scale *scales = h->scales;
    if (j->shared)
        check(fm_quantize_calibrate(&j->s, n, ROW, ROW, j->x + first * ROW, NULL, j->global, scales, &err), &err);
    for (size_t r = first; r < first + n; r += TILE_ROWS) {
        size_t m = first + n - r < TILE_ROWS ? first + n - r : TILE_ROWS, rows = flat ? 1 : m, cols = m * ROW / rows;
        const float *x = j->x + r * ROW;
        uint8_t *out = j->packed + r * ROW * j->bits / 8;
        if (!j->shared)
            check(fm_quantize_calibrate(&j->s, rows, cols, cols, x, NULL, j->global, scales, &err), &err);
        fm_quantize_encode(&j->s, rows, cols, cols, x, scales, j->bits == 8 ? out : h->codes);
        if (j->bits < 8)
            fm_pack_bits(j->bits, m * ROW, h->codes, 0, out);
        scales += groups_of(j, m);
    }
}

static void decode(const job *j, hand *h, size_t first, size_t n)
{
    bool flat = j->s.granularity == FM_GRANULARITY_FLAT;
    const fm_group_scale *scales = h->scales;
    for (size_t r = first; r < first + n; r += TILE_ROWS) {
        size_t m = first + n - r < TILE_ROWS ? first + n - r : TILE_ROWS, rows = flat ? 1 : m, cols = m * ROW / rows;
        const uint8_t *in = j->packed + r * ROW * j->bits / 8;
        if (j->bits < 8)
            fm_unpack_bits(j->bits, m * ROW, in, 0, h->codes);
        fm_quantize_decode(&j->s, rows, cols, j->bits == 8 ? in : h->codes, scales, j->y + r * ROW);
        scales += groups_of(j, m);
    }
}

static volatile uint64_t sink; // keeps what is read

static void read_all(const job *j, hand *h, size_t first, size_t n)
{
    (void)h;
    const uint64_t *p = (const uint64_t *)(const void *)(j->x + first * ROW);
    uint64_t sum[32] = {0}; // enough chains for the compiler's widest vectors
    for (size_t i = 0; i < n * ROW / 2; i += 32)
        for (int k = 0; k < 32; k++)
            sum[k] += p[i + k];
    for (int k = 0; k < 32; k++)
        sink += sum[k];
}

static void copy_all(const job *j, hand *h, size_t first, size_t n)
{
    (void)h;
    memcpy(j->y + first * ROW, j->x + first * ROW, n * ROW * sizeof *j->x);
}

typedef struct {
    const job *j;
    work *w;
    pthread_barrier_t *gate;
} half;

static void *run_half(void *arg)
{
    const half *h = arg;
    pthread_barrier_wait(h->gate);
    h->w(h->j, h->j->hands[1], h->j->n_rows / 2, h->j->n_rows - h->j->n_rows / 2);
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
        w(j, j->hands[0], 0, j->n_rows);
    } else {
        pthread_barrier_t gate;
        pthread_t thread;
        pthread_barrier_init(&gate, NULL, 2);
        half other = {j, w, &gate};
        if (pthread_create(&thread, NULL, run_half, &other))
            exit(1);
        wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID); // before either may begin
        pthread_barrier_wait(&gate);
        w(j, j->hands[0], 0, j->n_rows / 2);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&gate);
    }
    wall = gb / (now(CLOCK_MONOTONIC) - wall);
    cpu = gb / (now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    best->wall = wall > best->wall ? wall : best->wall;
    best->cpu = cpu > best->cpu ? cpu : best->cpu;
}

static void say(const char *name, const char *what, int threads, const rate *r, const rate *read, const rate *copy,
                size_t mib)
{
    printf("{\"bench\":\"%s.%s\",\"threads\":%d,\"gb_per_s\":%.4g,\"gb_per_cpu_s\":%.4g,\"read_gb_per_s\":%.4g,"
           "\"of_read\":%.3f,\"of_read_by_cpu\":%.3f,\"copy_gb_per_s\":%.4g,\"of_copy\":%.3f,\"of_copy_by_cpu\":%.3f,"
           "\"mib\":%zu,\"kernel\":\"%s\"}\n",
           name, what, threads, r->wall, r->cpu, read->wall, r->wall / read->wall, r->cpu / read->cpu, copy->wall,
           r->wall / copy->wall, r->cpu / copy->cpu, mib, fm_quantize_kernel());
    fflush(stdout);
}

static void measure(job *j, size_t entry, size_t mib)
{
    fm_err err;
    const char *name = entries[entry].name;
    check(fm_scheme_of_format(entries[entry].format, &j->s, &err), &err);
    if (entries[entry].granularity)
        check(fm_scheme_set_granularity(&j->s, entries[entry].granularity, &err), &err);
    if (entries[entry].symmetry)
        check(fm_scheme_set_symmetry(&j->s, entries[entry].symmetry, &err), &err);
    check(fm_scheme_check(&j->s, &err), &err);
    j->shared = j->s.granularity == FM_GRANULARITY_TENSOR || j->s.granularity == FM_GRANULARITY_COLUMN;
    j->bits = fm_grid_bits(j->s.grid);
    j->global = j->s.scale == FM_SCALE_E4M3 ? fm_nvfp4_global(&j->s, 1) : 1; // fill's values stay below 1
    for (int threads = 1; threads <= 2; threads++) {
        rate read = {0}, copy = {0}, encoded = {0}, decoded = {0};
        for (int p = 0; p < PASSES; p++) {
            pass(j, read_all, threads, &read);
            pass(j, encode, threads, &encoded);
            pass(j, copy_all, threads, &copy);
            pass(j, decode, threads, &decoded);
        }
        say(name, "encode", threads, &encoded, &read, &copy, mib);
        say(name, "decode", threads, &decoded, &read, &copy, mib);
    }
}

// Sums of four even draws: about as weights are spread, below 0.4.
static void fill(size_t n, float *x)
{
    uint64_t s = 1;
    for (size_t i = 0; i < n; i++) {
        int32_t sum = 0;
        s = s * 6364136223846793005u + 1442695040888963407u;
        for (int k = 0; k < 4; k++)
            sum += (int16_t)(s >> (16 * k));
        x[i] = (float)sum * 3e-6f;
    }
}

int main(int argc, char **argv)
{
    size_t mib = 256;
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "--mib")) {
        mib = strtoul(argv[2], NULL, 10);
        first = 3;
    }
    size_t rows = mib * 1024 * 1024 / 4 / ROW / (2 * TILE_ROWS) * (2 * TILE_ROWS); // halves of whole tiles
    job j = {.n_rows = rows,
             .x = aligned_alloc(64, rows * ROW * 4),
             .y = aligned_alloc(64, rows * ROW * 4),
             .packed = aligned_alloc(64, rows * ROW)};
    for (int i = 0; i < 2; i++) {
        j.hands[i] = malloc(sizeof(hand));
        if (j.hands[i])
            j.hands[i]->scales = malloc((rows * ROW / 16 + ROW) * sizeof(fm_group_scale));
    }
    if (!rows || !j.x || !j.y || !j.packed || !j.hands[0] || !j.hands[1] || !j.hands[0]->scales ||
        !j.hands[1]->scales) {
        fprintf(stderr, "bench_grids: %zu MiB: no memory for that\n", mib);
        return 1;
    }
    fill(rows * ROW, j.x);
    memset(j.y, 0, rows * ROW * 4);
    for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
        bool wanted = first >= argc;
        for (int i = first; i < argc; i++)
            wanted |= !strncmp(entries[e].name, argv[i], strlen(argv[i]));
        if (wanted)
            measure(&j, e, mib);
    }
    for (int i = 0; i < 2; i++) {
        free(j.hands[i]->scales);
        free(j.hands[i]);
    }
    free(j.x), free(j.y), free(j.packed);
    return 0;
}
