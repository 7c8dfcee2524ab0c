// Values to encode: a counter-based generator and the shapes that break encoders.
#ifndef FM_TEST_QUANTIZE_BLOCKS_INPUTS_H
#define FM_TEST_QUANTIZE_BLOCKS_INPUTS_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t random_u32(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15; // splitmix64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

// About normal with standard deviation 1: the sum of twelve uniform numbers. Exact arithmetic, so no libm.
static inline float random_normal(uint64_t *state)
{
    int32_t sum = -6 * 65536;
    for (int i = 0; i < 12; i++)
        sum += (int32_t)(random_u32(state) >> 16);
    return (float)sum / 65536;
}

static inline float float_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

// clang-format off
#define INPUT_KINDS(X)                              \
    X(NORMAL, "normal")                             \
    X(SMALL, "normal, 1e-6")                        \
    X(TINY, "subnormal floats")                     \
    X(LARGE, "normal, 1e4")                         \
    X(HUGE, "any finite float")                     \
    X(BITS, "any bits")                             \
    X(ZERO, "zeros of both signs")                  \
    X(CONSTANT, "one value a block")                \
    X(POSITIVE, "all above zero")                   \
    X(NEGATIVE, "all below zero")                   \
    X(RECTIFIED, "half of them zero")               \
    X(OUTLIER, "one value of 1000 in each block")   \
    X(COARSE, "normal, a few bits")                 \
    X(SIGNS, "plus and minus one")                  \
    X(INTEGERS, "whole numbers, many ties")         \
    X(SPARSE_NAN, "normal with a few NaN and infinities") \
    X(EDGE, "around the overflow of fp16 scales")   \
    X(POWERS, "just below and at powers of two")
// clang-format on
#define INPUT_ENUM(NAME, words) INPUT_##NAME,
#define INPUT_WORDS(NAME, words) words,
typedef enum { INPUT_KINDS(INPUT_ENUM) INPUT_N } input_kind;
static const char *const input_words[] = {INPUT_KINDS(INPUT_WORDS)};

static inline float random_input(input_kind kind, size_t i, uint64_t *state)
{
    float v = random_normal(state);
    uint32_t r = random_u32(state);
    switch (kind) {
    case INPUT_SMALL:
        return v * 1e-6f;
    case INPUT_TINY:
        return float_from_bits((r & 0x80000000) | r % 0x01000000);
    case INPUT_LARGE:
        return v * 1e4f;
    case INPUT_HUGE:
        return (r & 0x7f800000) == 0x7f800000 ? v : float_from_bits(r);
    case INPUT_BITS:
        return float_from_bits(r);
    case INPUT_ZERO:
        return r & 1 ? 0.0f : -0.0f;
    case INPUT_CONSTANT:
        return (float)(i / 256 + 1) * (i / 256 % 2 ? 0.0137f : -3.7f);
    case INPUT_POSITIVE:
        return (v < 0 ? -v : v) + 0.5f;
    case INPUT_NEGATIVE:
        return (v < 0 ? v : -v) - 0.5f;
    case INPUT_RECTIFIED:
        return v < 0 ? (r & 1 ? 0.0f : -0.0f) : v;
    case INPUT_OUTLIER:
        return i % 32 == 7 ? (r & 1 ? 1000.0f : -1000.0f) : v;
    case INPUT_COARSE: // whole 128ths: eight bits at most, without touching the representation
        return (float)(int)(v * 32) / 128;
    case INPUT_SIGNS:
        return r & 1 ? 1.0f : -1.0f;
    case INPUT_INTEGERS:
        return (float)((int)(r % 33) - 16) / 2;
    case INPUT_SPARSE_NAN:
        return r % 97 ? v : float_from_bits((r & 0x80000000) | 0x7f800000 | (r & 8 ? 0x12345 : 0));
    case INPUT_EDGE:
        return v * (float)(1u << r % 31);
    case INPUT_POWERS:
        return float_from_bits((r & 0x80000000) | (r >> 8 & 0xff) << 23 | (r & 1 ? 0x7fffff - (r >> 1 & 31) : 0));
    case INPUT_NORMAL:
    default:
        return v;
    }
}
#endif
