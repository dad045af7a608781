/* Several files that are in a folder all together or not at all: made in a hidden folder there, moved up in the end. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/whole_file.h"

/* Makes folder, unless it is there, and the hidden one in it: staging's path. */
ls_status ls_staging_begin(const char *folder, struct ls_whole_file_partial *staging);
/* With LS_OK brings what is in it to the disk and moves it up: ALREADY_EXISTS where a folder of the same name holds
 * something. Else removes it. Returns status, or its own. */
ls_status ls_staging_end(const char *folder, struct ls_whole_file_partial *staging, ls_status status);
