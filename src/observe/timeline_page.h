/* A timeline as one HTML file, which needs nothing beside it. */
#pragma once
#include <stdio.h>

#include "observe/timeline.h"

void ls_timeline_page_print(const struct ls_timeline *timeline, FILE *out);
