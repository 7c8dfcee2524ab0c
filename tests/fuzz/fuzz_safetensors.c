// A header that is accepted describes ranges that tile the file; finding a tensor by its name finds that tensor.
#include <stdlib.h>
#include <string.h>
#include "floodmark/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fm_safetensors *st = NULL;
    fm_err err = {0};
    uint64_t total = 0;
    fm_status status = fm_safetensors_parse(data, size, size, "fuzz", &st, &err);
    demand(!status == !!st);
    demand(!status || (err.code == status && err.message[0]));
    if (!st)
        return 0;
    for (size_t i = 0; i < fm_safetensors_n_tensors(st); i++) {
        const fm_tensor_info *t = fm_safetensors_tensor(st, i);
        demand(t->offset <= size && t->bytes <= size - t->offset);
        demand(fm_safetensors_find(st, t->name) == t);
        total += t->bytes;
    }
    demand(total + fm_safetensors_file_header_bytes(st, 0) == size);
    for (size_t i = 0; i < fm_safetensors_n_metadata(st); i++)
        demand(!!fm_safetensors_metadata(st, fm_safetensors_metadata_key(st, i)));
    fm_safetensors_destroy(st);
    return 0;
}
