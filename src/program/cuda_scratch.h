// Memory that torch's CUDA kernels and libraries take from the caching allocator inside one operation. It is counted in
// memory_allocated, and no rule of autograd shows it. Recorded only where the recording is as on a GPU (fm_tape.record_scratch);
// fake tensors, and so the exact cases, have none of it. All sizes in bytes, each buffer rounded up to the allocator's 512.
// Sources: torch 2.11 to 2.13, the files named at each function; read for facts.
#ifndef FM_PROGRAM_CUDA_SCRATCH_H
#define FM_PROGRAM_CUDA_SCRATCH_H
#include "program/tape.h"

// cuBLAS's workspace: 32 MiB on Hopper and Blackwell, else 2 x 4 MiB + 8 x 16 KiB.
// Source: aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize; cuBLASLt shares it (2.8 and later).
uint64_t fm_cublas_workspace_bytes(uint32_t capability);

// A matrix product is about to run. The first one of a thread makes that thread's workspace, which is never freed: one for the thread that
// runs forward, one for autograd's thread of the device (a handle a thread, a workspace a handle and stream).
void fm_cuda_product(fm_tape *t);

// The gradient of an embedding of `rows` rows of `width`, looked up `n` times. Up to 3072 look-ups are added up in place; more are
// sorted and added up in pieces, in fp32 or wider.
// Source: aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu.
uint64_t fm_embedding_backward_scratch(uint64_t n, uint64_t rows, uint64_t width);

typedef struct {
    uint64_t batch, heads, queries, keys, width, value_width;
} fm_attention_shape;

// The memory-efficient attention's backward: delta and an fp32 accumulator of dq; above a head size of 128 in 16 bits of dk and dv too.
// Source: aten/src/ATen/native/transformers/cuda/attention_backward.cu, mem_eff_attention/kernel_backward.h (workspace_size) and
// kernels/cutlassB.h (which kernel).
uint64_t fm_efficient_backward_scratch(const fm_attention_shape *s, fm_elem elem, uint32_t capability);

// _foreach_norm of n tensors, the largest of `largest` elements: a partial norm of each 65536 elements, as many for each tensor.
// Source: aten/src/ATen/native/cuda/ForeachReduceOp.cu.
uint64_t fm_foreach_norm_scratch(uint64_t n, uint64_t largest);
#endif
