// Where the facts shipped with the tool are: data/ in the source tree, PREFIX/share/floodmark once installed.
#ifndef FM_BASE_DATA_H
#define FM_BASE_DATA_H
#include "floodmark/status.h"

// The path of `relative` ("models", "gpus/h100.json") below the first data folder that has it: $FLOODMARK_DATA; beside
// the program (../share/floodmark, then ../data, ../../data ... up to four levels, so that a build directory inside the source
// tree works from anywhere); the source tree it was built from; the prefix it was configured for.
// *out is to be freed with fm_free. FM_ERR_NOT_FOUND says where it looked. Threads: any, while none changes the
// environment.
fm_status fm_data_path(const char *relative, char **out, fm_err *err) FM_MUST_USE;
#endif
