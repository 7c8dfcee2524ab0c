// Arithmetic on sizes that says when it does not fit. Every size that comes from a file, a flag or a peer goes
// through here before it is believed.
#ifndef FM_BASE_CHECKED_H
#define FM_BASE_CHECKED_H
#include <stdbool.h>
#include <stdint.h>

// Each returns true and writes *out when the exact result fits 64 bits; otherwise false, *out untouched.
static inline bool fm_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool fm_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

// Rounds up to a multiple of `to` (> 0).
static inline bool fm_round_up_u64(uint64_t a, uint64_t to, uint64_t *out)
{
    uint64_t rest = a % to;
    return rest ? fm_add_u64(a, to - rest, out) : (*out = a, true);
}
#endif
