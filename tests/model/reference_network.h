/* The oracle of networks: the whole of forward, loss and backward in double precision, made of device/reference.h. */
#pragma once
#include <lockstep/lockstep.h>

#include "model/network.h"

struct reference_network {
    const struct ls_network *network; /* for the variables' offsets */
    const ls_layer *layers;
    size_t count;
    ls_shape input;
    ls_loss loss;
    int64_t rows;
    double scale; /* of the loss and its gradients: 1 / global rows */
    const double *features;
    const int32_t *labels;
};
/* The scaled loss. gradients (a blob, overwritten except for its gaps) may be NULL. */
double reference_network_run(const struct reference_network *run, const double *parameters, double *gradients);
