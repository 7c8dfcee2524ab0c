// The formats whose encoder searches: q2_k .. q6_k, iq4_nl, iq4_xs, and the small formats under importance weights.
// Included once per instruction set by search_*.c, which name the table (FM_SEARCH_TABLE).
#include "quantize/blocks/lanes.h"
#include "quantize/blocks/search_group.inc.h"
#include "quantize/blocks/search_super.inc.h"

// Values are taken as they are up to 2^30, which no fp16 scale reaches; beyond, and for NaN (taken as 0), a copy is
// encoded in which sums of squares stay finite. Such blocks are counted as overflow by the caller.
static const float *tame(int n, const float *x, float *copy)
{
    uint32_t most = 0;
    for (int j = 0; j < n; j++) {
        uint32_t a = bits_of(x[j]) & 0x7fffffff;
        most = a > most ? a : most;
    }
    if (most <= 0x4e800000)
        return x;
    for (int j = 0; j < n; j++) {
        bool nan = (bits_of(x[j]) & 0x7fffffff) > 0x7f800000;
        copy[j] = nan ? 0 : clamp_to(x[j], -0x1p30f, 0x1p30f);
    }
    return copy;
}

// ---- Which candidates -----------------------------------------------------------------------------------------------
#include "quantize/blocks/candidates.inc.h"

// ---- Lines: q2_k, q4_k, q5_k ----------------------------------------------------------------------------------------

static void pack_q2_k(const super *s, uint8_t *bytes)
{
    fm_block_q2_k *b = (fm_block_q2_k *)bytes;
    write_u16(b->d, s->d);
    write_u16(b->dmin, s->dmin);
    for (int g = 0; g < 16; g++)
        b->scales[g] = (uint8_t)((int)s->sc[g] | (int)s->mn[g] << 4);
    for (int i = 0; i < 64; i++) {
        const int8_t *q = s->q + i / 32 * 128 + i % 32;
        b->qs[i] = (uint8_t)(q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6);
    }
}

static void pack_scales_6(const super *s, uint8_t out[12])
{
    for (int g = 0; g < 4; g++) {
        int sc = (int)s->sc[g + 4], mn = (int)s->mn[g + 4];
        out[g] = (uint8_t)((int)s->sc[g] | sc >> 4 << 6);
        out[g + 4] = (uint8_t)((int)s->mn[g] | mn >> 4 << 6);
        out[g + 8] = (uint8_t)((sc & 15) | (mn & 15) << 4);
    }
}

static void pack_q4_k(const super *s, uint8_t *bytes)
{
    fm_block_q4_k *b = (fm_block_q4_k *)bytes;
    write_u16(b->d, s->d);
    write_u16(b->dmin, s->dmin);
    pack_scales_6(s, b->scales);
    for (int p = 0; p < 4; p++)
        for (int l = 0; l < 32; l++)
            b->qs[32 * p + l] = (uint8_t)(s->q[64 * p + l] | s->q[64 * p + 32 + l] << 4);
}

static void pack_q5_k(const super *s, uint8_t *bytes)
{
    fm_block_q5_k *b = (fm_block_q5_k *)bytes;
    write_u16(b->d, s->d);
    write_u16(b->dmin, s->dmin);
    pack_scales_6(s, b->scales);
    for (int l = 0; l < 32; l++) {
        int high = 0;
        for (int g = 0; g < 8; g++)
            high |= s->q[32 * g + l] >> 4 << g;
        b->qh[l] = (uint8_t)high;
    }
    for (int p = 0; p < 4; p++)
        for (int l = 0; l < 32; l++)
            b->qs[32 * p + l] = (uint8_t)((s->q[64 * p + l] & 15) | (s->q[64 * p + 32 + l] & 15) << 4);
}

// ---- Scales: q3_k, q6_k, iq4_xs -------------------------------------------------------------------------------------

