// One block of an exact format, as defined: x[block_elems] to bytes[block_bytes]. Private.
#ifndef FM_QUANTIZE_BLOCKS_EXACT_REF_H
#define FM_QUANTIZE_BLOCKS_EXACT_REF_H
#include "quantize/blocks/kernels.h"
void fm_block_ref_q8_0(const float *x, uint8_t *bytes);
void fm_block_ref_q4_0(const float *x, uint8_t *bytes);
void fm_block_ref_q4_1(const float *x, uint8_t *bytes);
void fm_block_ref_q5_0(const float *x, uint8_t *bytes);
void fm_block_ref_q5_1(const float *x, uint8_t *bytes);
void fm_block_ref_mxfp4(const float *x, uint8_t *bytes);
void fm_block_ref_nvfp4(const float *x, uint8_t *bytes);
uint16_t fm_block_ref_bf16(float x);
#endif
