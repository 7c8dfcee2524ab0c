// The searches, compiled for scalar.
#define FM_SEARCH_TABLE fm_block_search_scalar
#include "quantize/blocks/search.inc.h"