static void pack_q3_k(const super *s, uint8_t *bytes)
{
    fm_block_q3_k *b = (fm_block_q3_k *)bytes;
    memset(b, 0, sizeof *b);
    write_u16(b->d, s->d);
    for (int g = 0; g < 16; g++) {
        int sc = (int)s->sc[g] + 32;
        b->scales[g % 8] |= (uint8_t)((sc & 15) << (g / 8 * 4));
        b->scales[8 + g % 4] |= (uint8_t)(sc >> 4 << (g / 4 * 2));
    }
    for (int i = 0; i < 256; i++) {
        int q = s->q[i] + 4, half = i / 128, k = i / 32 % 4, l = i % 32;
        b->qs[32 * half + l] |= (uint8_t)((q & 3) << (2 * k));
        b->hmask[l] |= (uint8_t)(q >> 2 << (4 * half + k));
    }
}

static void pack_q6_k(const super *s, uint8_t *bytes)
{
    fm_block_q6_k *b = (fm_block_q6_k *)bytes;
    write_u16(b->d, s->d);
    for (int g = 0; g < 16; g++)
        b->scales[g] = (int8_t)s->sc[g];
    for (int half = 0; half < 2; half++)
        for (int l = 0; l < 32; l++) {
            int q[4];
            for (int k = 0; k < 4; k++)
                q[k] = s->q[128 * half + 32 * k + l] + 32;
            b->ql[64 * half + l] = (uint8_t)((q[0] & 15) | (q[2] & 15) << 4);
            b->ql[64 * half + 32 + l] = (uint8_t)((q[1] & 15) | (q[3] & 15) << 4);
            b->qh[32 * half + l] = (uint8_t)(q[0] >> 4 | q[1] >> 4 << 2 | q[2] >> 4 << 4 | q[3] >> 4 << 6);
        }
}

// The index of a table value: the table's reverse, filled in at compile time.
#define REVERSE(v, i) [(v) + 128] = i
static const uint8_t iq4_reverse[256] = {
    REVERSE(-127, 0), REVERSE(-104, 1), REVERSE(-83, 2), REVERSE(-65, 3),  REVERSE(-49, 4), REVERSE(-35, 5),
    REVERSE(-22, 6),  REVERSE(-10, 7),  REVERSE(1, 8),   REVERSE(13, 9),   REVERSE(25, 10), REVERSE(38, 11),
    REVERSE(53, 12),  REVERSE(69, 13),  REVERSE(89, 14), REVERSE(113, 15),
};
#undef REVERSE

static int iq4_index(int8_t v)
{
    return iq4_reverse[v + 128];
}

static void pack_iq4_xs(const super *s, uint8_t *bytes)
{
    fm_block_iq4_xs *b = (fm_block_iq4_xs *)bytes;
    int high = 0;
    memset(b, 0, sizeof *b);
    write_u16(b->d, s->d);
    for (int g = 0; g < 8; g++) {
        int sc = (int)s->sc[g] + 32;
        b->scales_l[g / 2] |= (uint8_t)((sc & 15) << (g % 2 * 4));
        high |= sc >> 4 << (2 * g);
        for (int j = 0; j < 16; j++)
            b->qs[16 * g + j] = (uint8_t)(iq4_index(s->q[32 * g + j]) | iq4_index(s->q[32 * g + 16 + j]) << 4);
    }
    write_u16(b->scales_h, (uint16_t)high);
}

// One encoder a format: with weights and without, so that the latter multiplies by nothing.
#define FM_SUPER_ENCODER(name, search_of)                                                        \
    static void encode_##name(size_t n_blocks, const float *restrict x, const float *restrict w, \
                              uint8_t *restrict out)                                             \
    {                                                                                            \
        float copy[256];                                                                         \
        super s;                                                                                 \
        for (size_t i = 0; i < n_blocks; i++) {                                                  \
            const float *xi = tame(256, x + 256 * i, copy);                                      \
            if (w)                                                                               \
                search_of(xi, w + 256 * i, true, &s);                                            \
            else                                                                                 \
                search_of(xi, NULL, false, &s);                                                  \
            pack_##name(&s, out + sizeof(fm_block_##name) * i);                                  \
        }                                                                                        \
    }
