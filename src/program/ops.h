// The operation table: one function an operation, at the level of PyTorch's ATen operators.
//
// Each function records what the operation allocates in forward and makes the node that will record its backward; what a backward
// keeps is taken from PyTorch's derivative definitions (tools/autograd/derivatives.yaml, torch 2.13). Operands may float: they are released
// when the operation has run. Results float. Shapes follow PyTorch's: broadcasting, type promotion, and the memory layout of elementwise results
// (TensorIterator: the operands' order of strides), because a later reshape copies or not by layout.
//
// A new operation: its function and its row in the ops_*.c file of its kind, its declaration here.
#ifndef FM_PROGRAM_OPS_H
#define FM_PROGRAM_OPS_H
#include "program/tape.h"

// --- layout questions
bool fm_tensor_is_dense(const fm_tensor *x); // non-overlapping and dense in some order of dimensions
bool fm_same_shape(const fm_tensor *x, unsigned n_dims, const int64_t *shape);

// --- views (no memory; the gradient is a view back, or a copy where the layout forces one)
fm_tensor *fm_op_view(fm_tape *t, fm_tensor *x, unsigned n_dims,
                      const int64_t *shape); // x must be viewable so (it copies as reshape does if not)
fm_tensor *fm_op_reshape(fm_tape *t, fm_tensor *x, unsigned n_dims,
                         const int64_t *shape);                           // view, or contiguous copy ("clone")
fm_tensor *fm_op_transpose(fm_tape *t, fm_tensor *x, int dim0, int dim1); // negative dims count from the end
fm_tensor *fm_op_permute(fm_tape *t, fm_tensor *x, const int *order);
fm_tensor *fm_op_t(fm_tape *t, fm_tensor *x); // 2-D transpose
fm_tensor *fm_op_unsqueeze(fm_tape *t, fm_tensor *x, int dim);
fm_tensor *fm_op_squeeze(fm_tape *t, fm_tensor *x, int dim);
fm_tensor *fm_op_expand(fm_tape *t, fm_tensor *x, unsigned n_dims, const int64_t *shape);
fm_tensor *fm_op_slice(fm_tape *t, fm_tensor *x, int dim, int64_t start, int64_t end, int64_t step);
fm_tensor *fm_op_select(fm_tape *t, fm_tensor *x, int dim, int64_t index);
void fm_op_split(fm_tape *t, fm_tensor *x, unsigned n, const int64_t *sizes, int dim,
                 fm_tensor **parts); // split_with_sizes: n views
void fm_op_chunk(fm_tape *t, fm_tensor *x, unsigned n, int dim, fm_tensor **parts);
fm_tensor *fm_op_detach(fm_tape *t, fm_tensor *x);

// --- copies
fm_tensor *fm_op_to(fm_tape *t, fm_tensor *x, fm_elem elem); // x itself when it has the type already
fm_tensor *fm_op_to_copy(fm_tape *t, fm_tensor *x, fm_elem elem, const char *op);
fm_tensor *fm_op_contiguous(fm_tape *t, fm_tensor *x); // x itself when contiguous, else "clone"
fm_tensor *fm_op_clone(fm_tape *t, fm_tensor *x);      // contiguous copy
fm_tensor *fm_op_copy_into(fm_tape *t, fm_tensor *base,
                           fm_tensor *part); // base[..., a:b].copy_(part): base under a new name (CopySlices)
fm_tensor *fm_op_add_into(fm_tape *t, fm_tensor *a, fm_tensor *b); // a += b: a's memory under a new name
fm_tensor *fm_op_mul_scalar_into(fm_tape *t, fm_tensor *x);        // x *= number
fm_tensor *fm_op_div_scalar_into(fm_tape *t, fm_tensor *x);        // x /= number
fm_tensor *fm_op_index_list(fm_tape *t, fm_tensor *x, int dim); // x[..., [i], :]: a list of one index along dim, a copy
fm_tensor *fm_op_bloom_gelu(fm_tape *t,
                            fm_tensor *x); // a function of its own: saves its input, computes both ways op by op
fm_tensor *fm_op_cat(fm_tape *t, unsigned n, fm_tensor *const *parts, int dim);

