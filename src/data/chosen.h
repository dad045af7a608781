/* A source of some of another one's examples, or of all in another order. */
#pragma once
#include "data/sources.h"

/* *source becomes one that owns the one before, and has its examples kept[0], kept[1], ... kept is taken, on failure
 * too. */
ls_status ls_source_chosen(struct ls_source **source, int64_t *kept, int64_t count);
