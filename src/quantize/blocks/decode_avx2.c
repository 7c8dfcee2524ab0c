// Decoding, compiled for avx2.
#define FM_DECODE_TABLE fm_block_decoders_avx2
#include "quantize/blocks/decode.inc.h"
