// Which combinations exist. One row a family of grids says what goes with it; a few rules tie the rest together. The
// tests walk every combination of every list and hold what passes here against what the library does.
#include "floodmark/scheme.h"

#define BIT(x) (1u << (x))
#define G(x) BIT(FM_GRANULARITY_##x)
#define S(x) BIT(FM_SCALE_##x)
#define C(x) BIT(FM_CALIBRATION_##x)
#define ANY_GRANULARITY (G(TENSOR) | G(ROW) | G(COLUMN) | G(BLOCK) | G(TILE) | G(FLAT))
#define ANY_CALIBRATION (C(ABSMAX) | C(PERCENTILE) | C(MSE) | C(KL) | C(WEIGHTED))

static const struct {
    fm_grid first, last;
    bool asymmetric, full_range;
    unsigned granularities, scales, calibrations;
} families[] = {
    {FM_GRID_INT2, FM_GRID_INT8, true, true, ANY_GRANULARITY, S(FP32) | S(FP16) | S(BF16) | S(E8M0) | S(DOUBLE),
     ANY_CALIBRATION},
    {FM_GRID_E4M3, FM_GRID_E5M2, false, false, ANY_GRANULARITY, S(FP32) | S(FP16) | S(BF16) | S(E8M0) | S(NONE),
     ANY_CALIBRATION},
    {FM_GRID_E2M3, FM_GRID_E3M2, false, false, ANY_GRANULARITY, S(FP32) | S(FP16) | S(BF16) | S(E8M0), ANY_CALIBRATION},
    {FM_GRID_E2M1, FM_GRID_E2M1, false, false, ANY_GRANULARITY, S(FP32) | S(FP16) | S(BF16) | S(E8M0) | S(E4M3),
     ANY_CALIBRATION},
    {FM_GRID_NF4, FM_GRID_DYNAMIC8, false, false, G(TENSOR) | G(ROW) | G(BLOCK) | G(TILE) | G(FLAT),
     S(FP32) | S(DOUBLE), C(ABSMAX) | C(MSE)},
};

static fm_status refuse(fm_err *err, const fm_scheme *s, const char *what, const char *why)
{
    char text[FM_SCHEME_TEXT_BYTES];
    return fm_fail(err, FM_ERR_UNSUPPORTED, "%s: %s %s", fm_scheme_text(s, text), what, why);
}

// Rules between two columns of the table.
static fm_status check_pairs(const fm_scheme *s, fm_err *err)
{
    bool sums_rows = s->granularity == FM_GRANULARITY_TENSOR || s->granularity == FM_GRANULARITY_ROW ||
                     s->granularity == FM_GRANULARITY_COLUMN;
    if (s->calibration == FM_CALIBRATION_KL && s->asymmetric)
        return refuse(err, s, "calibration kl", "is for symmetric schemes");
    if (s->calibration == FM_CALIBRATION_KL && !sums_rows)
        return refuse(err, s, "calibration kl", "needs groups of a tensor, row or column: a block has too few values");
    if (s->calibration == FM_CALIBRATION_WEIGHTED && s->granularity == FM_GRANULARITY_COLUMN)
        return refuse(err, s, "calibration weighted", "weighs columns, a column by itself needs mse");
    if (s->calibration == FM_CALIBRATION_WEIGHTED && s->granularity == FM_GRANULARITY_FLAT)
        return refuse(err, s, "calibration weighted", "weighs columns, which flat blocks do not keep");
    if (s->scale == FM_SCALE_E8M0 && s->asymmetric)
        return refuse(err, s, "scale e8m0", "is for symmetric schemes");
    if (s->scale == FM_SCALE_E8M0 && s->calibration != FM_CALIBRATION_ABSMAX &&
        !(s->calibration == FM_CALIBRATION_WEIGHTED && s->e8m0_mode == FM_E8M0_MODE_MSE))
        return refuse(err, s, "scale e8m0",
                      "finds its power from the largest value, or by e8m0:mse (which may be weighted)");
    if (s->scale == FM_SCALE_E4M3 && (s->granularity != FM_GRANULARITY_BLOCK || s->block_cols != 16))
        return refuse(err, s, "scale e4m3", "is NVFP4's: blocks of 16");
    if (s->scale == FM_SCALE_E4M3 && (s->calibration == FM_CALIBRATION_PERCENTILE))
        return refuse(err, s, "scale e4m3", "goes with absmax, mse and weighted");
    if (s->scale == FM_SCALE_DOUBLE && s->granularity != FM_GRANULARITY_FLAT)
        return refuse(err, s, "scale double",
                      "goes with granularity flat: 256 scales after one another share a second one");
    if (s->scale == FM_SCALE_DOUBLE && s->block_cols > 4096)
        return refuse(err, s, "scale double", "goes with blocks of at most 4096");
    if (s->granularity == FM_GRANULARITY_TILE && s->block_rows > 256)
        return refuse(err, s, "granularity tile", "has at most 256 rows");
    if (s->scale == FM_SCALE_NONE &&
        (s->granularity != FM_GRANULARITY_TENSOR || s->calibration != FM_CALIBRATION_ABSMAX))
        return refuse(err, s, "scale none", "is a plain cast: no granularity, no calibration");
    return FM_OK;
}

