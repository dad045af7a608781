/* The merged trace, and the summary for people and for machines. */
#pragma once
#include "observe/timeline.h"

void ls_timeline_print_merged(const struct ls_timeline *timeline, FILE *out);
void ls_timeline_print_text(const struct ls_timeline *timeline, FILE *out);
void ls_timeline_print_json(const struct ls_timeline *timeline, FILE *out);
