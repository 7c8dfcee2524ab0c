#include "floodmark/convert.h"

#include <string.h>

#include "number/encode.h"
#include "number/inline.h"
#include "number/kernels.h"

// Elements a tile: 4 KiB of fp32; with its random words, its copy and the tile fetched ahead it stays in the
// first cache. (Measured: 4096 is a third slower when counting.)
enum { TILE = 1024 };

// Outputs from this size on are written past the cache: they would push out more than they leave behind.
enum { PAST_CACHE_BYTES = 4 << 20 };

static bool goes_past_cache(size_t n, size_t element_bytes, const void *out)
{
    return n >= PAST_CACHE_BYTES / element_bytes && (uintptr_t)out % element_bytes == 0;
}

// ---- one type, no counting ------------------------------------------------------------------------------------------

static bool is_small_float(const fm_number_format *f)
{
    return f->storage_bytes == 1 && !f->is_integer && f->type != FM_E8M0;
}

static void store_code(const fm_number_format *f, void *out, size_t i, uint32_t code)
{
    if (f->storage_bytes == 1)
        ((uint8_t *)out)[i] = (uint8_t)code;
    else if (f->storage_bytes == 2)
        ((uint16_t *)out)[i] = (uint16_t)code;
    else
        ((uint32_t *)out)[i] = code;
}

static void count_event(fm_convert_counts *counts, fm_event event)
{
    counts->nan += event == FM_EVENT_NAN;
    counts->infinite += event == FM_EVENT_INFINITE;
    counts->overflowed += event == FM_EVENT_OVERFLOWED;
    counts->saturated += event == FM_EVENT_SATURATED;
    counts->zeroed += event == FM_EVENT_ZEROED;
}

// Through the definition, element by element: every type, every rounding; counts may be NULL, and out may.
static void encode_slowly(const fm_number_format *f, const fm_encoding *how, size_t n, const float *x, void *out,
                          fm_convert_counts *counts)
{
    for (size_t i = 0; i < n; i++) {
        fm_event event;
        uint32_t r = how->rounding == FM_ROUND_STOCHASTIC ? fm_random_u32(how->seed, how->counter + i) : 0;
        uint32_t code = fm_number_encode_event(f, (double)x[i], how->rounding, how->saturate, r, &event);
        if (out)
            store_code(f, out, i, code);
        if (counts)
            count_event(counts, event);
    }
}

static fm_dither dither_of(const fm_number_format *f, bool saturate)
{
    bool stays = saturate || f->overflow == FM_OVERFLOW_SATURATE;
    uint32_t sign_code = UINT32_C(1) << (f->bits - 1);
    return (fm_dither){
        .fraction_bits = f->fraction_bits,
        .min_exponent = (uint32_t)(128 - f->bias),
        .overflow_code = stays ? f->max_code : f->max_code + 1,
        .nan_code = f->nan == FM_NAN_NEG_ZERO ? sign_code : f->nan_code,
        .quiet_payload_shift = f->nan == FM_NAN_QUIET ? 23u - f->fraction_bits : 32,
        .sign_code = sign_code,
        .sign_shift = 32u - f->bits,
        .no_neg_zero = f->has_neg_zero ? 0 : UINT32_MAX,
    };
}

static void dither(const fm_number_kernels *k, const fm_number_format *f, const fm_encoding *how, size_t n,
                   const float *x, void *out)
{
    const fm_dither d = dither_of(f, how->saturate);
    uint32_t random[TILE];
    for (size_t i = 0; i < n; i += TILE) {
        size_t m = n - i < TILE ? n - i : TILE;
        fm_random_fill_u32(how->seed, how->counter + i, m, random);
        if (f->storage_bytes == 1)
            k->dither8(&d, m, x + i, random, (uint8_t *)out + i);
        else
            k->dither16(&d, m, x + i, random, (uint16_t *)out + i);
    }
}

