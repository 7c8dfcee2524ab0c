// Threads that share out the tiles of one job.
//
// Work is cut into tiles by the problem, never by the number of threads: the caller names n_tiles, every tile is done
// exactly once and may write only its own part of the result; so any number of threads gives the same bits.
#ifndef FM_BASE_POOL_H
#define FM_BASE_POOL_H
#include <stdint.h>
#include "floodmark/status.h"

typedef struct fm_pool fm_pool;

// One tile's work. `worker` is below fm_pool_threads(pool) and no two tiles that run at once share it: an index for
// scratch memory. Must not call fm_pool_run on the same pool.
typedef fm_status (*fm_pool_tile)(void *context, uint64_t tile, unsigned worker, fm_err *err);

// n_threads 0: as many as there are processors this process may use. One thread makes no thread at all: the caller does
// the work. Errors: FM_ERR_NO_MEMORY; FM_ERR_IO when the system refuses a thread.
fm_status fm_pool_create(unsigned n_threads, fm_pool **out, fm_err *err) FM_MUST_USE;

// NULL is fine. Must not run while a job does.
void fm_pool_destroy(fm_pool *pool);

// How many threads work on a job, the caller's included. 1 for NULL.
unsigned fm_pool_threads(const fm_pool *pool);

// Does tile(context, i, ...) for all i in [0, n_tiles) and returns when all are done; pool NULL: in this thread, in order.
// When tiles fail, the error of the lowest one is returned whatever the threads, and no tile above a failed one is begun
// afterwards. Jobs from several threads wait for one another.
fm_status fm_pool_run(fm_pool *pool, uint64_t n_tiles, fm_pool_tile tile, void *context, fm_err *err) FM_MUST_USE;

// The number of processors this process may use, at least 1.
unsigned fm_cpu_count(void);
#endif
