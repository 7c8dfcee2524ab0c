// How tensors are cut into tiles, by their shape alone. Rows are kept whole where they fit: a tile is a few of them. A row
// that is wider is cut too, at whole groups of the scheme, whole bytes of codes and whole blocks of the input.
#include <errno.h>
#include <stdlib.h>
#include "command/quantize_run.h"

enum { WIDE = 1 << 21 }; // values of a tile of whole rows: 60 MiB of a worker's memory at most

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

// Tests cut small tensors: FLOODMARK_WIDE_ROW=N stands for WIDE, and no piece of a row is longer.
static uint64_t wide_row(void)
{
    const char *word = getenv("FLOODMARK_WIDE_ROW");
    char *end;
    errno = 0;
    unsigned long n = word && *word >= '0' && *word <= '9' ? strtoul(word, &end, 10) : 0;
    return n > 0 && !errno && n < WIDE ? n : WIDE;
}

static fm_cut cut_flat(uint64_t n, uint64_t unit)
{
    unit = unit ? unit : 1;
    uint64_t tile = unit * (FM_TILE_ELEMS / unit ? FM_TILE_ELEMS / unit : 1);
    uint64_t n_tiles = divide_up(n, tile);
    return (fm_cut){
        .rows = 1, .cols = n, .tile_rows = 1, .tile_cols = tile, .n_tiles = n_tiles, .tiles_a_row = n_tiles};
}

static fm_cut cut_rows(uint64_t rows, uint64_t cols, uint64_t unit)
{
    unit = unit ? unit : 1;
    uint64_t tile = cols ? FM_TILE_ELEMS / cols / unit * unit : unit;
    tile = tile ? tile : unit;
    return (fm_cut){.rows = rows,
                    .cols = cols,
                    .tile_rows = tile,
                    .tile_cols = cols,
                    .n_tiles = divide_up(rows, tile),
                    .tiles_a_row = 1};
}

// Pieces of `tile_rows` rows, a multiple of `unit` columns.
static fm_cut cut_pieces(uint64_t rows, uint64_t cols, uint64_t tile_rows, uint64_t unit)
{
    unit = unit ? unit : 1;
    tile_rows = tile_rows ? tile_rows : 1;
    uint64_t piece = smaller(FM_TILE_ELEMS, wide_row()) / tile_rows / unit * unit;
    piece = piece ? piece : unit;
    fm_cut c = {.rows = rows, .cols = cols, .tile_rows = tile_rows, .tile_cols = piece, .pieces = true};
    c.tiles_a_row = divide_up(cols, piece);
    c.n_tiles = divide_up(rows, tile_rows) * c.tiles_a_row;
    return c;
}

// Whole blocks whose codes fill whole bytes, and with double scales whole blocks of scales.
static uint64_t flat_unit(const fm_scheme *s)
{
    if (s->scale == FM_SCALE_DOUBLE)
        return (uint64_t)s->block_cols * 256;
    return (uint64_t)s->block_cols * (s->block_cols * fm_grid_bits(s->grid) % 8 ? 8 : 1);
}

static uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static fm_cut cut_scheme(const fm_job *j)
{
    const fm_scheme *s = &j->target.scheme;
    enum { INPUT_BLOCK = 256 }; // the longest block of any input
    if (s->granularity == FM_GRANULARITY_FLAT)
        // a tile begins with a block of the input's, too
        return cut_flat(j->in->n_elems, common_multiple(flat_unit(s), fm_tensor_type_of(j->in->type)->block_elems));
    bool packs_zeros = s->asymmetric && j->layout == FM_LAYOUT_COMPRESSED_TENSORS;
    uint64_t unit = s->granularity == FM_GRANULARITY_TILE ? s->block_rows : packs_zeros ? 32 : 1;
    bool whole_blocks = s->granularity == FM_GRANULARITY_BLOCK || s->granularity == FM_GRANULARITY_TILE;
    uint64_t high = smaller(unit, j->rows), wide = wide_row();
    if (!high || j->cols <= wide / high || (whole_blocks && s->block_cols >= j->cols))
        return cut_rows(j->rows, j->cols, unit);
    if (whole_blocks) { // 8 codes fill whole bytes
        uint64_t least = common_multiple(8, fm_tensor_type_of(j->in->type)->block_elems);
        return cut_pieces(j->rows, j->cols, unit, common_multiple(s->block_cols, least));
    }
    // columns: a strip after another, whose scales are all that is held
    fm_cut c = cut_pieces(j->rows, j->cols, 1, INPUT_BLOCK);
    if (s->granularity == FM_GRANULARITY_COLUMN)
        fm_cut_strip(&c, 0);
    return c;
}

void fm_cut_strip(fm_cut *c, uint64_t col)
{
    enum { TILES = 4 }; // side by side in a strip
    c->first_col = col;
    c->strip_cols = smaller(TILES * c->tile_cols, c->cols - col);
    c->tiles_a_row = divide_up(c->strip_cols, c->tile_cols);
    c->n_tiles = divide_up(c->rows, c->tile_rows) * c->tiles_a_row;
}

fm_cut fm_cut_job(const fm_job *j, bool weighted, uint64_t n_mats)
{
    if (j->target.kind == FM_JOB_SCHEME)
        return cut_scheme(j);
    if (j->target.kind != FM_JOB_BLOCKS || !weighted)
        return cut_flat(j->in->n_elems, 256);
    if (j->cols > wide_row())
        return cut_pieces(j->rows, j->cols, 1, 256);
    // a tile must not reach into the next matrix of weights
    uint64_t rows_a_mat = n_mats ? j->rows / n_mats : j->rows;
    fm_cut c = cut_rows(j->rows, j->cols, 1);
    while (rows_a_mat % c.tile_rows)
        c.tile_rows--;
    c.n_tiles = divide_up(c.rows, c.tile_rows);
    return c;
}

fm_place fm_tile_place(const fm_cut *c, uint64_t tile)
{
    uint64_t width = c->strip_cols ? c->strip_cols : c->cols;
    uint64_t at = tile % c->tiles_a_row * c->tile_cols;
    fm_place p = {.row = tile / c->tiles_a_row * c->tile_rows, .col = c->first_col + at};
    p.rows = smaller(c->tile_rows, c->rows - p.row);
    p.cols = smaller(c->tile_cols, width - at);
    p.first = p.row * c->cols + p.col;
    p.n = p.rows * p.cols;
    return p;
}
