// The searches, compiled for avx512.
#define FM_LANES_AVX512
#define FM_SEARCH_TABLE fm_block_search_avx512
#include "quantize/blocks/search.inc.h"
