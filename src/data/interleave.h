/* A source in the order of tf.data's interleave. */
#pragma once
#include "data/sources.h"

/* In the order of options' interleave and block_length: *source becomes another source, which owns the one before.
 * INVALID_ARGUMENT where it has no files. */
ls_status ls_source_interleave(struct ls_source **source, const ls_dataset_options *options);
