#include "base/pool.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"

typedef struct {
    uint64_t n_tiles;
    fm_pool_tile tile;
    void *context;
    atomic_uint_fast64_t next;   // the lowest tile that nobody has taken
    atomic_uint_fast64_t failed; // the lowest tile that failed; UINT64_MAX: none
    pthread_mutex_t error_lock;  // guards failed's decrease together with error
    fm_err error;
} job;

typedef struct {
    fm_pool *pool;
    unsigned worker;
    pthread_t thread;
} helper;

struct fm_pool {
    unsigned n_threads, n_helpers; // n_helpers threads exist; n_threads = n_helpers + the caller
    helper *helpers;
    pthread_mutex_t run_lock; // one job at a time
    pthread_mutex_t lock;     // guards what follows
    pthread_cond_t begin, end;
    uint64_t round; // counts jobs: a helper sees a new one by it
    unsigned busy;  // helpers still on this round's job
    bool quit;
    job *current;
};

unsigned fm_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}

unsigned fm_pool_threads(const fm_pool *pool)
{
    return pool ? pool->n_threads : 1;
}

// Tiles are taken in order, so every tile below a failed one has been taken already and will be finished: the lowest
// failure is the same for any number of threads.
static void work(job *j, unsigned worker)
{
    for (;;) {
        uint64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->n_tiles || i > atomic_load(&j->failed))
            return;
        fm_err error = {0};
        fm_status status = j->tile(j->context, i, worker, &error);
        if (status == FM_OK)
            continue;
        error.code = status;
        pthread_mutex_lock(&j->error_lock);
        if (i < atomic_load(&j->failed)) {
            atomic_store(&j->failed, i);
            j->error = error;
        }
        pthread_mutex_unlock(&j->error_lock);
    }
}

static void *help(void *argument)
{
    helper *self = argument;
    fm_pool *pool = self->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->quit && pool->round == seen)
            pthread_cond_wait(&pool->begin, &pool->lock);
        if (pool->quit)
            break;
        seen = pool->round;
        job *j = pool->current;
        pthread_mutex_unlock(&pool->lock);
        work(j, self->worker);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->end);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

fm_status fm_pool_create(unsigned n_threads, fm_pool **out, fm_err *err)
{
    if (n_threads == 0)
        n_threads = fm_cpu_count();
    fm_pool *pool = fm_calloc(1, sizeof *pool);
    helper *helpers = fm_calloc(n_threads, sizeof *helpers);
    if (!pool || !helpers) {
        fm_free(pool);
        fm_free(helpers);
        return fm_fail_memory(err, "a pool of threads");
    }
    pool->n_threads = n_threads;
    pool->helpers = helpers;
    pthread_mutex_init(&pool->run_lock, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    while (pool->n_helpers + 1 < n_threads) {
        helper *h = helpers + pool->n_helpers;
        *h = (helper){.pool = pool, .worker = pool->n_helpers + 1};
        int problem = fm_fault(FM_FAULT_THREAD) ? errno : pthread_create(&h->thread, NULL, help, h);
        if (problem) {
            fm_pool_destroy(pool);
            return fm_fail(err, FM_ERR_IO, "cannot start %u threads: %s (ask for fewer with --threads)", n_threads,
                           fm_io_words(problem));
        }
        pool->n_helpers++;
    }
    *out = pool;
    return FM_OK;
}

void fm_pool_destroy(fm_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->quit = true;
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->n_helpers; i++)
        pthread_join(pool->helpers[i].thread, NULL);
    pthread_cond_destroy(&pool->begin);
    pthread_cond_destroy(&pool->end);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->run_lock);
    fm_free(pool->helpers);
    fm_free(pool);
}

fm_status fm_pool_run(fm_pool *pool, uint64_t n_tiles, fm_pool_tile tile, void *context, fm_err *err)
{
    job j = {.n_tiles = n_tiles, .tile = tile, .context = context, .failed = UINT64_MAX};
    pthread_mutex_init(&j.error_lock, NULL);
    if (pool)
        pthread_mutex_lock(&pool->run_lock);
    if (!pool || pool->n_helpers == 0 || n_tiles <= 1) {
        work(&j, 0);
    } else {
        pthread_mutex_lock(&pool->lock);
        pool->current = &j;
        pool->busy = pool->n_helpers;
        pool->round++;
        pthread_cond_broadcast(&pool->begin);
        pthread_mutex_unlock(&pool->lock);
        work(&j, 0);
        pthread_mutex_lock(&pool->lock);
        while (pool->busy)
            pthread_cond_wait(&pool->end, &pool->lock);
        pool->current = NULL;
        pthread_mutex_unlock(&pool->lock);
    }
    if (pool)
        pthread_mutex_unlock(&pool->run_lock);
    pthread_mutex_destroy(&j.error_lock);
    if (atomic_load(&j.failed) == UINT64_MAX)
        return FM_OK;
    if (err)
        *err = j.error;
    return j.error.code;
}
