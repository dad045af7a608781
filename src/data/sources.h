/* The common parts of the kinds of source, and the recognition of a folder by ls_dataset_open. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"
#include "data/image.h"

#define LS_DATA_MAX_WORKERS 64

/* The destination of an image: height x width x channels float32 in [0, 1]. */
struct ls_image_place {
    const ls_shape *shape;
    float *features;
};
/* NULL if the class has no name. */
const char *ls_source_class_name(const struct ls_source *source, int label);
/* NULL if the example has no file of its own. */
const char *ls_source_path(const struct ls_source *source, int64_t index);
/* The example's bytes, of a source of bytes; without its bytes they are made of the floats. */
ls_status ls_source_bytes(const struct ls_source *source, int64_t index, uint8_t *features,
                          const struct ls_targets *targets);
/* An example's targets, by the cheapest way that the source has. */
ls_status ls_source_targets(const struct ls_source *source, int64_t index, const struct ls_targets *targets);