static void encode(const fm_number_kernels *k, const fm_number_format *f, const fm_encoding *how, size_t n,
                   const float *x, void *out, bool past_cache)
{
    if (f->type == FM_FP32 && !how->saturate) {
        memcpy(out, x, n * sizeof *x);
    } else if (f->type == FM_FP64) {
        for (size_t i = 0; i < n; i++)
            ((double *)out)[i] = (double)x[i];
    } else if (f->type == FM_TF32 && how->rounding != FM_ROUND_STOCHASTIC) {
        // Rounding to zero keeps finite values finite; the loop's limit is then met by infinity alone.
        k->tf32_from_f32(n, x, out, how->rounding, how->saturate);
    } else if (how->rounding == FM_ROUND_STOCHASTIC && (is_small_float(f) || f->storage_bytes == 2)) {
        dither(k, f, how, n, x, out);
    } else if (how->rounding == FM_ROUND_NEAREST_EVEN && f->type == FM_FP16) {
        k->f16_from_f32(n, x, out, how->saturate, past_cache);
    } else if (how->rounding == FM_ROUND_NEAREST_EVEN && f->type == FM_BF16) {
        k->bf16_from_f32(n, x, out, how->saturate, past_cache);
    } else if (how->rounding == FM_ROUND_NEAREST_EVEN && is_small_float(f)) {
        fm_small s;
        fm_small_init(&s, f, how->saturate);
        k->small_from_f32(&s, n, x, out, past_cache);
    } else if (how->rounding == FM_ROUND_NEAREST_EVEN && f->is_integer) {
        k->int_from_f32(n, x, out, (float)f->lowest, (float)f->max_finite, (UINT32_C(1) << f->bits) - 1);
    } else if (f->type == FM_FP32) {
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)out)[i] = fm_number_encode(FM_FP32, x[i], how);
    } else {
        encode_slowly(f, how, n, x, out, NULL);
    }
}

// ---- counting -------------------------------------------------------------------------------------------------------

// Magnitudes (fp32 patterns) from which a finite value overflows or saturates, and up to which it becomes zero.
typedef struct {
    uint32_t over, zero;
    bool exact;     // false (chance, or other bounds for negative values): only a screen; where it does not clear a
                    // tile, the definition decides
    bool saturates; // what `over` means
} thresholds;

static fm_event event_of(const fm_number_format *f, const fm_encoding *how, uint32_t magnitude, uint32_t r)
{
    fm_event event;
    fm_number_encode_event(f, (double)fm_f32_of_bits(magnitude), how->rounding, how->saturate, r, &event);
    return event;
}

// Both events are monotonic in the magnitude: found by bisection in the definition itself, so there is no table that
// could disagree with it.
static thresholds find_thresholds(const fm_number_format *f, const fm_encoding *how)
{
    thresholds t = {0x7f800000, 0, how->rounding != FM_ROUND_STOCHASTIC && !f->is_integer, false};
    uint32_t low = 0, high = 0x7f800000; // `low` does not go over (zero never does), `high` does or is infinity
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        fm_event event = event_of(f, how, middle, UINT32_MAX);
        *(event == FM_EVENT_OVERFLOWED || event == FM_EVENT_SATURATED ? &high : &low) = middle;
    }
    t.over = high;
    t.saturates = high < 0x7f800000 && event_of(f, how, high, UINT32_MAX) == FM_EVENT_SATURATED;
    low = 0, high = 0x7f7fffff; // `low` becomes zero or is it, `high` does not
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(event_of(f, how, middle, 0) == FM_EVENT_ZEROED ? &low : &high) = middle;
    }
    t.zero = low;
    return t;
}

static void count(const fm_number_kernels *k, const fm_number_format *f, const fm_encoding *how, const thresholds *t,
                  size_t n, const float *x, fm_convert_counts *counts)
{
    if (f->type == FM_E8M0) { // the sign decides
        encode_slowly(f, how, n, x, NULL, counts);
        return;
    }
    uint32_t most = 0, least = UINT32_MAX;
    k->extent(n, x, &most, &least);
    if (most < t->over && most < 0x7f800000 && least >= t->zero) // least is one less than a magnitude
        return;
    if (most < t->over && most < 0x7f800000 && how->rounding != FM_ROUND_STOCHASTIC) { // common in narrow formats
        counts->zeroed += k->count_tiny(n, x, t->zero);
        return;
    }
    if (!t->exact) {
        encode_slowly(f, how, n, x, NULL, counts);
        return;
    }
    fm_tally tally = {0};
    k->tally(n, x, t->over, t->zero, &tally);
    uint64_t over = tally.at_least_over - tally.infinite_or_nan;
    counts->nan += tally.nan;
    counts->infinite += tally.infinite_or_nan - tally.nan;
    *(t->saturates ? &counts->saturated : &counts->overflowed) += over;
    counts->zeroed += tally.at_most_zero - tally.zero;
}

