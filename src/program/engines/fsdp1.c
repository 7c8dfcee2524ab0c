#include "program/step.h"
void fm_make_whole_parameters(fm_run *run);
const fm_engine fm_engine_fsdp1 = {.name = "fsdp1", .init = fm_make_whole_parameters};
