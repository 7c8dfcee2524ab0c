// The searches, compiled for avx2.
#define FM_LANES_AVX2
#define FM_SEARCH_TABLE fm_block_search_avx2
#include "quantize/blocks/search.inc.h"
