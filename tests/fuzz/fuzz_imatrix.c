// An importance matrix that is accepted has only finite weights of at least 0.
#include <math.h>
#include <stdlib.h>
#include "floodmark/imatrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fm_imatrix *im = NULL;
    fm_err err = {0};
    fm_status status = fm_imatrix_parse(data, size, "fuzz", &im, &err);
    demand(!status == !!im);
    demand(!status || (err.code == status && err.message[0]));
    if (!im)
        return 0;
    for (size_t i = 0; i < fm_imatrix_n_entries(im); i++) {
        const fm_imatrix_entry *e = fm_imatrix_entry_at(im, i);
        demand(fm_imatrix_find(im, e->name) == e);
        for (uint64_t k = 0; k < e->n_mats * e->row_elems; k++)
            demand(e->values[k] >= 0 && isfinite(e->values[k]));
    }
    fm_imatrix_destroy(im);
    return 0;
}
