// The searches over a super-block of 256: each group's scale, then the scale of the scales, then the group's again for
// the scale as it will be stored, then the stored scale by least squares, kept when the error falls. Included once per
// instruction set, after search_group.inc.h.

// A scale as it is stored; past fp16's range it is held at the greatest finite value (and counted by the caller).
static uint16_t stored_scale(float d)
{
    return half_from_float(clamp_to(d, -65504.0f, 65504.0f) + 0.0f); // + 0: no minus zero
}

// One coded super-block: grid values, group scales as integers.
typedef struct {
    uint16_t d, dmin;
    float error;
    float sc[16], mn[16];
    float q[256];
} super;

enum { MAX_ROUNDS = 3 };

// Chooses sc (and mn) of every group and the codes for stored d (and dmin). `want_*`: the unrounded wishes.
ALWAYS void settle_lines(int n_groups, int n, int hi, float sc_max, const float *want_s, const float *want_m,
                         const float *sc_step, const float *mn_step, const float *x, const float *w, bool weighted,
                         super *b)
{
    float d = half_to_float(b->d), dmin = half_to_float(b->dmin);
    float inverse_d = d > 0 ? 1 / d : 0, inverse_m = dmin > 0 ? 1 / dmin : 0;
    b->error = 0;
    for (int g = 0; g < n_groups; g++) {
        const float *xg = x + g * n, *wg = weighted ? w + g * n : w;
        lanes zero = lanes_all(0), top = lanes_all(sc_max);
        lanes sc = lanes_all(clamp_to(want_s[g] * inverse_d, 0, sc_max));
        lanes mn = lanes_all(clamp_to(want_m[g] * inverse_m, 0, sc_max));
        sc = lanes_min(lanes_max(lanes_add(lanes_rint(sc), lanes_load(sc_step)), zero), top);
        mn = lanes_min(lanes_max(lanes_add(lanes_rint(mn), lanes_load(mn_step)), zero), top);
        lanes scale = lanes_mul(lanes_all(d), sc), min = lanes_mul(lanes_all(dmin), mn);
        float error;
        int lane = least_lane(line_errors(n, hi, scale, min, xg, wg, weighted), &error);
        b->error += error;
        b->sc[g] = lane_of(sc, lane);
        b->mn[g] = lane_of(mn, lane);
        line_codes(n, hi, d * b->sc[g], dmin * b->mn[g], xg, b->q + g * n);
    }
}

// The d and dmin that fit the settled codes best: normal equations of x ~ d * (sc q) - dmin * mn, in fp64.
ALWAYS void refit_lines(int n_groups, int n, const float *x, const float *w, bool weighted, const super *b, float *d,
                        float *dmin)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int g = 0; g < n_groups; g++) {
        lanes qq = lanes_all(0), q = qq, qx = qq, sx = qq, sw = qq;
        for (int j = g * n; j < (g + 1) * n; j += 16) {
            lanes xj = lanes_load(x + j), qj = lanes_load(b->q + j);
            lanes wj = weighted ? lanes_load(w + j) : lanes_all(1), wq = lanes_mul(wj, qj);
            qq = lanes_add(qq, lanes_mul(wq, qj));
            q = lanes_add(q, wq);
            qx = lanes_add(qx, lanes_mul(wq, xj));
            sx = lanes_add(sx, lanes_mul(wj, xj));
            sw = lanes_add(sw, wj);
        }
        float f[5][16];
        lanes_store(f[0], qq), lanes_store(f[1], q), lanes_store(f[2], qx), lanes_store(f[3], sx),
            lanes_store(f[4], sw);
        for (int h = 8; h; h /= 2)
            for (int i = 0; i < 5; i++)
                for (int l = 0; l < h; l++)
                    f[i][l] += f[i][l + h];
        double sc = b->sc[g], mn = b->mn[g];
        aa += sc * sc * (double)f[0][0];
        ab += sc * mn * (double)f[1][0];
        bb += mn * mn * (double)f[4][0];
        ax += sc * (double)f[2][0];
        bx += mn * (double)f[3][0];
    }
    double det = aa * bb - ab * ab;
    if (bb > 0 && det > 1e-12 * aa * bb) {
        *d = (float)((ax * bb - bx * ab) / det);
        *dmin = (float)((ax * ab - bx * aa) / det);
        if (*dmin >= 0)
            return;
    }
    *dmin = half_to_float(b->dmin);
    *d = aa > 0 ? (float)((ax + (double)*dmin * ab) / aa) : 0;
}

