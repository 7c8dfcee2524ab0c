// The searches over one group of values: which scale (and offset) costs the least squared error. Included once per
// instruction set, after lanes.h. Sixteen candidates go through the group's values side by side, so each candidate's
// sums run in the order of the values, whatever the instruction set.
#include <stdbool.h>
#include "quantize/blocks/half.h"
#include "quantize/blocks/kernels.h"

#define ALWAYS static inline __attribute__((always_inline))

// What a code can stand for: whole numbers lo..hi, or the table of iq4.
typedef struct {
    int lo, hi;
    bool table;
} grid;

static inline float clamp_to(float x, float lo, float hi)
{
    return x > lo ? (x < hi ? x : hi) : lo;
} // NaN: lo

// The nearest value of the grid. Between two values of the table the midpoint belongs to the lower.
ALWAYS lanes snap(grid g, lanes t)
{
    if (!g.table)
        return lanes_rint(lanes_min(lanes_max(t, lanes_all((float)g.lo)), lanes_all((float)g.hi)));
    lanes v = lanes_all(iq4_values[0]);
    for (int i = 1; i < 16; i++)
        v = lanes_if_greater(t, lanes_all(0.5f * (float)(iq4_values[i - 1] + iq4_values[i])), lanes_all(iq4_values[i]),
                             v);
    return v;
}

// The lane with the smallest value; the first of equals, so that lane 0 is what happens when nothing is better.
static inline int least_lane(lanes a, float *value)
{
    float f[16];
    int best = 0;
    lanes_store(f, a);
    for (int l = 1; l < 16; l++)
        if (f[l] < f[best])
            best = l;
    *value = f[best];
    return best;
}

static inline float lane_of(lanes a, int lane)
{
    float f[16];
    lanes_store(f, a);
    return f[lane];
}

// x ~ scale * q. Candidates: inverse scales base / extreme, each followed by the least-squares scale of its codes.
// Returns the scale of the best; 0 for a group too small to tell from zero.
ALWAYS float fit_scale(int n, grid g, int n_bases, const float *bases, const float *x, const float *w, bool weighted)
{
    float most = 0, extreme = 0;
    for (int j = 0; j < n; j++) {
        float a = float_of(bits_of(x[j]) & 0x7fffffff);
        extreme = a > most ? x[j] : extreme;
        most = a > most ? a : most;
    }
    if (!(most > 1e-20f))
        return 0;
    float best_loss = 0, best = 0;
    for (int k = 0; k < n_bases; k += 16) {
        lanes inverse = lanes_mul(lanes_load(bases + k), lanes_all(1 / extreme));
        lanes qx = lanes_all(0), qq = lanes_all(0);
        for (int j = 0; j < n; j++) {
            lanes xj = lanes_all(x[j]), q = snap(g, lanes_mul(xj, inverse));
            lanes wq = weighted ? lanes_mul(lanes_all(w[j]), q) : q;
            qx = lanes_add(qx, lanes_mul(wq, xj));
            qq = lanes_add(qq, lanes_mul(wq, q));
        }
        lanes scale = lanes_if_greater(qq, lanes_all(0), lanes_div(qx, qq), lanes_all(0));
        float loss;
        int lane = least_lane(lanes_sub(lanes_all(0), lanes_mul(scale, qx)), &loss);
        if (loss < best_loss) {
            best_loss = loss;
            best = lane_of(scale, lane);
        }
    }
    return best;
}

// The squared error of each lane's scale, every value given its nearest code; the decoder's own arithmetic.
ALWAYS lanes scale_errors(int n, grid g, lanes scale, const float *x, const float *w, bool weighted)
{
    lanes magnitude = lanes_max(scale, lanes_sub(lanes_all(0), scale));
    lanes inverse = lanes_if_greater(magnitude, lanes_all(1e-30f), lanes_div(lanes_all(1), scale), lanes_all(0));
    lanes sum = lanes_all(0);
    for (int j = 0; j < n; j++) {
        lanes xj = lanes_all(x[j]), q = snap(g, lanes_mul(xj, inverse));
        lanes e = lanes_sub(lanes_mul(scale, q), xj), ee = lanes_mul(e, e);
        sum = lanes_add(sum, weighted ? lanes_mul(lanes_all(w[j]), ee) : ee);
    }
    return sum;
}

// Each value's code for a settled scale, as grid values (not indices). n is a multiple of 16.
ALWAYS void scale_codes(int n, grid g, float scale, const float *x, float *q)
{
    float a = float_of(bits_of(scale) & 0x7fffffff), inverse = a > 1e-30f ? 1 / scale : 0;
    for (int j = 0; j < n; j += 16)
        lanes_store(q + j, snap(g, lanes_mul(lanes_load(x + j), lanes_all(inverse))));
}

