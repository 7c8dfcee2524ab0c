// How `floodmark quantize` cuts tensors: every value in one tile, and no tile larger for a larger tensor.
#include "testing.h"
#include <stdlib.h>
#include "command/quantize_run.h"

enum { MOST = 1 << 21 };

static fm_job job_of(fm_granularity g, uint64_t rows, uint64_t cols, fm_tensor_info *t)
{
    fm_job j = {.in = t, .rows = rows, .cols = cols, .layout = FM_LAYOUT_COMPRESSED_TENSORS};
    *t = (fm_tensor_info){.type = FM_TENSOR_BF16, .n_elems = rows * cols, .bytes = rows * cols * 2};
    j.target.kind = FM_JOB_SCHEME;
    j.target.scheme = (fm_scheme){.grid = FM_GRID_INT4, .granularity = g};
    if (g == FM_GRANULARITY_BLOCK || g == FM_GRANULARITY_TILE || g == FM_GRANULARITY_FLAT)
        j.target.scheme.block_cols = 96;
    j.target.scheme.block_rows = g == FM_GRANULARITY_TILE ? 4 : 1;
    return j;
}

// Walks all tiles of all strips.
static void check_cut(const fm_job *j, bool weighted, uint64_t unit)
{
    fm_cut c = fm_cut_job(j, weighted, 1);
    uint64_t n = 0, next = 0;
    do {
        if (c.strip_cols)
            fm_cut_strip(&c, next);
        assert_true(c.n_tiles <= j->in->n_elems / 1024 + 64);
        uint64_t width = c.strip_cols ? c.strip_cols : c.cols;
        assert_true(width < c.cols || c.first_col == 0);
        for (uint64_t i = 0; i < c.n_tiles; i++) {
            fm_place p = fm_tile_place(&c, i);
            assert_true(p.n && p.n == p.rows * p.cols && p.n <= MOST);
            assert_int_equal(p.first, p.row * c.cols + p.col);
            assert_true(p.row + p.rows <= c.rows && p.col + p.cols <= c.cols);
            if (p.cols < c.cols) { // whole groups, whole bytes of codes
                assert_true(p.col % unit == 0);
                assert_true(c.rows == 1 || p.col % 8 == 0);
            }
            n += p.n;
        }
        next += width;
    } while (c.strip_cols && next < c.cols);
    assert_int_equal(n, j->in->n_elems);
}

static const uint64_t shapes[][2] = {{1, 300000000}, {2, 200000000}, {3, 4000037}, {33, 2097153},
                                     {40, 100000},   {5000, 4096},   {1000000, 3}, {1, 1}};

static void tiles_do_not_grow(void **state)
{
    (void)state;
    static const fm_granularity all[] = {FM_GRANULARITY_TENSOR, FM_GRANULARITY_ROW,  FM_GRANULARITY_COLUMN,
                                         FM_GRANULARITY_BLOCK,  FM_GRANULARITY_TILE, FM_GRANULARITY_FLAT};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t g = 0; g < sizeof all / sizeof *all; g++)
            for (int asymmetric = 0; asymmetric < 2; asymmetric++) {
                fm_tensor_info t;
                fm_job j = job_of(all[g], shapes[s][0], shapes[s][1], &t);
                j.target.scheme.asymmetric = asymmetric;
                check_cut(&j, false, j.target.scheme.block_cols ? j.target.scheme.block_cols : 1);
            }
}

static void blocks_and_casts_too(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        fm_tensor_info t;
        fm_job j = job_of(FM_GRANULARITY_TENSOR, shapes[s][0], shapes[s][1], &t);
        j.target.kind = FM_JOB_CAST;
        check_cut(&j, false, 1);
        j.target.kind = FM_JOB_KEEP;
        check_cut(&j, false, 1);
        j.target.kind = FM_JOB_BLOCKS;
        check_cut(&j, false, 1);
        check_cut(&j, true, 1);
    }
}

// Columns are looked at one by one only where their maxima fit.
static void wide_tensors_have_no_columns(void **state)
{
    (void)state;
    fm_tensor_info t;
    fm_job j = job_of(FM_GRANULARITY_ROW, 2, 200000000, &t);
    assert_false(fm_job_has_columns(&j));
    j = job_of(FM_GRANULARITY_ROW, 2, 4096, &t);
    assert_true(fm_job_has_columns(&j));
}

int main(void)
{
    unsetenv("FLOODMARK_WIDE_ROW");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_do_not_grow),
        cmocka_unit_test(blocks_and_casts_too),
        cmocka_unit_test(wide_tensors_have_no_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
