// The searches over one group of values: which scale (and offset) costs the least squared error. Included once per
// instruction set, after lanes.h. Sixteen candidates go through the group's values side by side, so each candidate's
// sums run in the order of the values, whatever the instruction set.
#include <stdbool.h>
#include "quantize/blocks/half.h"
#include "quantize/blocks/kernels.h"

// Vectors want everything in one function. Sixteen lanes of plain C, or sanitizers, want it apart: in one function
// they take the compiler minutes.
#ifdef FM_SEARCH_APART
#define ALWAYS static inline
#else
// Into one function a format, where the lanes are registers; the plain loops are left to the compiler's own judgement.
#if defined(FM_LANES_AVX512) || defined(FM_LANES_AVX2)
#define ALWAYS static inline __attribute__((always_inline))
#else
#define ALWAYS static inline
#endif
#endif

// What a code can stand for: whole numbers lo..hi, or the table of iq4.
typedef struct {
    int lo, hi;
    bool table;
} grid;

static const float greatest = 0x1.fffffep127f;

static inline float clamp_to(float x, float lo, float hi)
{
    return x > lo ? (x < hi ? x : hi) : lo;
} // NaN: lo

// The nearest value of the grid.
ALWAYS lanes snap(grid g, lanes t)
{
    if (g.table)
        return lanes_iq4(t);
    return lanes_rint(lanes_min(lanes_max(t, lanes_all((float)g.lo)), lanes_all((float)g.hi)));
}

// The least and the greatest of n values (a multiple of 16), no minus zero.
ALWAYS void group_range(int n, const float *x, float *min, float *max)
{
    lanes lo = lanes_load(x), hi = lo;
    for (int j = 16; j < n; j += 16) {
        lo = lanes_min(lanes_load(x + j), lo);
        hi = lanes_max(lanes_load(x + j), hi);
    }
    *min = lanes_least(lo) + 0.0f;
    *max = lanes_most(hi) + 0.0f;
}

enum { MAX_BASES = 32 };

// x ~ scale * q for each of n_groups groups of n. Candidates: inverse scales base / extreme, each followed by the
// least-squares scale of its codes. The scale of the best; 0 for a group too small to tell from zero. Each step takes
// all groups before the next step begins: the ends of a step are long chains, which the processor overlaps where group
// follows group, but not across the sums.
ALWAYS void fit_scales(int n_groups, int n, grid g, int n_bases, const float *bases, const float *x, const float *w,
                       bool weighted, float *scale)
{
    float inverse_extreme[16];
    lanes sum_qx[16][MAX_BASES / 16], sum_qq[16][MAX_BASES / 16];
    for (int i = 0; i < n_groups; i++) {
        float min, max;
        group_range(n, x + i * n, &min, &max);
        inverse_extreme[i] = max > 1e-20f || min < -1e-20f ? 1 / (max >= -min ? max : min) : 0;
    }
    for (int i = 0; i < n_groups; i++)
        for (int k = 0; k < n_bases; k += 16) {
            lanes inverse = lanes_mul(lanes_load(bases + k), lanes_all(inverse_extreme[i]));
            lanes qx = lanes_all(0), qq = lanes_all(0);
            for (int j = i * n; j < (i + 1) * n; j++) {
                lanes xj = lanes_all(x[j]), q = snap(g, lanes_mul(xj, inverse));
                lanes wq = weighted ? lanes_mul(lanes_all(w[j]), q) : q;
                qx = lanes_add(qx, lanes_mul(wq, xj));
                qq = weighted ? lanes_add(qq, lanes_mul(wq, q)) : lanes_add_whole(qq, q, q);
            }
            sum_qx[i][k / 16] = qx;
            sum_qq[i][k / 16] = qq;
        }
    for (int i = 0; i < n_groups; i++) {
        float best_loss = 0, best = 0;
        for (int k = 0; k < n_bases / 16 && inverse_extreme[i] != 0; k++) {
            lanes qx = sum_qx[i][k], qq = sum_qq[i][k];
            lanes s = lanes_if_greater(qq, lanes_all(0), lanes_div(qx, qq), lanes_all(0));
            float loss;
            lanes losses = lanes_sub(lanes_all(0), lanes_mul(s, qx));
            int lane = lanes_first_least(lanes_min(losses, lanes_all(greatest)), &loss);
            best = loss < best_loss ? lanes_at(s, lane) : best;
            best_loss = loss < best_loss ? loss : best_loss;
        }
        scale[i] = best;
    }
}

