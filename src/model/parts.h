/* Runs of ops that go over the batch a few images at a time, so that what one op writes is still in the cache when
 * the next one reads it; what only they see needs memory for those few images. */
#pragma once
#include "model/plan.h"

/* Finds those runs; lifetimes of the buffers are known, and all tensors over the batch are float32. One run,
 * all its parts. */
void ls_parts_divide(struct ls_plan *plan, int64_t rows);
ls_status ls_parts_run(struct ls_plan *plan, size_t begin, size_t end);
