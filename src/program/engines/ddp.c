#include "program/step.h"
void fm_make_whole_parameters(fm_run *run);
const fm_engine fm_engine_ddp = {.name = "ddp", .init = fm_make_whole_parameters};
