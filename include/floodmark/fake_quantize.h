// Fake quantization: a tensor goes through its codes and back while it stays fp32, so that a network can be trained to
// live with what a file will hold (quantization-aware training). The forward value is bit-equal to what the file decodes.
//
// Source of the gradients: straight-through estimator (Bengio et al. 2013); learned step size (Esser et al., ICLR 2020).
#ifndef FLOODMARK_FAKE_QUANTIZE_H
#define FLOODMARK_FAKE_QUANTIZE_H
#include "floodmark/quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

// out [rows, cols] = decode(encode(x)) with these scales. tensor: scales [1], column: [cols], else one a group.
// out may be x. Works in pieces on the stack. Integers: the bits of torch.fake_quantize.
void fm_fake_quantize(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x, const fm_group_scale *scales,
                      float *out);

// grad_x = upstream where rint(x/scale) + zero lies within the codes (floats and tables: where |x/scale| is at most the
// grid's largest value), else 0. grad_x may be upstream.
void fm_fake_quantize_grad(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x, const float *upstream,
                           const fm_group_scale *scales, float *grad_x);

// The gradient of each group's scale when the step is learned (symmetric integers): factor * sum of
// upstream * (code limit where x saturates, else (decoded - x) / scale); sums fp64 in the order of storage.
// factor is 1/sqrt(n * largest code) in the paper. grad_scale [groups]. FM_ERR_UNSUPPORTED for other grids; FM_ERR_NO_MEMORY.
fm_status fm_fake_quantize_grad_scale(const fm_scheme *s, uint64_t rows, uint64_t cols, const float *x,
                                      const float *upstream, const fm_group_scale *scales, double factor,
                                      float *grad_scale, fm_err *err) FM_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
