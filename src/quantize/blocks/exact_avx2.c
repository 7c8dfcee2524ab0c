#include "quantize/blocks/exact_ref.h"
fm_block_encoder *const fm_block_exact_avx2[FM_BLOCK_N] = {0};
