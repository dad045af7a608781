/* The part of a source that validation_split leaves for training, or for validation. */
#pragma once
#include "data/sources.h"

/* *source becomes one that owns the one before. Of the examples that skip and limit leave, and then are 0. */
ls_status ls_source_part(struct ls_source **source, ls_dataset_options *options);
