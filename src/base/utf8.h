// One letter of UTF-8 at a time.
#ifndef FM_BASE_UTF8_H
#define FM_BASE_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads the letter at text[0..n). Returns its length in bytes (1 to 4) and its code point, or 0 when the bytes are not
// UTF-8: overlong forms, surrogates, values past U+10FFFF and cut letters are refused.
// Source: RFC 3629, section 4 (the table of well-formed byte sequences).
size_t fm_utf8_decode(const char *text, size_t n, uint32_t *code_point);

// Writes the letter and returns its length (1 to 4). code_point must be at most 0x10ffff and no surrogate.
size_t fm_utf8_encode(uint32_t code_point, char out[4]);

// True when all n bytes are UTF-8.
bool fm_utf8_valid(const char *text, size_t n);
#endif
