// Decoding, compiled for scalar.
#define FM_DECODE_TABLE fm_block_decoders_scalar
#include "quantize/blocks/decode.inc.h"
