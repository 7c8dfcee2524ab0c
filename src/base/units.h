// Sizes and counts as people write and read them: "80GB", "600MiB", "70B", "1,050,673,152".
// Decimal units (kB, MB, GB ...) are powers of 1000, binary ones (KiB, MiB, GiB ...) powers of 1024. Nothing here
// depends on the locale or on floating point. Threads: any.
#ifndef FM_BASE_UNITS_H
#define FM_BASE_UNITS_H
#include <stddef.h>
#include <stdint.h>
#include "floodmark/status.h"

typedef enum { FM_UNITS_GB, FM_UNITS_GIB } fm_units; // decimal family, binary family

enum { FM_UNITS_TEXT_BYTES = 48 }; // enough for every text made here

// "GB" or "GiB" (the value of --units). FM_ERR_USAGE for anything else.
fm_status fm_parse_units(const char *text, fm_units *out, fm_err *err) FM_MUST_USE;

// Each writes a zero-ended text to `out` (FM_UNITS_TEXT_BYTES) and returns it.
// 1050673152 -> "1,050,673,152".
char *fm_format_count(char out[FM_UNITS_TEXT_BYTES], uint64_t count);

// The largest unit of the family that is not above the value, rounded half up to `decimals` (0 to 3), thousands
// separated: (17500000000, GB, 2) -> "17.50 GB"; bytes have no decimals: "512 B".
char *fm_format_bytes(char out[FM_UNITS_TEXT_BYTES], uint64_t bytes, fm_units units, int decimals);

// As above, always in GB or GiB, whatever the size: (840000000000, GB, 0) -> "840 GB"; for columns that are summed.
char *fm_format_giga(char out[FM_UNITS_TEXT_BYTES], uint64_t bytes, fm_units units, int decimals);

// A count in short, at most three digits and a suffix K, M, B, T: 8030261248 -> "8.03B".
char *fm_format_count_short(char out[FM_UNITS_TEXT_BYTES], uint64_t count);

// Seconds as "0.4 s", "12 s", "3 min 05 s", "2 h 07 min".
char *fm_format_seconds(char out[FM_UNITS_TEXT_BYTES], double seconds);

// A size: digits, a decimal fraction if wanted, optional space, and a unit: B, kB (or KB), MB, GB, TB, PB, KiB, MiB, GiB,
// TiB, PiB; without a unit: bytes. The result is exact: "1.5GB" is 1500000000, "0.3B" is refused. Errors (FM_ERR_VALUE,
// FM_ERR_OVERFLOW) quote the text and show how to write it; the caller prefixes the flag's name.
fm_status fm_parse_bytes(const char *text, uint64_t *out, fm_err *err) FM_MUST_USE;

// A count: digits, a decimal fraction, and an optional suffix K, M, B (10^9; G is the same) or T: "70B", "1.5b", "135M".
fm_status fm_parse_count(const char *text, uint64_t *out, fm_err *err) FM_MUST_USE;

// A plain integer in [low, high], digits only.
fm_status fm_parse_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out, fm_err *err) FM_MUST_USE;
#endif
