// Codes of 4 and 6 bits packed into bytes. Plain loops: compilers vectorise them, and files are read slower than this.
#include "floodmark/convert.h"

void fm_nibbles_pack(fm_nibble_order order, size_t n, const uint8_t *codes, uint8_t *out)
{
    unsigned first = order == FM_NIBBLE_HIGH_FIRST ? 4 : 0, second = 4 - first;
    for (size_t i = 0; i < n / 2; i++)
        out[i] = (uint8_t)((codes[2 * i] & 15) << first | (codes[2 * i + 1] & 15) << second);
    if (n % 2)
        out[n / 2] = (uint8_t)((codes[n - 1] & 15) << first);
}

void fm_nibbles_unpack(fm_nibble_order order, size_t n, const uint8_t *packed, uint8_t *codes)
{
    unsigned first = order == FM_NIBBLE_HIGH_FIRST ? 4 : 0, second = 4 - first;
    for (size_t i = 0; i < n / 2; i++) {
        codes[2 * i] = packed[i] >> first & 15;
        codes[2 * i + 1] = packed[i] >> second & 15;
    }
    if (n % 2)
        codes[n - 1] = packed[n / 2] >> first & 15;
}

void fm_nibbles_unpack_i4(fm_nibble_order order, size_t n, const uint8_t *packed, int8_t *values)
{
    unsigned first = order == FM_NIBBLE_HIGH_FIRST ? 4 : 0, second = 4 - first;
    for (size_t i = 0; i < n / 2; i++) {
        values[2 * i] = (int8_t)(((packed[i] >> first & 15) ^ 8) - 8);
        values[2 * i + 1] = (int8_t)(((packed[i] >> second & 15) ^ 8) - 8);
    }
    if (n % 2)
        values[n - 1] = (int8_t)(((packed[n / 2] >> first & 15) ^ 8) - 8);
}

void fm_sixes_pack(size_t n, const uint8_t *codes, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 4 && i + j < n; j++)
            bits |= (uint32_t)(codes[i + j] & 63) << (6 * j);
        size_t bytes = n - i >= 4 ? 3 : fm_packed_bytes(6, n - i);
        for (size_t j = 0; j < bytes; j++)
            out[i / 4 * 3 + j] = (uint8_t)(bits >> (8 * j));
    }
}

void fm_sixes_unpack(size_t n, const uint8_t *packed, uint8_t *codes)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t bits = 0;
        size_t bytes = n - i >= 4 ? 3 : fm_packed_bytes(6, n - i);
        for (size_t j = 0; j < bytes; j++)
            bits |= (uint32_t)packed[i / 4 * 3 + j] << (8 * j);
        for (size_t j = 0; j < 4 && i + j < n; j++)
            codes[i + j] = bits >> (6 * j) & 63;
    }
}

uint64_t fm_packed_bytes(unsigned bits, uint64_t n)
{
    unsigned __int128 total = (unsigned __int128)bits * n;
    total = (total + 7) / 8;
    return total > UINT64_MAX ? UINT64_MAX : (uint64_t)total;
}
