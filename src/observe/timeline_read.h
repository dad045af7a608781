/* Reading one file back. */
#pragma once
#include "observe/timeline.h"

/* timeline_read.c. INVALID_ARGUMENT naming path, line and column, or the event. */
ls_status ls_timeline_read_parse(const char *path, const char *text, size_t size, struct ls_timeline_file *file);
ls_status ls_timeline_read(const char *path, struct ls_timeline_file *file);
void ls_timeline_read_free_file(struct ls_timeline_file *file);