// One conversion's constants.
typedef struct {
    const fm_number_kernels *k;
    const fm_number_format *f;
    fm_encoding how; // counter: of the next element
    thresholds t;
    bool past_cache;
    fm_convert_counts *counts; // NULL: not asked for
} job;

static job job_of(fm_number type, const fm_encoding *how, size_t n, const void *out, fm_convert_counts *counts)
{
    job j = {.k = fm_number_kernels_chosen(), .f = fm_number_info(type), .counts = counts};
    if (how)
        j.how = *how;
    j.past_cache = goes_past_cache(n, j.f->storage_bytes, out);
    if (counts) // fp64 holds all of fp32 and counts like it
        j.t = find_thresholds(type == FM_FP64 ? fm_number_info(FM_FP32) : j.f, &j.how);
    return j;
}

static void encode_tile(job *j, size_t n, const float *x, void *out)
{
    if (j->counts)
        count(j->k, j->f, &j->how, &j->t, n, x, j->counts);
    encode(j->k, j->f, &j->how, n, x, out, j->past_cache);
    j->how.counter += n;
}

// Asks memory for what comes next, so that it does not idle while a tile is worked on in cache.
static void fetch_ahead(size_t n, const float *x)
{
    for (size_t i = 0; i < n; i += 16)
        __builtin_prefetch(x + i);
}

static void finish(const job *j)
{
    if (j->past_cache)
        j->k->finish_stores();
}

void fm_encode_f32(fm_number type, const fm_encoding *how, size_t n, const float *x, void *out,
                   fm_convert_counts *counts)
{
    job j = job_of(type, how, n, out, counts);
    size_t tile = counts ? TILE : n; // counting leaves the tile in cache for encoding
    for (size_t i = 0; i < n; i += tile) {
        size_t m = n - i < tile ? n - i : tile;
        fetch_ahead(n - i - m < tile ? n - i - m : tile, x + i + m);
        encode_tile(&j, m, x + i, (char *)out + i * j.f->storage_bytes);
    }
    finish(&j);
}

// ---- decoding and the rest ------------------------------------------------------------------------------------------

static void decode(const fm_number_kernels *k, fm_number type, size_t n, const void *codes, float *x, bool past_cache)
{
    const fm_number_format *f = fm_number_info(type);
    if (type == FM_FP32) {
        memcpy(x, codes, n * sizeof *x);
    } else if (type == FM_FP64) {
        k->f32_from_f64(n, codes, x);
    } else if (type == FM_TF32) {
        const uint32_t *u = codes;
        for (size_t i = 0; i < n; i++)
            x[i] = fm_f32_of_bits(u[i] & ~UINT32_C(0x1fff));
    } else if (type == FM_FP16) {
        k->f32_from_f16(n, codes, x, past_cache);
    } else if (type == FM_BF16) {
        k->f32_from_bf16(n, codes, x, past_cache);
    } else if (is_small_float(f)) {
        fm_small s;
        fm_small_init(&s, f, false);
        k->f32_from_small(&s, n, codes, x, past_cache);
    } else {
        const uint8_t *code = codes;
        for (size_t i = 0; i < n; i++)
            x[i] = fm_number_decode(type, code[i]);
    }
}

void fm_decode_f32(fm_number type, size_t n, const void *codes, float *x)
{
    const fm_number_kernels *k = fm_number_kernels_chosen();
    bool past_cache = goes_past_cache(n, sizeof *x, x);
    if (!n)
        return;
    decode(k, type, n, codes, x, past_cache);
    if (past_cache)
        k->finish_stores();
}

