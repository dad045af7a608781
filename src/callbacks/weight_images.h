/* Weights as images, as Keras' TensorBoard callback makes them. */
#pragma once
#include "observe/event_file.h"

/* Writes a variable as up to three images; one that no image can be made of is left out. */
ls_status ls_weight_images(struct ls_event_file *file, const char *tag, int64_t step, const ls_shape *shape,
                           const float *data);
