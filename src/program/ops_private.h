// What the ops_*.c files share.
#ifndef FM_PROGRAM_OPS_PRIVATE_H
#define FM_PROGRAM_OPS_PRIVATE_H
#include <string.h>
#include "program/ops.h"

static inline int fm_dim(const fm_tensor *x, int dim)
{
    return dim < 0 ? dim + (int)x->n_dims : dim;
}

// An output for an elementwise operation over n operands (NULL skipped): broadcast shape, TensorIterator's layout.
fm_tensor *fm_elementwise_out(fm_tape *t, unsigned n, fm_tensor *const *operands, fm_elem elem, const char *op);
fm_elem fm_promote(const fm_tensor *a, const fm_tensor *b);
fm_tensor *fm_empty_like(fm_tape *t, const fm_tensor *x, fm_elem elem, const char *op); // keeps a dense layout
// A view of x's storage with the given geometry and no graph; one reference.
fm_tensor *fm_view_of(fm_tape *t, const fm_tensor *x, unsigned n_dims, const int64_t *shape, const int64_t *stride);
// Finishes an operation: connects out to node n (NULL allowed), drops the operation's own reference to n, releases floating operands, returns out floating.
fm_tensor *fm_done(fm_tape *t, fm_grad_node *n, fm_tensor *out, fm_tensor *a, fm_tensor *b, fm_tensor *c);
const fm_row *fm_div_row(void); // of division, for its in-place form
#endif