// What a value is multiplied by, 0 where the scale is none.
ALWAYS lanes scale_inverses(lanes scale)
{
    lanes magnitude = lanes_max(scale, lanes_sub(lanes_all(0), scale));
    return lanes_if_greater(magnitude, lanes_all(1e-30f), lanes_div(lanes_all(1), scale), lanes_all(0));
}

// The squared error of each lane's scale, every value given its nearest code.
ALWAYS lanes scale_errors(int n, grid g, lanes scale, lanes inverse, const float *x, const float *w, bool weighted)
{
    lanes sum = lanes_all(0);
    for (int j = 0; j < n; j++) {
        lanes xj = lanes_all(x[j]), q = snap(g, lanes_mul(xj, inverse));
        lanes e = lanes_sub(lanes_mul(scale, q), xj), ee = lanes_mul(e, e);
        sum = lanes_add(sum, weighted ? lanes_mul(lanes_all(w[j]), ee) : ee);
    }
    return lanes_min(sum, lanes_all(greatest));
}

// The nearest codes of sixteen values for a settled scale's inverse, as grid values.
ALWAYS lanes scale_codes(grid g, float inverse, const float *x)
{
    return snap(g, lanes_mul(lanes_load(x), lanes_all(inverse)));
}

// One group on its way through fit_lines: what each step leaves for the next.
typedef struct {
    float min, range;
    float sw, su;         // sums of w and of w u
    lanes inverse, start; // of each candidate
    lanes sq, sqq, squ;   // the sums that the least-squares line through (q, u) needs, one candidate a lane
} line_group;

// Puts u = x - min, and w u, where the sums find them, and the candidates: the ends of the grid at low[k] and high[k]
// of the way into the range of the values.
ALWAYS void prepare_line(int n, int hi, const float *low, const float *high, bool signed_offset, const float *x,
                         const float *w, bool weighted, float *u, float *wu, line_group *t)
{
    float min, max;
    group_range(n, x, &min, &max);
    if (!signed_offset && min > 0)
        min = 0;
    t->min = min;
    t->range = max - min;
    lanes sw = lanes_all(0), su = sw, vmin = lanes_all(min), l = lanes_load(low);
    for (int j = 0; j < n; j += 16) {
        lanes uj = lanes_sub(lanes_load(x + j), vmin), wj = weighted ? lanes_load(w + j) : lanes_all(1);
        lanes_store(u + j, uj);
        if (weighted) {
            uj = lanes_mul(wj, uj);
            lanes_store(wu + j, uj);
        }
        sw = lanes_add(sw, wj);
        su = lanes_add(su, uj);
    }
    t->sw = lanes_sum(sw);
    t->su = lanes_sum(su);
    lanes reach = lanes_sub(lanes_sub(lanes_all(1), lanes_load(high)), l);
    t->inverse = lanes_div(lanes_all(t->range > 1e-20f ? (float)hi / t->range : 0), reach);
    t->start = lanes_mul(lanes_mul(l, lanes_all(t->range)), t->inverse);
}

// Codes q = nearest of (u * inverse - start) in 0..hi.
ALWAYS void sum_line(int n, int hi, const float *u, const float *wu, const float *w, bool weighted, line_group *t)
{
    lanes zero = lanes_all(0), top = lanes_all((float)hi), inverse = t->inverse, start = t->start;
    lanes sq = zero, sqq = zero, squ = zero;
    for (int j = 0; j < n; j++) {
        lanes uj = lanes_all(u[j]);
        lanes q = lanes_rint(lanes_min(lanes_max(lanes_sub(lanes_mul(uj, inverse), start), zero), top));
        lanes wq = weighted ? lanes_mul(lanes_all(w[j]), q) : q;
        sq = lanes_add(sq, wq);
        sqq = weighted ? lanes_add(sqq, lanes_mul(wq, q)) : lanes_add_whole(sqq, q, q);
        squ = lanes_add(squ, lanes_mul(q, weighted ? lanes_all(wu[j]) : uj));
    }
    t->sq = sq;
    t->sqq = sqq;
    t->squ = squ;
}

