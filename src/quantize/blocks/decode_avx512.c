// Decoding, compiled for avx512.
#define FM_DECODE_TABLE fm_block_decoders_avx512
#include "quantize/blocks/decode.inc.h"
