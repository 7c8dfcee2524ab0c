// Decoding of every block format, in plain loops. Included once per instruction set by decode_*.c, which name the
// table (FM_DECODE_TABLE; none when they make their own); the compiler vectorises the loops, and without contraction the
// results cannot differ.
// The order of operations is ggml's: scale times minimum first, then code times scale minus it.
#include "quantize/blocks/half.h"
#include "quantize/blocks/kernels.h"

#define UNUSED __attribute__((unused)) // where a hand-written one takes its place

UNUSED static void decode_f16(size_t n_blocks, const uint8_t *restrict b, float *restrict y)
{
    for (size_t i = 0; i < n_blocks; i++)
        y[i] = read_half(b + 2 * i);
}

UNUSED static void decode_bf16(size_t n_blocks, const uint8_t *restrict b, float *restrict y)
{
    for (size_t i = 0; i < n_blocks; i++)
        y[i] = float_of((uint32_t)read_u16(b + 2 * i) << 16);
}

UNUSED static void decode_q8_0(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q8_0 *b = (const fm_block_q8_0 *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 32) {
        float d = read_half(b[i].d);
        for (int j = 0; j < 32; j++)
            y[j] = (float)b[i].qs[j] * d;
    }
}

UNUSED static void decode_q4_0(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q4_0 *b = (const fm_block_q4_0 *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 32) {
        float d = read_half(b[i].d);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((b[i].qs[j] & 15) - 8) * d;
            y[j + 16] = (float)((b[i].qs[j] >> 4) - 8) * d;
        }
    }
}

UNUSED static void decode_q4_1(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q4_1 *b = (const fm_block_q4_1 *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 32) {
        float d = read_half(b[i].d), m = read_half(b[i].m);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)(b[i].qs[j] & 15) * d + m;
            y[j + 16] = (float)(b[i].qs[j] >> 4) * d + m;
        }
    }
}

UNUSED static void decode_q5_0(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q5_0 *b = (const fm_block_q5_0 *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 32) {
        float d = read_half(b[i].d);
        uint32_t qh = read_u32(b[i].qh);
        for (int j = 0; j < 16; j++) {
            int low = (b[i].qs[j] & 15) | (int)(qh >> j << 4 & 16);
            int high = b[i].qs[j] >> 4 | (int)(qh >> (j + 16) << 4 & 16);
            y[j] = (float)(low - 16) * d;
            y[j + 16] = (float)(high - 16) * d;
        }
    }
}

UNUSED static void decode_q5_1(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q5_1 *b = (const fm_block_q5_1 *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 32) {
        float d = read_half(b[i].d), m = read_half(b[i].m);
        uint32_t qh = read_u32(b[i].qh);
        for (int j = 0; j < 16; j++) {
            int low = (b[i].qs[j] & 15) | (int)(qh >> j << 4 & 16);
            int high = b[i].qs[j] >> 4 | (int)(qh >> (j + 16) << 4 & 16);
            y[j] = (float)low * d + m;
            y[j + 16] = (float)high * d + m;
        }
    }
}

UNUSED static void decode_q2_k(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q2_k *b = (const fm_block_q2_k *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 256) {
        float d = read_half(b[i].d), dmin = read_half(b[i].dmin);
        for (int g = 0; g < 16; g++) {
            const uint8_t *q = b[i].qs + 32 * (g / 8) + 16 * (g % 2);
            int shift = g / 2 % 4 * 2;
            float scale = d * (float)(b[i].scales[g] & 15), min = dmin * (float)(b[i].scales[g] >> 4);
            for (int l = 0; l < 16; l++)
                y[16 * g + l] = scale * (float)(q[l] >> shift & 3) - min;
        }
    }
}

UNUSED static void decode_q3_k(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q3_k *b = (const fm_block_q3_k *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 256) {
        float d = read_half(b[i].d);
        for (int g = 0; g < 16; g++) {
            const uint8_t *q = b[i].qs + 32 * (g / 8) + 16 * (g % 2), *h = b[i].hmask + 16 * (g % 2);
            int shift = g / 2 % 4 * 2, bit = g / 2;
            int sc = (b[i].scales[g % 8] >> (g / 8 * 4) & 15) | (b[i].scales[8 + g % 4] >> (g / 4 * 2) & 3) << 4;
            float scale = d * (float)(sc - 32);
            for (int l = 0; l < 16; l++)
                y[16 * g + l] = scale * (float)((q[l] >> shift & 3) + (h[l] >> bit & 1) * 4 - 4);
        }
    }
}

// The 6-bit scales and minimums of q4_k and q5_k, group by group.
UNUSED static void unpack_scales_6(const uint8_t s[12], int sc[8], int mn[8])
{
    for (int g = 0; g < 4; g++) {
        sc[g] = s[g] & 63;
        mn[g] = s[g + 4] & 63;
        sc[g + 4] = (s[g + 8] & 15) | s[g] >> 6 << 4;
        mn[g + 4] = s[g + 8] >> 4 | s[g + 4] >> 6 << 4;
    }
}

