/* Sums over all replicas in the middle of a step, of this worker alone where workers train apart. Every replica comes
 * to every exchange, in one order; the last one of a worker to come adds for all of them, in the tree over replica ids.
 * A replica that fails comes with its error in place of values: so nobody waits for it. An exchange that fails has
 * failed for the whole worker. */
#include "train/step.h"

#include <string.h>

#include "base/point.h"
#include "base/status.h"
#include "strategy/strategy.h"
#include "train/model.h"
#include "train/staged.h"

/* Other workers hear the cause, and not that their peers have given up. */
static ls_status give_up_step(ls_model *model, int local) {
    const struct ls_model_exchange *failed = &model->built.replicas[local].exchange;
    const struct ls_runtime *runtime = model->strategy->runtime;
    if (runtime->size > 1) ls_runtime_give_up(runtime, failed->error.status, failed->error.message);
    return ls_fail(LS_ABORTED, "the step is given up: replica %d failed", model->strategy->replicas[local].id);
}

/* Workers train apart: the sums are of this one's replicas. They are of counts, which no order changes. */
static void add_here(void *const *arrays, int replicas, size_t count) {
    double *first = arrays[0];
    for (int i = 1; i < replicas; i++)
        for (size_t k = 0; k < count; k++) first[k] += ((const double *)arrays[i])[k];
    for (int i = 1; i < replicas; i++) memcpy(arrays[i], first, count * sizeof(double));
}

/* By the last replica to come. */
static ls_status add_all(ls_strategy *strategy, void *context) {
    ls_model *model = context;
    void *arrays[LS_MAX_LOCAL_DEVICES];
    size_t count = model->built.replicas[0].exchange.count;
    int giving = 0;
    for (int i = 0; i < strategy->local_count; i++) {
        const struct ls_model_exchange *exchange = &model->built.replicas[i].exchange;
        if (exchange->error.status) return give_up_step(model, i);
        arrays[i] = exchange->values;
        giving += exchange->values && exchange->count == count;
    }
    if (!giving) return LS_OK; /* the end */
    if (giving != strategy->local_count) return ls_fail(LS_INTERNAL, "replicas came to different exchanges of a step");
    ls_reached("exchange");
    if (model->built.stages) return ls_staged_add(model->built.stages, LS_FLOAT64, arrays[0], count);
    if (model->sync->apart) {
        add_here(arrays, strategy->local_count, count);
        return LS_OK;
    }
    return ls_reduce_all_replicas(strategy, LS_ALL_REDUCE("numbers of a step", .count = count, .dtype = LS_FLOAT64,
                                                          .inputs = (const void *const *)arrays, .outputs = arrays));
}

ls_status ls_step_exchange(struct ls_model_exchange *own, double *values, size_t count) {
    own->values = values;
    own->count = count;
    ls_status status = ls_replicas_meet(own->replica, add_all, own->model);
    own->failed = status != LS_OK;
    return status;
}

void ls_step_exchange_attach(ls_model *model) {
    ls_strategy *strategy = model->strategy;
    for (int i = 0; i < strategy->local_count; i++)
        model->built.replicas[i].exchange =
            (struct ls_model_exchange){.model = model, .replica = &strategy->replicas[i]};
}
