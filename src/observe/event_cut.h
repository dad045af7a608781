/* Removes events that an interrupted training has written beyond the place where it goes on, so that repeated steps are
 * there once. */
#pragma once
#include "observe/event_file.h"

/* Cuts each event file of the run in folder before its first event that is later, or is torn; a folder that is
 * not there has none.
 */
ls_status ls_event_cut_files(const char *folder, uint64_t run, ls_event_later_fn *later, void *context);
