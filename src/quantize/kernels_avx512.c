#define ROW fm_quantize_kernels_avx512
#define NAME "avx512"
#include "quantize/kernels_body.h"