// --- elementwise
fm_tensor *fm_op_add(fm_tape *t, fm_tensor *a, fm_tensor *b);
fm_tensor *fm_op_sub(fm_tape *t, fm_tensor *a, fm_tensor *b);
fm_tensor *fm_op_mul(fm_tape *t, fm_tensor *a, fm_tensor *b);
fm_tensor *fm_op_div(fm_tape *t, fm_tensor *a, fm_tensor *b);
fm_tensor *fm_op_add_scalar(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_mul_scalar(fm_tape *t, fm_tensor *x); // x * number: the number is not kept on the device
fm_tensor *fm_op_div_scalar(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_neg(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_pow(fm_tape *t, fm_tensor *x); // x ** constant (not 0, 1); fp32 under autocast
fm_tensor *fm_op_rsqrt(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_tanh(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_sigmoid(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_silu(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_gelu(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_relu(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_dropout(fm_tape *t, fm_tensor *x, double p); // p = 0: x itself. Saves a mask of one byte an element
// An elementwise operation without gradient (masks, positions): result of the given type, shape by broadcasting. b may be NULL.
fm_tensor *fm_op_plain(fm_tape *t, fm_tensor *a, fm_tensor *b, fm_elem elem, const char *op);

// --- reductions
fm_tensor *fm_op_mean_last(fm_tape *t, fm_tensor *x); // mean(-1, keepdim=True)
fm_tensor *fm_op_mean_all(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_sum_dim(fm_tape *t, fm_tensor *x, int dim, bool keep);
fm_tensor *fm_op_sum_to(fm_tape *t, fm_tensor *x, unsigned n_dims, const int64_t *shape); // undoes a broadcast

// --- products
fm_tensor *fm_op_mm(fm_tape *t, fm_tensor *a, fm_tensor *b); // [n,k] [k,m]; low precision under autocast
fm_tensor *fm_op_addmm(fm_tape *t, fm_tensor *bias, fm_tensor *a, fm_tensor *b);
fm_tensor *fm_op_bmm(fm_tape *t, fm_tensor *a, fm_tensor *b);
fm_tensor *fm_op_baddbmm(fm_tape *t, fm_tensor *input, fm_tensor *a,
                         fm_tensor *b);                          // alpha is not 1: its gradients are scaled after
fm_tensor *fm_op_matmul(fm_tape *t, fm_tensor *a, fm_tensor *b); // 2-D, 3-D x 2-D (folded), batched
fm_tensor *fm_op_linear(fm_tape *t, fm_tensor *x, fm_tensor *weight,
                        fm_tensor *bias); // weight [out, in]; bias may be NULL

// --- modules that are one operation
fm_tensor *fm_op_embedding(fm_tape *t, fm_tensor *weight, fm_tensor *ids);
fm_tensor *fm_op_layer_norm(fm_tape *t, fm_tensor *x, fm_tensor *weight,
                            fm_tensor *bias); // over the last dimension; weight, bias may be NULL
fm_tensor *fm_op_softmax(fm_tape *t, fm_tensor *x,
                         int elem_or_minus1); // over the last dimension; -1: in x's type (fp32 under autocast)
fm_tensor *fm_op_safe_softmax(fm_tape *t, fm_tensor *x); // the softmax of the math attention core
fm_tensor *fm_op_log_softmax(fm_tape *t, fm_tensor *x);
fm_tensor *fm_op_nll_loss(fm_tape *t, fm_tensor *log_probabilities,
                          fm_tensor *target);         // mean or sum over tokens: a scalar
fm_tensor *fm_op_pad_right(fm_tape *t, fm_tensor *x); // last dimension by one, no gradient

// --- experts
fm_tensor *fm_op_topk(fm_tape *t, fm_tensor *x, int64_t k, fm_tensor **indices); // over the last dimension; both float
fm_tensor *fm_op_gather(fm_tape *t, fm_tensor *x, fm_tensor *indices);           // along dimension 1
fm_tensor *fm_op_div_into(fm_tape *t, fm_tensor *x, fm_tensor *divisor);         // x /= divisor
fm_tensor *fm_op_index_rows(fm_tape *t, fm_tensor *x, fm_tensor *indices);       // x[indices], one dimension of indices
fm_tensor *fm_op_grouped_mm(fm_tape *t, fm_tensor *rows, fm_tensor *weights,
                            fm_tensor *offsets); // [S,k] by [E,k,m], a transposed view
fm_tensor *fm_op_touch(fm_tape *t, fm_tensor *x,
                       fm_tensor *weight); // x under a new name; weight gets a gradient of its own size

// --- attention cores. q [B, a, S, d], k, v [B, k, S, d]
fm_tensor *fm_op_sdpa_flash(fm_tape *t, fm_tensor *q, fm_tensor *k, fm_tensor *v);
fm_tensor *fm_op_sdpa_efficient(fm_tape *t, fm_tensor *q, fm_tensor *k, fm_tensor *v, fm_tensor *mask);

// --- autocast, for operations: the operand as the current region wants it. Floating or owned by the cache.
typedef enum { FM_CAST_LOW, FM_CAST_FP32 } fm_cast_class;
fm_tensor *fm_autocast_operand(fm_tape *t, fm_tensor *x, fm_cast_class how);
fm_tensor *fm_autocast_cached(fm_tape *t, fm_tensor *leaf);
void fm_autocast_remember(fm_tape *t, fm_tensor *leaf, fm_tensor *copy);
#endif
