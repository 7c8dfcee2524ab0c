#include "program/stacks/hf.h"
void fm_hf_words_families(fm_words *w) { (void)w; }
