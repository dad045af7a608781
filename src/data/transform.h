/* The features that a table's columns become, as a text that is saved with a model: one JSON object. "columns" has for
 * each its "name" and "mean" and "deviation", or "categories". "target" has a "name" and, for classes, their
 * "categories". */
#pragma once
#include "data/column.h"

struct ls_transform {
    struct ls_column *columns; /* own: [count] */
    int64_t count;
    struct ls_column target; /* name NULL: none is known */
};
ls_status ls_transform_write(const struct ls_transform *transform, char **text);
/* Columns get all but their place and their rows. INVALID_ARGUMENT where text is none. */
ls_status ls_transform_read(const char *text, struct ls_transform *transform);
void ls_transform_free(struct ls_transform *transform);
