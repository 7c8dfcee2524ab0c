// The searches over a super-block of 256: each group's scale, then the scale of the scales by least squares, then each
// group's again as it will be stored, then the stored scale once more. Included once per instruction set, after
// search_group.inc.h.

// A scale as it is stored; past fp16's range it is held at the greatest finite value (and counted by the caller).
static uint16_t stored_scale(float d)
{
    return half_from_float(clamp_to(d, -65504.0f, 65504.0f) + 0.0f); // + 0: no minus zero
}

// One coded super-block: stored scales, group scales and minimums (whole numbers), codes as grid values.
typedef struct {
    uint16_t d, dmin;
    float sc[16], mn[16];
    int8_t q[256];
} super;

// ---- x ~ (d * sc) * q - (dmin * mn) -----------------------------------------------------------------------------------

// The inverse of each group's scale as a decoder will have it, and its minimum.
typedef struct {
    float inverse[16], min[16];
} line_steps;

ALWAYS line_steps steps_of_lines(const super *b)
{
    line_steps r;
    lanes d = lanes_all(half_to_float(b->d)), dmin = lanes_all(half_to_float(b->dmin));
    lanes_store(r.inverse, line_inverses(lanes_mul(d, lanes_load(b->sc))));
    lanes_store(r.min, lanes_mul(dmin, lanes_load(b->mn)));
    return r;
}

// The codes of every group for the scales in b.
ALWAYS void code_lines(int n_groups, int n, int hi, const float *x, super *b)
{
    line_steps t = steps_of_lines(b);
    for (int g = 0; g < n_groups; g++)
        for (int j = g * n; j < (g + 1) * n; j += 16)
            lanes_store_i8(b->q + j, line_codes(hi, t.inverse[g], t.min[g], x + j));
}

// The whole numbers nearest to the sixteen wishes s and m under the stored scales.
ALWAYS void round_lines(float sc_max, const float *s, const float *m, super *b)
{
    float d = half_to_float(b->d), dmin = half_to_float(b->dmin);
    lanes zero = lanes_all(0), top = lanes_all(sc_max);
    lanes sc = lanes_mul(lanes_load(s), lanes_all(d > 0 ? 1 / d : 0));
    lanes mn = lanes_mul(lanes_load(m), lanes_all(dmin > 0 ? 1 / dmin : 0));
    lanes_store(b->sc, lanes_rint(lanes_min(lanes_max(sc, zero), top)));
    lanes_store(b->mn, lanes_rint(lanes_min(lanes_max(mn, zero), top)));
}

// Of the neighbours of each group's rounded sc and mn, the pair with the least error. In steps as fit_lines.
ALWAYS void settle_lines(int n_groups, int n, int hi, float sc_max, const float *sc_step, const float *mn_step,
                         const float *x, const float *w, bool weighted, super *b)
{
    lanes d = lanes_all(half_to_float(b->d)), dmin = lanes_all(half_to_float(b->dmin));
    lanes zero = lanes_all(0), top = lanes_all(sc_max), scale[16], inverse[16], min[16], errors[16];
    for (int g = 0; g < n_groups; g++) {
        lanes sc = lanes_min(lanes_max(lanes_add(lanes_all(b->sc[g]), lanes_load(sc_step)), zero), top);
        lanes mn = lanes_min(lanes_max(lanes_add(lanes_all(b->mn[g]), lanes_load(mn_step)), zero), top);
        scale[g] = lanes_mul(d, sc);
        inverse[g] = line_inverses(scale[g]);
        min[g] = lanes_mul(dmin, mn);
    }
    for (int g = 0; g < n_groups; g++)
        errors[g] = line_errors(n, hi, scale[g], inverse[g], min[g], x + g * n, weighted ? w + g * n : w, weighted);
    for (int g = 0; g < n_groups; g++) {
        float error;
        int lane = lanes_first_least(errors[g], &error);
        b->sc[g] = clamp_to(b->sc[g] + sc_step[lane], 0, sc_max);
        b->mn[g] = clamp_to(b->mn[g] + mn_step[lane], 0, sc_max);
    }
}