// The least-squares line of each candidate's codes, and the best of them.
ALWAYS void solve_line(int hi, bool signed_offset, const line_group *t, float *scale, float *offset)
{
    lanes sw = lanes_all(t->sw), su = lanes_all(t->su), zero = lanes_all(0), two = lanes_all(2);
    lanes det = lanes_sub(lanes_mul(sw, t->sqq), lanes_mul(t->sq, t->sq));
    lanes s = lanes_div(lanes_sub(lanes_mul(sw, t->squ), lanes_mul(su, t->sq)), det);
    lanes b = lanes_div(lanes_sub(lanes_mul(t->sqq, su), lanes_mul(t->sq, t->squ)), det);
    if (!signed_offset) { // offset = b + min may not be positive: hold it at 0 and fit the scale alone
        lanes most = lanes_all(-t->min);
        lanes held = lanes_div(lanes_sub(t->squ, lanes_mul(most, t->sq)), t->sqq);
        s = lanes_if_greater(b, most, held, s);
        b = lanes_min(b, most);
    }
    // loss = sum (u - s q - b)^2 - sum u^2
    lanes loss = lanes_add(lanes_mul(s, lanes_mul(s, t->sqq)), lanes_mul(b, lanes_mul(b, sw)));
    loss = lanes_add(loss, lanes_mul(two, lanes_mul(s, lanes_sub(lanes_mul(b, t->sq), t->squ))));
    loss = lanes_sub(loss, lanes_mul(two, lanes_mul(b, su)));
    loss = lanes_min(lanes_if_greater(det, zero, loss, zero), lanes_all(greatest));
    float value;
    int lane = lanes_first_least(loss, &value);
    bool gains = value < 0; // else one level is in use, or nothing counts
    *scale = gains ? lanes_at(s, lane) : t->range / (float)hi;
    *offset = gains ? lanes_at(b, lane) + t->min : t->min;
}

// x ~ scale * q + offset, q in 0..hi, for each of n_groups groups of n. Sixteen candidates, each followed by the
// least-squares line through its codes. Sums are of u = x - min, whose mean is small enough for fp32. `signed_offset`
// is false for formats whose offset cannot be positive. In steps as fit_scales.
ALWAYS void fit_lines(int n_groups, int n, int hi, const float *low, const float *high, bool signed_offset,
                      const float *x, const float *w, bool weighted, float *scale, float *offset)
{
    line_group t[16];
    float u[256], wu[256];
    for (int g = 0; g < n_groups; g++)
        prepare_line(n, hi, low, high, signed_offset, x + g * n, weighted ? w + g * n : w, weighted, u + g * n,
                     wu + g * n, &t[g]);
    for (int g = 0; g < n_groups; g++)
        if (t[g].range > 1e-20f)
            sum_line(n, hi, u + g * n, wu + g * n, weighted ? w + g * n : w, weighted, &t[g]);
    for (int g = 0; g < n_groups; g++)
        if (t[g].range > 1e-20f)
            solve_line(hi, signed_offset, &t[g], &scale[g], &offset[g]);
        else {
            scale[g] = 0;
            offset[g] = t[g].min;
        }
}

// What a value less its offset is multiplied by, 0 where the scale is none.
ALWAYS lanes line_inverses(lanes scale)
{
    return lanes_if_greater(scale, lanes_all(1e-30f), lanes_div(lanes_all(1), scale), lanes_all(0));
}

// The squared error of each lane's scale * q - min, every value given its nearest code.
ALWAYS lanes line_errors(int n, int hi, lanes scale, lanes inverse, lanes min, const float *x, const float *w,
                         bool weighted)
{
    lanes zero = lanes_all(0), top = lanes_all((float)hi), sum = zero;
    for (int j = 0; j < n; j++) {
        lanes u = lanes_add(lanes_all(x[j]), min);
        lanes q = lanes_rint(lanes_min(lanes_max(lanes_mul(u, inverse), zero), top));
        lanes e = lanes_sub(lanes_mul(scale, q), u), ee = lanes_mul(e, e);
        sum = lanes_add(sum, weighted ? lanes_mul(lanes_all(w[j]), ee) : ee);
    }
    return lanes_min(sum, lanes_all(greatest));
}

// The nearest codes of sixteen values for a settled scale's inverse and minimum.
ALWAYS lanes line_codes(int hi, float inverse, float min, const float *x)
{
    lanes t = lanes_mul(lanes_add(lanes_load(x), lanes_all(min)), lanes_all(inverse));
    return lanes_rint(lanes_min(lanes_max(t, lanes_all(0)), lanes_all((float)hi)));
}
