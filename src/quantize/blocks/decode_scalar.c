// Decoding, compiled for scalar.
#define FM_DECODE_TABLE fm_block_decoders_scalar
#define FM_LARGEST fm_block_largest_scalar
#include "quantize/blocks/largest.inc.h"
#include "quantize/blocks/decode.inc.h"