// n_groups groups of n values as (d * sc) * q - (dmin * mn).
ALWAYS void search_lines(int n_groups, int n, int hi, float sc_max, int n_ends, const float *low, const float *high,
                         const float *sc_step, const float *mn_step, const float *x, const float *w, bool weighted,
                         super *best)
{
    float s[16], m[16], most_s = 0, most_m = 0;
    for (int g = 0; g < n_groups; g++) {
        float offset;
        fit_line(n, hi, n_ends, low, high, false, x + g * n, weighted ? w + g * n : w, weighted, &s[g], &offset);
        m[g] = offset < 0 ? -offset : 0;
        most_s = s[g] > most_s ? s[g] : most_s;
        most_m = m[g] > most_m ? m[g] : most_m;
    }
    super trial;
    best->d = stored_scale(most_s / sc_max);
    best->dmin = stored_scale(most_m / sc_max);
    settle_lines(n_groups, n, hi, sc_max, s, m, sc_step, mn_step, x, w, weighted, best);
    for (int round = 0; round < MAX_ROUNDS; round++) {
        float d, dmin;
        refit_lines(n_groups, n, x, w, weighted, best, &d, &dmin);
        trial.d = stored_scale(clamp_to(d, 0, 65504));
        trial.dmin = stored_scale(clamp_to(dmin, 0, 65504));
        if (trial.d == best->d && trial.dmin == best->dmin)
            break;
        settle_lines(n_groups, n, hi, sc_max, s, m, sc_step, mn_step, x, w, weighted, &trial);
        if (!(trial.error < best->error))
            break;
        *best = trial;
    }
}

// The same for (d * sc) * q with a signed sc in sc_min..sc_max.
ALWAYS void settle_scales(int n_groups, int n, grid gr, float sc_min, float sc_max, const float *want,
                          const float *sc_step, const float *x, const float *w, bool weighted, super *b)
{
    float d = half_to_float(b->d), inverse_d = d != 0 ? 1 / d : 0;
    b->error = 0;
    for (int g = 0; g < n_groups; g++) {
        const float *xg = x + g * n, *wg = weighted ? w + g * n : w;
        lanes sc = lanes_all(clamp_to(want[g] * inverse_d, sc_min, sc_max));
        sc = lanes_add(lanes_rint(sc), lanes_load(sc_step));
        sc = lanes_min(lanes_max(sc, lanes_all(sc_min)), lanes_all(sc_max));
        float error;
        int lane = least_lane(scale_errors(n, gr, lanes_mul(lanes_all(d), sc), xg, wg, weighted), &error);
        b->error += error;
        b->sc[g] = lane_of(sc, lane);
        scale_codes(n, gr, d * b->sc[g], xg, b->q + g * n);
    }
}

ALWAYS float refit_scales(int n_groups, int n, const float *x, const float *w, bool weighted, const super *b)
{
    double aa = 0, ax = 0;
    for (int g = 0; g < n_groups; g++) {
        lanes qq = lanes_all(0), qx = qq;
        for (int j = g * n; j < (g + 1) * n; j += 16) {
            lanes qj = lanes_load(b->q + j), wq = weighted ? lanes_mul(lanes_load(w + j), qj) : qj;
            qq = lanes_add(qq, lanes_mul(wq, qj));
            qx = lanes_add(qx, lanes_mul(wq, lanes_load(x + j)));
        }
        float f[2][16];
        lanes_store(f[0], qq), lanes_store(f[1], qx);
        for (int h = 8; h; h /= 2)
            for (int i = 0; i < 2; i++)
                for (int l = 0; l < h; l++)
                    f[i][l] += f[i][l + h];
        double sc = b->sc[g];
        aa += sc * sc * (double)f[0][0];
        ax += sc * (double)f[1][0];
    }
    return aa > 0 ? (float)(ax / aa) : 0;
}

ALWAYS void search_scales(int n_groups, int n, grid gr, float sc_min, float sc_max, int n_bases, const float *bases,
                          const float *sc_step, const float *x, const float *w, bool weighted, super *best)
{
    float s[16], most = 0, extreme = 0;
    for (int g = 0; g < n_groups; g++) {
        s[g] = fit_scale(n, gr, n_bases, bases, x + g * n, weighted ? w + g * n : w, weighted);
        float a = s[g] < 0 ? -s[g] : s[g];
        extreme = a > most ? s[g] : extreme;
        most = a > most ? a : most;
    }
    super trial;
    best->d = stored_scale(extreme / sc_min);
    settle_scales(n_groups, n, gr, sc_min, sc_max, s, sc_step, x, w, weighted, best);
    // Far down among fp16's subnormals one step of d is a percent or more: its neighbours may suit the groups better.
    uint16_t start = best->d;
    for (int step = -2; step <= 2 && (start & 0x7fff) < 128; step++) {
        trial.d = (uint16_t)(start + step);
        if (step == 0 || (start & 0x7fff) + step < 1)
            continue;
        settle_scales(n_groups, n, gr, sc_min, sc_max, s, sc_step, x, w, weighted, &trial);
        if (trial.error < best->error)
            *best = trial;
    }
    for (int round = 0; round < MAX_ROUNDS; round++) {
        trial.d = stored_scale(refit_scales(n_groups, n, x, w, weighted, best));
        if (trial.d == best->d)
            break;
        settle_scales(n_groups, n, gr, sc_min, sc_max, s, sc_step, x, w, weighted, &trial);
        if (!(trial.error < best->error))
            break;
        *best = trial;
    }
}
