/* Keras' two ways to keep weights in HDF5. */
#pragma once
#include "weights/weights.h"

ls_status ls_weights_keras_from_hdf5(const char *path, struct ls_weights *weights);
