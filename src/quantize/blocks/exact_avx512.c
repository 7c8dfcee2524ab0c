#include "quantize/blocks/exact_ref.h"
fm_block_encoder *const fm_block_exact_avx512[FM_BLOCK_N] = {0};