// x ~ scale * q + offset, q in 0..hi. Candidates: the ends of the grid at low[k] and high[k] of the way into the range
// of the values, each followed by the least-squares line through its codes. Sums are of u = x - min, whose mean is
// small enough for fp32. `signed_offset` is false for formats whose offset cannot be positive.
ALWAYS void fit_line(int n, int hi, int n_ends, const float *low, const float *high, bool signed_offset, const float *x,
                     const float *w, bool weighted, float *scale_out, float *offset_out)
{
    float min = x[0], max = x[0];
    for (int j = 1; j < n; j++) {
        min = x[j] < min ? x[j] : min;
        max = x[j] > max ? x[j] : max;
    }
    if (!signed_offset && min > 0)
        min = 0;
    float range = max - min, best_loss = 0;
    *scale_out = 0;
    *offset_out = min;
    if (!(range > 1e-20f))
        return;
    for (int k = 0; k < n_ends; k += 16) {
        lanes l = lanes_mul(lanes_load(low + k), lanes_all(range)),
              h = lanes_mul(lanes_load(high + k), lanes_all(range));
        lanes inverse = lanes_div(lanes_all((float)hi), lanes_sub(lanes_sub(lanes_all(range), h), l));
        lanes zero = lanes_all(0), top = lanes_all((float)hi), vmin = lanes_all(min);
        lanes sw = zero, su = zero, sq = zero, sqq = zero, squ = zero;
        for (int j = 0; j < n; j++) {
            lanes u = lanes_sub(lanes_all(x[j]), vmin);
            lanes q = lanes_rint(lanes_min(lanes_max(lanes_mul(lanes_sub(u, l), inverse), zero), top));
            if (weighted) {
                lanes wj = lanes_all(w[j]), wq = lanes_mul(wj, q);
                sw = lanes_add(sw, wj);
                su = lanes_add(su, lanes_mul(wj, u));
                sq = lanes_add(sq, wq);
                sqq = lanes_add(sqq, lanes_mul(wq, q));
                squ = lanes_add(squ, lanes_mul(wq, u));
            } else {
                su = lanes_add(su, u);
                sq = lanes_add(sq, q);
                sqq = lanes_add(sqq, lanes_mul(q, q));
                squ = lanes_add(squ, lanes_mul(q, u));
            }
        }
        if (!weighted)
            sw = lanes_all((float)n);
        lanes det = lanes_sub(lanes_mul(sw, sqq), lanes_mul(sq, sq));
        lanes s = lanes_div(lanes_sub(lanes_mul(sw, squ), lanes_mul(su, sq)), det);
        lanes b = lanes_div(lanes_sub(lanes_mul(sqq, su), lanes_mul(sq, squ)), det);
        if (!signed_offset) { // offset = b + min may not be positive: hold it at 0 and fit the scale alone
            lanes most = lanes_sub(zero, vmin);
            lanes held = lanes_div(lanes_sub(squ, lanes_mul(most, sq)), sqq);
            s = lanes_if_greater(b, most, held, s);
            b = lanes_if_greater(b, most, most, b);
        }
        // loss = sum (u - s q - b)^2 - sum u^2
        lanes loss = lanes_add(lanes_mul(s, lanes_mul(s, sqq)), lanes_mul(b, lanes_mul(b, sw)));
        loss = lanes_add(loss, lanes_mul(lanes_all(2), lanes_mul(s, lanes_sub(lanes_mul(b, sq), squ))));
        loss = lanes_sub(loss, lanes_mul(lanes_all(2), lanes_mul(b, su)));
        loss = lanes_if_greater(det, zero, loss, zero);
        float value;
        int lane = least_lane(loss, &value);
        if (value < best_loss) {
            best_loss = value;
            *scale_out = lane_of(s, lane);
            *offset_out = lane_of(b, lane) + min;
        }
    }
    if (!(best_loss < 0)) { // one level is in use, or nothing counts: the plain grid over the range
        *scale_out = range / (float)hi;
        *offset_out = min;
    }
}

// The squared error of each lane's scale * q - min.
ALWAYS lanes line_errors(int n, int hi, lanes scale, lanes min, const float *x, const float *w, bool weighted)
{
    lanes zero = lanes_all(0), top = lanes_all((float)hi), sum = zero;
    lanes inverse = lanes_if_greater(scale, lanes_all(1e-30f), lanes_div(lanes_all(1), scale), zero);
    for (int j = 0; j < n; j++) {
        lanes xj = lanes_all(x[j]);
        lanes q = lanes_rint(lanes_min(lanes_max(lanes_mul(lanes_add(xj, min), inverse), zero), top));
        lanes e = lanes_sub(lanes_sub(lanes_mul(scale, q), min), xj), ee = lanes_mul(e, e);
        sum = lanes_add(sum, weighted ? lanes_mul(lanes_all(w[j]), ee) : ee);
    }
    return sum;
}

ALWAYS void line_codes(int n, int hi, float scale, float min, const float *x, float *q)
{
    float inverse = scale > 1e-30f ? 1 / scale : 0;
    for (int j = 0; j < n; j += 16) {
        lanes t = lanes_mul(lanes_add(lanes_load(x + j), lanes_all(min)), lanes_all(inverse));
        lanes_store(q + j, lanes_rint(lanes_min(lanes_max(t, lanes_all(0)), lanes_all((float)hi))));
    }
}
