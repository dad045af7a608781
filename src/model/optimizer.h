/* Optimizers: how many moment blobs a rule needs, and one op over whole blobs. Keras' update rules (keras.optimizers).
 */
#pragma once
#include <lockstep/lockstep.h>

#include "device/device.h"
#include "model/network.h"

/* Fills in Keras' defaults; INVALID_ARGUMENT naming the field and the value. */
ls_status ls_optimizer_resolve(ls_optimizer *rule);
ls_status ls_optimizer_check_rate(float learning_rate);
enum ls_op_kind ls_optimizer_op(const ls_optimizer *rule);
int ls_optimizer_moments(const ls_optimizer *rule); /* 0 to LS_MAX_MOMENTS blobs */
/* "sgd(learning_rate=0.01, momentum=0, nesterov=0)": equal exactly when the rules are. Freed with ls_free. */
ls_status ls_optimizer_describe(const ls_optimizer *rule, char **text);
/* Returns false if the rule's weight decay leaves it out. */
bool ls_optimizer_decays(const ls_optimizer *rule, const struct ls_network_variable *variable);
/* The network's trainable variables as the rule sees them: *parts is freed with ls_free. */
ls_status ls_optimizer_parts(const ls_optimizer *rule, const struct ls_network *network, struct ls_blob_part **parts,
                             size_t *count);

/* count floats each, on one device; all borrowed. */
struct ls_optimizer_blobs {
    size_t count;
    float *parameters, *gradients;
    float *moments[LS_MAX_MOMENTS]; /* as many as the rule needs */
    const struct ls_blob_part *parts;
    size_t part_count;
};
/* Builds op to update the parameters by the gradients, which it may change. step is read at each run. Discard with
 * device->ops->discard. */
ls_status ls_optimizer_build(struct ls_device *device, const struct ls_optimizer_step *step,
                             const struct ls_optimizer_blobs *blobs, struct ls_op *op);

/* Learning rates as functions of the step. Mirrors keras.optimizers.schedules. */

/* INVALID_ARGUMENT naming the field and the value. */
ls_status ls_rate_schedule_check(const ls_rate_schedule *schedule);
/* True if the rate is the optimizer's own at every step. */
bool ls_rate_schedule_is_constant(const ls_rate_schedule *schedule);
/* Of step, counted from 0; rate is the optimizer's. A function of its arguments only: the same bits everywhere. */
float ls_rate_schedule_rate(const ls_rate_schedule *schedule, float rate, int64_t step);
/* "cosine_decay(decay_steps=100, ...)": equal exactly when the schedules are. */
void ls_rate_schedule_describe(const ls_rate_schedule *schedule, char *text, size_t size);
