#define ROW fm_quantize_kernels_scalar
#define NAME "scalar"
#include "quantize/kernels_body.h"