FM_SUPER_ENCODER(q2_k, search_q2_k)
FM_SUPER_ENCODER(q3_k, search_q3_k)
FM_SUPER_ENCODER(q4_k, search_q4_k)
FM_SUPER_ENCODER(q5_k, search_q5_k)
FM_SUPER_ENCODER(q6_k, search_q6_k)
FM_SUPER_ENCODER(iq4_xs, search_iq4_xs)

// ---- One scale a block: iq4_nl; q4_0 and q5_0 under weights -----------------------------------------------------------

// The stored scale and the grid values of 32. The scale found for the group is tried among sixteen neighbours as the
// decoder will see them.
ALWAYS uint16_t search_one_scale(grid gr, int n_bases, const float *bases, const float *x, const float *w,
                                 bool weighted, int8_t *q)
{
    float s, tries[16], error;
    fit_scales(1, 32, gr, n_bases, bases, x, w, weighted, &s);
    uint16_t stored[16];
    bool constant = true;
    for (int j = 1; j < 32; j++)
        constant &= x[j] == x[0];
    for (int l = 0; l < 16; l++) { // of one value every code is exact, and the stored scale's rounding decides
        float code = gr.table ? iq4_values[l] : (float)(l < 8 ? gr.lo + l : gr.hi - 15 + l);
        stored[l] = stored_scale(constant ? (code != 0 ? x[0] / code : 0) : s * scale_nudges[l]);
        tries[l] = half_to_float(stored[l]);
    }
    lanes scales = lanes_load(tries), inverses = scale_inverses(scales);
    int lane = lanes_first_least(scale_errors(32, gr, scales, inverses, x, w, weighted), &error);
    float inverse = lanes_at(inverses, lane);
    for (int j = 0; j < 32; j += 16)
        lanes_store_i8(q + j, scale_codes(gr, inverse, x + j));
    return stored[lane];
}

static void encode_iq4_nl(size_t n_blocks, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    float copy[32];
    int8_t q[32];
    fm_block_iq4_nl *b = (fm_block_iq4_nl *)out;
    for (size_t i = 0; i < n_blocks; i++) {
        const float *xi = tame(32, x + 32 * i, copy);
        write_u16(b[i].d, w ? search_one_scale(GRID_IQ4, N_IQ4, bases_iq4, xi, w + 32 * i, true, q)
                            : search_one_scale(GRID_IQ4, N_IQ4, bases_iq4, xi, NULL, false, q));
        for (int j = 0; j < 16; j++)
            b[i].qs[j] = (uint8_t)(iq4_index(q[j]) | iq4_index(q[j + 16]) << 4);
    }
}

static void weighted_q4_0(size_t n_blocks, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    float copy[32];
    int8_t q[32];
    fm_block_q4_0 *b = (fm_block_q4_0 *)out;
    for (size_t i = 0; i < n_blocks; i++) {
        const float *xi = tame(32, x + 32 * i, copy);
        write_u16(b[i].d, search_one_scale(GRID_Q4_0, N_Q4_0, bases_q4_0, xi, w + 32 * i, true, q));
        for (int j = 0; j < 16; j++)
            b[i].qs[j] = (uint8_t)((q[j] + 8) | (q[j + 16] + 8) << 4);
    }
}

static void weighted_q5_0(size_t n_blocks, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    float copy[32];
    int8_t q[32];
    fm_block_q5_0 *b = (fm_block_q5_0 *)out;
    for (size_t i = 0; i < n_blocks; i++) {
        const float *xi = tame(32, x + 32 * i, copy);
        uint32_t high = 0;
        write_u16(b[i].d, search_one_scale(GRID_Q5_0, N_Q5_0, bases_q5_0, xi, w + 32 * i, true, q));
        for (int j = 0; j < 16; j++) {
            unsigned a = (unsigned)(q[j] + 16), c = (unsigned)(q[j + 16] + 16);
            b[i].qs[j] = (uint8_t)((a & 15) | (c & 15) << 4);
            high |= a >> 4 << j | c >> 4 << (j + 16);
        }
        write_u32(b[i].qh, high);
    }
}

