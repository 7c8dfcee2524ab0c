#include "testing.h"
#include <stdatomic.h>
#include "base/fault.h"
#include "base/pool.h"

enum { TILES = 5000 };

typedef struct {
    atomic_int times[TILES];
    atomic_int running[16]; // by worker
    unsigned n_threads;
    atomic_bool shared_worker;
    uint64_t fail_from, fail_step; // tiles that fail: fail_from, fail_from + fail_step ...
} work;

static fm_status do_tile(void *context, uint64_t tile, unsigned worker, fm_err *err)
{
    work *w = context;
    if (worker >= w->n_threads || atomic_fetch_add(&w->running[worker], 1) != 0)
        w->shared_worker = true;
    atomic_fetch_add(&w->times[tile], 1);
    for (volatile int spin = 0; spin < 200; spin = spin + 1) {
    }
    atomic_fetch_sub(&w->running[worker], 1);
    if (w->fail_step && tile >= w->fail_from && (tile - w->fail_from) % w->fail_step == 0)
        return fm_fail(err, FM_ERR_VALUE, "tile %llu", (unsigned long long)tile);
    return FM_OK;
}

static void every_tile_once(void **state)
{
    (void)state;
    fm_err err = {0};
    static work w;
    for (unsigned n = 0; n <= 7; n++) {
        fm_pool *pool = NULL;
        if (n)
            FM_ASSERT_OK(fm_pool_create(n, &pool, &err));
        assert_int_equal(fm_pool_threads(pool), n ? n : 1);
        for (int job = 0; job < 20; job++) {
            memset(&w, 0, sizeof w);
            w.n_threads = fm_pool_threads(pool);
            uint64_t tiles = job < 3 ? (uint64_t)job : TILES;
            FM_ASSERT_OK(fm_pool_run(pool, tiles, do_tile, &w, &err));
            for (uint64_t i = 0; i < TILES; i++)
                assert_int_equal(w.times[i], i < tiles);
            assert_false(w.shared_worker);
        }
        fm_pool_destroy(pool);
    }
}

static void lowest_failure_whatever_the_threads(void **state)
{
    (void)state;
    fm_err err = {0};
    static work w;
    for (unsigned n = 1; n <= 4; n++) {
        fm_pool *pool;
        FM_ASSERT_OK(fm_pool_create(n, &pool, &err));
        for (int job = 0; job < 200; job++) {
            memset(&w, 0, sizeof w);
            w.n_threads = n;
            w.fail_from = 137;
            w.fail_step = 1;
            err = (fm_err){0};
            FM_ASSERT_FAILS(fm_pool_run(pool, TILES, do_tile, &w, &err), FM_ERR_VALUE);
            assert_string_equal(err.message, "tile 137");
            for (int i = 0; i <= 137; i++)
                assert_int_equal(w.times[i], 1);
            assert_int_equal(w.times[137 + 4], 0); // at most one tile a thread was under way
        }
        assert_int_equal(fm_pool_run(pool, TILES, do_tile, &w, NULL), FM_ERR_VALUE);
        fm_pool_destroy(pool);
    }
}

static void refused_threads(void **state)
{
    (void)state;
    fm_err err = {0};
    fm_pool *pool = NULL;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        fm_fault_arm(FM_FAULT_THREAD, nth, false);
        FM_ASSERT_FAILS(fm_pool_create(4, &pool, &err), FM_ERR_IO);
        assert_null(pool);
        assert_non_null(strstr(err.message, "--threads"));
    }
    fm_fault_disarm();
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fm_fault_arm(FM_FAULT_ALLOC, nth, false);
        FM_ASSERT_FAILS(fm_pool_create(4, &pool, &err), FM_ERR_NO_MEMORY);
    }
    fm_fault_disarm();
    FM_ASSERT_OK(fm_pool_create(0, &pool, &err));
    assert_int_equal(fm_pool_threads(pool), fm_cpu_count());
    fm_pool_destroy(pool);
    fm_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_once),
        cmocka_unit_test(lowest_failure_whatever_the_threads),
        cmocka_unit_test(refused_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