UNUSED static void decode_q4_k(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q4_k *b = (const fm_block_q4_k *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 256) {
        int sc[8], mn[8];
        float d = read_half(b[i].d), dmin = read_half(b[i].dmin);
        unpack_scales_6(b[i].scales, sc, mn);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = b[i].qs + g / 2 * 32;
            int shift = g % 2 * 4;
            float scale = d * (float)sc[g], min = dmin * (float)mn[g];
            for (int l = 0; l < 32; l++)
                y[32 * g + l] = scale * (float)(q[l] >> shift & 15) - min;
        }
    }
}

UNUSED static void decode_q5_k(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q5_k *b = (const fm_block_q5_k *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 256) {
        int sc[8], mn[8];
        float d = read_half(b[i].d), dmin = read_half(b[i].dmin);
        unpack_scales_6(b[i].scales, sc, mn);
        for (int g = 0; g < 8; g++) {
            const uint8_t *q = b[i].qs + g / 2 * 32;
            int shift = g % 2 * 4;
            float scale = d * (float)sc[g], min = dmin * (float)mn[g];
            for (int l = 0; l < 32; l++)
                y[32 * g + l] = scale * (float)((q[l] >> shift & 15) + (b[i].qh[l] >> g & 1) * 16) - min;
        }
    }
}

UNUSED static void decode_q6_k(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_q6_k *b = (const fm_block_q6_k *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 256) {
        float d = read_half(b[i].d);
        for (int g = 0; g < 16; g++) {
            int half = g / 8, k = g / 2 % 4; // k: which 32 of the half's 128
            const uint8_t *low = b[i].ql + 64 * half + 32 * (k % 2) + 16 * (g % 2);
            const uint8_t *high = b[i].qh + 32 * half + 16 * (g % 2);
            int low_shift = k / 2 * 4, high_shift = 2 * k;
            float scale = d * (float)b[i].scales[g];
            for (int l = 0; l < 16; l++)
                y[16 * g + l] = scale * (float)((low[l] >> low_shift & 15) + (high[l] >> high_shift & 3) * 16 - 32);
        }
    }
}

UNUSED static void decode_iq4_nl(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_iq4_nl *b = (const fm_block_iq4_nl *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 32) {
        float d = read_half(b[i].d);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)iq4_values[b[i].qs[j] & 15];
            y[j + 16] = d * (float)iq4_values[b[i].qs[j] >> 4];
        }
    }
}

UNUSED static void decode_iq4_xs(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_iq4_xs *b = (const fm_block_iq4_xs *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 256) {
        float d = read_half(b[i].d);
        for (int g = 0; g < 8; g++) {
            int sc = (b[i].scales_l[g / 2] >> (g % 2 * 4) & 15) | (read_u16(b[i].scales_h) >> (2 * g) & 3) << 4;
            float scale = d * (float)(sc - 32);
            for (int j = 0; j < 16; j++) {
                y[32 * g + j] = scale * (float)iq4_values[b[i].qs[16 * g + j] & 15];
                y[32 * g + j + 16] = scale * (float)iq4_values[b[i].qs[16 * g + j] >> 4];
            }
        }
    }
}

UNUSED static void decode_mxfp4(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_mxfp4 *b = (const fm_block_mxfp4 *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 32) {
        float d = e8m0_half(b[i].e);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)e2m1_doubled[b[i].qs[j] & 15] * d;
            y[j + 16] = (float)e2m1_doubled[b[i].qs[j] >> 4] * d;
        }
    }
}

UNUSED static void decode_nvfp4(size_t n_blocks, const uint8_t *restrict bytes, float *restrict y)
{
    const fm_block_nvfp4 *b = (const fm_block_nvfp4 *)bytes;
    for (size_t i = 0; i < n_blocks; i++, y += 64)
        for (int g = 0; g < 4; g++) {
            float d = ue4m3_half(b[i].d[g]);
            for (int j = 0; j < 8; j++) {
                y[16 * g + j] = (float)e2m1_doubled[b[i].qs[8 * g + j] & 15] * d;
                y[16 * g + j + 8] = (float)e2m1_doubled[b[i].qs[8 * g + j] >> 4] * d;
            }
        }
}

#ifdef FM_DECODE_TABLE
#define FM_DECODE_ROW(NAME, name, ggml, elems, bytes, exact) [FM_BLOCK_##NAME] = decode_##name,
fm_block_decoder *const FM_DECODE_TABLE[FM_BLOCK_N] = {FM_BLOCK_LIST(FM_DECODE_ROW)};
#undef FM_DECODE_ROW
#endif
