// The library from C: rows of numbers to q4_k blocks and back, and what that cost. Public headers alone.
//
//   cc encode_rows.c $(pkg-config --cflags --libs floodmark) -o encode_rows
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "floodmark/block_format.h"

enum { N_ROWS = 4, N_PER_ROW = 512 };

int main(void)
{
    static float x[N_ROWS * N_PER_ROW], back[N_ROWS * N_PER_ROW]; // [N_ROWS, N_PER_ROW]
    for (size_t i = 0; i < N_ROWS * N_PER_ROW; i++)
        x[i] = (float)((i * 2654435761u % 2001) / 1000.0 - 1.0);

    fm_err err;
    const fm_block_format *format = fm_block_format_by_name("q4_k");
    uint64_t bytes;
    void *blocks = NULL;
    if (fm_block_bytes(format, N_ROWS * N_PER_ROW, &bytes, &err))
        goto fail;
    blocks = malloc(bytes);
    if (!blocks) {
        fputs("encode_rows: out of memory\n", stderr);
        return 1;
    }
    fm_block_faults faults = {0};
    fm_block_error error = {0};
    if (fm_block_encode(format, N_ROWS, N_PER_ROW, x, NULL, blocks, &faults, &error, &err) ||
        fm_block_decode(format, N_ROWS * N_PER_ROW, blocks, back, &err))
        goto fail;
    printf(
        "%s: %zu bytes became %llu (%.1f bits a weight), rmse %.4f, greatest error %.4f; x[7] %.4f came back as %.4f\n",
        format->name, sizeof x, (unsigned long long)bytes, fm_block_bits_per_weight(format),
        sqrt(error.sum_sq_err / (double)error.n_elems), error.max_abs_err, x[7], back[7]);
    free(blocks);
    return 0;
fail:
    fprintf(stderr, "encode_rows: %s\n", err.message);
    free(blocks);
    return 1;
}