// ---- A scale and an offset a block: q4_1 and q5_1 under weights -------------------------------------------------------

typedef struct {
    uint16_t d, m;
    int8_t q[32];
} line;

ALWAYS void search_one_line(int hi, const float *low, const float *high, const float *x, const float *w, line *b)
{
    float s, offset, scales[16], mins[16], error;
    uint16_t d[16], m[16];
    fit_lines(1, 32, hi, low, high, true, x, w, true, &s, &offset);
    for (int l = 0; l < 16; l++) {
        float ds = s * line_nudges[l][0];
        d[l] = stored_scale(ds);
        m[l] = stored_scale(offset + s * line_nudges[l][1]);
        scales[l] = half_to_float(d[l]);
        mins[l] = -half_to_float(m[l]);
    }
    lanes inverses = line_inverses(lanes_load(scales));
    int lane =
        lanes_first_least(line_errors(32, hi, lanes_load(scales), inverses, lanes_load(mins), x, w, true), &error);
    b->d = d[lane];
    b->m = m[lane];
    float inverse = lanes_at(inverses, lane);
    for (int j = 0; j < 32; j += 16)
        lanes_store_i8(b->q + j, line_codes(hi, inverse, mins[lane], x + j));
}

static void weighted_q4_1(size_t n_blocks, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    float copy[32];
    line r;
    fm_block_q4_1 *b = (fm_block_q4_1 *)out;
    for (size_t i = 0; i < n_blocks; i++) {
        search_one_line(15, low_q4, high_q4, tame(32, x + 32 * i, copy), w + 32 * i, &r);
        write_u16(b[i].d, r.d);
        write_u16(b[i].m, r.m);
        for (int j = 0; j < 16; j++)
            b[i].qs[j] = (uint8_t)(r.q[j] | r.q[j + 16] << 4);
    }
}

static void weighted_q5_1(size_t n_blocks, const float *restrict x, const float *restrict w, uint8_t *restrict out)
{
    float copy[32];
    line r;
    fm_block_q5_1 *b = (fm_block_q5_1 *)out;
    for (size_t i = 0; i < n_blocks; i++) {
        uint32_t high = 0;
        search_one_line(31, low_q5, high_q5, tame(32, x + 32 * i, copy), w + 32 * i, &r);
        write_u16(b[i].d, r.d);
        write_u16(b[i].m, r.m);
        for (int j = 0; j < 16; j++) {
            unsigned a = (unsigned)r.q[j], c = (unsigned)r.q[j + 16];
            b[i].qs[j] = (uint8_t)((a & 15) | (c & 15) << 4);
            high |= a >> 4 << j | c >> 4 << (j + 16);
        }
        write_u32(b[i].qh, high);
    }
}

fm_block_encoder *const FM_SEARCH_TABLE[FM_BLOCK_N] = {
    [FM_BLOCK_Q2_K] = encode_q2_k,     [FM_BLOCK_Q3_K] = encode_q3_k,   [FM_BLOCK_Q4_K] = encode_q4_k,
    [FM_BLOCK_Q5_K] = encode_q5_k,     [FM_BLOCK_Q6_K] = encode_q6_k,   [FM_BLOCK_IQ4_NL] = encode_iq4_nl,
    [FM_BLOCK_IQ4_XS] = encode_iq4_xs, [FM_BLOCK_Q4_0] = weighted_q4_0, [FM_BLOCK_Q4_1] = weighted_q4_1,
    [FM_BLOCK_Q5_0] = weighted_q5_0,   [FM_BLOCK_Q5_1] = weighted_q5_1,
};
