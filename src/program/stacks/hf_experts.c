#include "program/stacks/hf.h"
void fm_hf_words_experts(fm_words *w) { (void)w; }
