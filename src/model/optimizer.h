/* Optimizers: how many moment blobs a rule needs, and one op over whole blobs. Keras' update rules (keras.optimizers).
 */
#pragma once
#include <lockstep/lockstep.h>

#include "device/device.h"

/* Fills in Keras' defaults; INVALID_ARGUMENT naming the field and the value. */
ls_status ls_optimizer_resolve(ls_optimizer *rule);
ls_status ls_optimizer_check_rate(float learning_rate);
int ls_optimizer_moments(const ls_optimizer *rule); /* 0, 1 or 2 blobs */
/* "sgd(learning_rate=0.01, momentum=0, nesterov=0)": equal exactly when the rules are. */
void ls_optimizer_describe(const ls_optimizer *rule, char *text, size_t size);
/* Builds op to update parameters (count floats on device) by gradients; moments[] as many as the rule needs. step is
 * read at each run. Discard with device->ops->discard. */
ls_status ls_optimizer_build(struct ls_device *device, const struct ls_optimizer_step *step, size_t count,
                             float *parameters, const float *gradients, float *const moments[2], struct ls_op *op);