// Replaces d and dmin by those that fit the nearest codes under the present ones best, unless rounding them to fp16
// undoes the gain: the normal equations of x ~ d * a - dmin * mn, a = sc * q. Sums of whole numbers stay below 2^24 in
// each lane, but those of a * a only where the greatest a is small.
ALWAYS void refit_lines(int n_groups, int n, int hi, float sc_max, const float *x, const float *w, bool weighted,
                        super *b)
{
    const float most = (float)hi * sc_max;
    const bool small = most * most * 16 < 0x1p24f;
    line_steps t = steps_of_lines(b);
    lanes vaa = lanes_all(0), vab = vaa, vbb = vaa, vax = vaa, vbx = vaa;
    for (int g = 0; g < n_groups; g++) {
        lanes sc = lanes_all(b->sc[g]), mn = lanes_all(b->mn[g]);
        for (int j = g * n; j < (g + 1) * n; j += 16) {
            lanes xj = lanes_load(x + j), a = lanes_mul(sc, line_codes(hi, t.inverse[g], t.min[g], x + j));
            lanes wa = weighted ? lanes_mul(lanes_load(w + j), a) : a;
            lanes wm = weighted ? lanes_mul(lanes_load(w + j), mn) : mn;
            vaa = weighted || !small ? lanes_add(vaa, lanes_mul(wa, a)) : lanes_add_whole(vaa, a, a);
            vab = weighted ? lanes_add(vab, lanes_mul(wa, mn)) : lanes_add_whole(vab, a, mn);
            vbb = weighted ? lanes_add(vbb, lanes_mul(wm, mn)) : lanes_add_whole(vbb, mn, mn);
            vax = lanes_add(vax, lanes_mul(wa, xj));
            vbx = lanes_add(vbx, lanes_mul(wm, xj));
        }
    }
    double aa = (double)lanes_sum(vaa), ab = (double)lanes_sum(vab), bb = (double)lanes_sum(vbb);
    double ax = (double)lanes_sum(vax), bx = (double)lanes_sum(vbx), det = aa * bb - ab * ab;
    double d0 = (double)half_to_float(b->d), m0 = (double)half_to_float(b->dmin);
    float d, dmin = (float)m0;
    if (bb > 0 && det > 1e-6 * aa * bb && ax * ab >= bx * aa) {
        d = (float)((ax * bb - bx * ab) / det);
        dmin = (float)((ax * ab - bx * aa) / det);
    } else if (aa > 0)
        d = (float)((ax + m0 * ab) / aa);
    else
        return;
    uint16_t new_d = stored_scale(clamp_to(d, 0, 65504)), new_m = stored_scale(clamp_to(dmin, 0, 65504));
    double d1 = (double)half_to_float(new_d), m1 = (double)half_to_float(new_m);
    double before = d0 * d0 * aa - 2 * d0 * m0 * ab + m0 * m0 * bb - 2 * d0 * ax + 2 * m0 * bx;
    double after = d1 * d1 * aa - 2 * d1 * m1 * ab + m1 * m1 * bb - 2 * d1 * ax + 2 * m1 * bx;
    if (after < before) {
        b->d = new_d;
        b->dmin = new_m;
    }
}

ALWAYS void search_lines(int n_groups, int n, int hi, float sc_max, const float *low, const float *high,
                         const float *sc_step, const float *mn_step, int n_rounds, const float *x, const float *w,
                         bool weighted, super *b)
{
    float s[16] = {0}, m[16] = {0}, offset[16], most_s = 0, most_m = 0;
    fit_lines(n_groups, n, hi, low, high, false, x, w, weighted, s, offset);
    for (int g = 0; g < n_groups; g++) {
        m[g] = offset[g] < 0 ? -offset[g] : 0;
        most_s = s[g] > most_s ? s[g] : most_s;
        most_m = m[g] > most_m ? m[g] : most_m;
    }
    b->d = stored_scale(most_s / sc_max);
    b->dmin = stored_scale(most_m / sc_max);
    round_lines(sc_max, s, m, b);
    refit_lines(n_groups, n, hi, sc_max, x, w, weighted, b);
    round_lines(sc_max, s, m, b);
    for (int round = 0; round < n_rounds; round++) {
        settle_lines(n_groups, n, hi, sc_max, sc_step, mn_step, x, w, weighted, b);
        refit_lines(n_groups, n, hi, sc_max, x, w, weighted, b);
    }
    code_lines(n_groups, n, hi, x, b);
}

// ---- x ~ (d * sc) * q, sc in sc_min..sc_max ----------------------------------------------------------------------------

ALWAYS void inverses_of_scales(const super *b, float inverse[16])
{
    lanes_store(inverse, scale_inverses(lanes_mul(lanes_all(half_to_float(b->d)), lanes_load(b->sc))));
}

ALWAYS void code_scales(int n_groups, int n, grid gr, const float *x, super *b)
{
    float inverse[16];
    inverses_of_scales(b, inverse);
    for (int g = 0; g < n_groups; g++)
        for (int j = g * n; j < (g + 1) * n; j += 16)
            lanes_store_i8(b->q + j, scale_codes(gr, inverse[g], x + j));
}