// fp64 to fp32, where the intermediate type would be the target itself, and stochastic rounding, which looks further
// than an odd last bit: through the definition.
static void convert_f64_slowly(const fm_number_format *f, const fm_encoding *how, size_t n, const double *x, void *out,
                               fm_convert_counts *counts)
{
    for (size_t i = 0; i < n; i++) {
        fm_event event;
        uint32_t r = how->rounding == FM_ROUND_STOCHASTIC ? fm_random_u32(how->seed, how->counter + i) : 0;
        store_code(f, out, i, fm_number_encode_event(f, x[i], how->rounding, how->saturate, r, &event));
        if (counts)
            count_event(counts, event);
    }
}

// A copy loses nothing; what was NaN or infinite is still worth counting.
static void count_copied(const fm_number_kernels *k, size_t n, const float *x, fm_convert_counts *counts)
{
    fm_tally tally = {0};
    k->tally(n, x, 0x7f800000, 0, &tally);
    counts->nan += tally.nan;
    counts->infinite += tally.infinite_or_nan - tally.nan;
}

static bool is_default(const fm_encoding *how)
{
    return !how || (how->rounding == FM_ROUND_NEAREST_EVEN && !how->saturate);
}

void fm_convert(fm_number from, fm_number to, const fm_encoding *how, size_t n, const void *in, void *out,
                fm_convert_counts *counts)
{
    size_t in_bytes = fm_number_info(from)->storage_bytes;
    if (from == to && n)
        memcpy(out, in, n * in_bytes);
    if (!n || (from == to && !counts))
        return;
    if (from == FM_FP32 && to != FM_FP32) {
        fm_encode_f32(to, how, n, in, out, counts);
        return;
    }
    job j = job_of(to, how, n, out, counts);
    if (from == FM_FP64 && to == FM_FP32 && is_default(how) && !counts) {
        j.k->f32_from_f64(n, in, out);
        return;
    }
    if (from == FM_FP64 && to != FM_FP64 && (to == FM_FP32 || j.how.rounding == FM_ROUND_STOCHASTIC)) {
        convert_f64_slowly(j.f, &j.how, n, in, out, counts);
        return;
    }
    float tile[TILE];
    for (size_t i = 0; i < n; i += TILE) {
        size_t m = n - i < TILE ? n - i : TILE;
        const char *source = (const char *)in + i * in_bytes;
        if (from == FM_FP64)
            j.k->f32_from_f64_odd(m, (const double *)(const void *)source, tile);
        else
            decode(j.k, from, m, source, tile, false);
        if (from == to)
            count_copied(j.k, m, tile, counts);
        else
            encode_tile(&j, m, tile, (char *)out + i * j.f->storage_bytes);
    }
    finish(&j);
}

void fm_f16_from_f32(size_t n, const float *x, uint16_t *out)
{
    fm_encode_f32(FM_FP16, NULL, n, x, out, NULL);
}

void fm_bf16_from_f32(size_t n, const float *x, uint16_t *out)
{
    fm_encode_f32(FM_BF16, NULL, n, x, out, NULL);
}

void fm_f32_from_f16(size_t n, const uint16_t *codes, float *x)
{
    fm_decode_f32(FM_FP16, n, codes, x);
}

void fm_f32_from_bf16(size_t n, const uint16_t *codes, float *x)
{
    fm_decode_f32(FM_BF16, n, codes, x);
}

void fm_random_fill_u32(uint64_t seed, uint64_t first, size_t n, uint32_t *out)
{
    size_t i = 0;
    for (; i < n && (first + i) % 4; i++)
        out[i] = fm_random_u32(seed, first + i);
    size_t whole = (n - i) / 4 * 4;
    fm_number_kernels_chosen()->random_blocks(seed, (first + i) / 4, whole, out + i);
    for (i += whole; i < n; i++)
        out[i] = fm_random_u32(seed, first + i);
}

void fm_extent_f32(size_t n, const float *x, uint32_t *max_bits, uint32_t *min_bits)
{
    uint32_t most = 0, least = UINT32_MAX;
    fm_number_kernels_chosen()->extent(n, x, &most, &least);
    *max_bits = most;
    *min_bits = least == UINT32_MAX ? UINT32_MAX : least + 1;
}
