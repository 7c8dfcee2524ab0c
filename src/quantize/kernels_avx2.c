#define ROW fm_quantize_kernels_avx2
#define NAME "avx2"
#include "quantize/kernels_body.h"