fm_status fm_scheme_check(const fm_scheme *s, fm_err *err)
{
    size_t f = 0;
    while (s->grid > families[f].last)
        f++;
    if (s->asymmetric && s->full_range)
        return refuse(err, s, "full range", "is a choice of symmetric schemes");
    if (s->asymmetric && !families[f].asymmetric)
        return refuse(err, s, "asym", "needs an integer format");
    if (s->full_range && !families[f].full_range)
        return refuse(err, s, "sym:full", "needs an integer format");
    if (!(families[f].granularities & BIT(s->granularity)))
        return refuse(err, s, "granularity", "does not go with this format");
    if (!(families[f].scales & BIT(s->scale)))
        return refuse(err, s, "scale", "does not go with this format");
    if (!(families[f].calibrations & BIT(s->calibration)))
        return refuse(err, s, "calibration", "does not go with this format");
    bool sized = s->granularity == FM_GRANULARITY_BLOCK || s->granularity == FM_GRANULARITY_FLAT ||
                 s->granularity == FM_GRANULARITY_TILE;
    if (sized != (s->block_cols > 0) || (s->granularity == FM_GRANULARITY_TILE && s->block_rows == 0))
        return refuse(err, s, "granularity", sized ? "needs a size" : "takes no size");
    if (s->calibration == FM_CALIBRATION_PERCENTILE && !(s->percentile > 50 && s->percentile <= 100))
        return refuse(err, s, "percentile", "must lie above 50 and at most at 100");
    return check_pairs(s, err);
}

static fm_layout integer_layout(const fm_scheme *s, bool whole_blocks)
{
    bool known_scale = s->scale == FM_SCALE_FP32 || s->scale == FM_SCALE_FP16 || s->scale == FM_SCALE_BF16;
    bool known_groups = s->granularity == FM_GRANULARITY_TENSOR || s->granularity == FM_GRANULARITY_ROW || whole_blocks;
    return known_scale && known_groups ? FM_LAYOUT_COMPRESSED_TENSORS : FM_LAYOUT_OWN;
}

static fm_layout float_layout(const fm_scheme *s, bool whole_blocks)
{
    if (s->scale == FM_SCALE_NONE)
        return FM_LAYOUT_PLAIN;
    bool plain_scale = s->scale == FM_SCALE_FP32 || s->scale == FM_SCALE_FP16 || s->scale == FM_SCALE_BF16;
    if (s->grid == FM_GRID_E4M3 && plain_scale &&
        (s->granularity == FM_GRANULARITY_TENSOR || s->granularity == FM_GRANULARITY_ROW ||
         s->granularity == FM_GRANULARITY_TILE || whole_blocks))
        return FM_LAYOUT_COMPRESSED_TENSORS;
    bool mx = s->scale == FM_SCALE_E8M0 && s->block_cols == 32 && whole_blocks;
    bool nv = s->scale == FM_SCALE_E4M3 && s->nvfp4 == FM_NVFP4_DIVIDE && whole_blocks;
    bool known = s->grid == FM_GRID_E4M3 || s->grid == FM_GRID_E2M3 || s->grid == FM_GRID_E2M1;
    return (mx && known) || nv ? FM_LAYOUT_COMPRESSED_TENSORS : FM_LAYOUT_OWN;
}

fm_layout fm_scheme_layout(const fm_scheme *s, uint64_t rows, uint64_t cols)
{
    (void)rows;
    bool whole_blocks = s->granularity == FM_GRANULARITY_BLOCK && cols % s->block_cols == 0;
    switch (fm_grid_kind_of(s->grid)) {
    case FM_GRID_KIND_INTEGER:
        return integer_layout(s, whole_blocks);
    case FM_GRID_KIND_FLOAT:
        return float_layout(s, whole_blocks);
    default:
        return s->granularity == FM_GRANULARITY_FLAT && s->grid != FM_GRID_DYNAMIC8 ? FM_LAYOUT_BITSANDBYTES
                                                                                    : FM_LAYOUT_OWN;
    }
}
