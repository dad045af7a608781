/* Option structs: `size` first, so that a program built against an older header still works. */
#pragma once
#include <lockstep/lockstep.h>

/* Copies options into a zeroed struct of known bytes; NULL options are all zero. INVALID_ARGUMENT names the struct when
 * its size field was not filled in or is larger than this library knows. */
ls_status ls_options_copy(const char *name, void *copy, size_t known, const void *options);
