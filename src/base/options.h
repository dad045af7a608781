/* Option structs: `size` first, so that a program built against an older header still works. */
#pragma once
#include <lockstep/lockstep.h>

/* Copies options (NULL: all zero) into a zeroed struct of known bytes. INVALID_ARGUMENT naming the struct when its size
 * field was not filled in or is larger than what this library knows. */
ls_status ls_options_copy(const char *name, void *copy, size_t known, const void *options);