// Each group's sc: the best of sixteen around the wish. Returns the error of all. In steps as fit_scales.
ALWAYS float settle_scales(int n_groups, int n, grid gr, float sc_min, float sc_max, const float *want,
                           const float *sc_step, const float *x, const float *w, bool weighted, super *b)
{
    float d = half_to_float(b->d), inverse_d = d != 0 ? 1 / d : 0, sum = 0;
    lanes sc[16], scale[16], inverse[16], errors[16];
    for (int g = 0; g < n_groups; g++) {
        lanes middle = lanes_rint(lanes_all(clamp_to(want[g] * inverse_d, sc_min, sc_max)));
        sc[g] = lanes_min(lanes_max(lanes_add(middle, lanes_load(sc_step)), lanes_all(sc_min)), lanes_all(sc_max));
        scale[g] = lanes_mul(lanes_all(d), sc[g]);
        inverse[g] = scale_inverses(scale[g]);
    }
    for (int g = 0; g < n_groups; g++)
        errors[g] = scale_errors(n, gr, scale[g], inverse[g], x + g * n, weighted ? w + g * n : w, weighted);
    for (int g = 0; g < n_groups; g++) {
        float error;
        int lane = lanes_first_least(errors[g], &error);
        sum += error;
        b->sc[g] = lanes_at(sc[g], lane) + 0.0f;
    }
    return sum;
}

// The d that fits the nearest codes under the present one best. The whole-number sums as in refit_lines.
ALWAYS uint16_t refit_scales(int n_groups, int n, grid gr, float sc_min, const float *x, const float *w, bool weighted,
                             const super *b)
{
    const float most = (float)gr.lo * sc_min;
    const bool small = most * most * 16 < 0x1p24f;
    float inverse[16];
    inverses_of_scales(b, inverse);
    lanes vaa = lanes_all(0), vax = vaa;
    for (int g = 0; g < n_groups; g++) {
        lanes sc = lanes_all(b->sc[g]);
        for (int j = g * n; j < (g + 1) * n; j += 16) {
            lanes a = lanes_mul(sc, scale_codes(gr, inverse[g], x + j));
            lanes wa = weighted ? lanes_mul(lanes_load(w + j), a) : a;
            vaa = weighted || !small ? lanes_add(vaa, lanes_mul(wa, a)) : lanes_add_whole(vaa, a, a);
            vax = lanes_add(vax, lanes_mul(wa, lanes_load(x + j)));
        }
    }
    float aa = lanes_sum(vaa), ax = lanes_sum(vax);
    return aa > 0 ? stored_scale(ax / aa) : b->d;
}

ALWAYS void search_scales(int n_groups, int n, grid gr, float sc_min, float sc_max, int n_bases, const float *bases,
                          const float *sc_step, int n_rounds, const float *x, const float *w, bool weighted, super *b)
{
    float s[16], most = 0, extreme = 0;
    fit_scales(n_groups, n, gr, n_bases, bases, x, w, weighted, s);
    for (int g = 0; g < n_groups; g++) {
        float a = s[g] < 0 ? -s[g] : s[g];
        extreme = a > most ? s[g] : extreme;
        most = a > most ? a : most;
    }
    super trial;
    memset(b->sc, 0, sizeof b->sc); // half of them have no group where groups are of 32
    memset(trial.sc, 0, sizeof trial.sc);
    b->d = stored_scale(extreme / sc_min);
    float error = settle_scales(n_groups, n, gr, sc_min, sc_max, s, sc_step, x, w, weighted, b);
    // The group with the extreme scale may do better with one that is not the end of the range.
    trial.d = stored_scale(extreme / sc_min * 1.04f);
    float wider = settle_scales(n_groups, n, gr, sc_min, sc_max, s, sc_step, x, w, weighted, &trial);
    if (wider < error) {
        error = wider;
        *b = trial;
    }
    // Far down among fp16's subnormals one step of d is a percent or more: its neighbours may suit the groups better.
    uint16_t start = b->d;
    for (int step = -2; step <= 2 && (start & 0x7fff) < 128; step++) {
        if (step == 0 || (start & 0x7fff) + step < 1)
            continue;
        trial.d = (uint16_t)(start + step);
        float e = settle_scales(n_groups, n, gr, sc_min, sc_max, s, sc_step, x, w, weighted, &trial);
        if (e < error) {
            error = e;
            *b = trial;
        }
    }
    for (int round = 0; round < n_rounds; round++) {
        trial.d = refit_scales(n_groups, n, gr, sc_min, x, w, weighted, b);
        if (trial.d == b->d)
            break;
        float e = settle_scales(n_groups, n, gr, sc_min, sc_max, s, sc_step, x, w, weighted, &trial);
        if (!(e < error))
            break;
        error = e;
        *b = trial;
    }
    code_scales(n_groups, n, gr, x, b);
}
