/* The part of a source that validation_split leaves for training, or for validation. */
#pragma once
#include "data/sources.h"

/* The numbers of the examples of options' part, rising, freed with ls_free. */
ls_status ls_part_draw(const struct ls_source *source, const ls_dataset_options *options, int64_t **kept,
                       int64_t *count);
/* *source becomes one that owns the one before. Of the examples that skip and limit leave, and then are 0. */
ls_status ls_source_part(struct ls_source **source, ls_dataset_options *options);
