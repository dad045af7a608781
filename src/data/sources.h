/* What the kinds of source share, and how ls_dataset_open recognises a folder. */
#pragma once
#include <lockstep/lockstep.h>

#include "data/dataset.h"

/* Checks options (NULL: all defaults) and fills the defaults in. INVALID_ARGUMENT naming the field and the value. */
ls_status ls_dataset_options_fill(const ls_dataset_options *options, ls_dataset_options *filled);

/* Whether folder holds the images of that split. */
ls_status ls_mnist_present(const char *folder, ls_split split, bool *present);
ls_status ls_cifar10_present(const char *folder, ls_split split, bool *present);

/* Pixels are kept as bytes and become float32 in [0, 1] when read. */
void ls_pixels_to_unit(const uint8_t *pixels, size_t count, float *values);
