/* Replicas of one device compute in turn: one at a time runs its layers, in memory that all of them have. So a device
 * holds one arena, however many replicas are dealt to it. Synchronized batch normalization has replicas meet amid their
 * layers: there each has an arena of its own, and no turns. */
#include "train/step.h"

#include "base/new.h"
#include "strategy/strategy.h"
#include "train/model.h"

static bool are_taken(const ls_model *model) {
    const ls_strategy *strategy = model->strategy;
    return strategy->local_count > strategy->device_count && ls_sync_batch_norm_first(model) == model->spec.layer_count;
}

ls_status ls_turns_new(int count, struct ls_monitor **turns) {
    LS_NEW_ARRAY(struct ls_monitor, made, (size_t)count, "turns of replicas");
    ls_status status = LS_OK;
    for (int i = 0; !status && i < count; i++) status = ls_monitor_init(&made[i]);
    *turns = made;
    return status;
}

void ls_turns_free(struct ls_monitor *turns, int count) {
    for (int i = 0; turns && i < count; i++) ls_monitor_destroy(&turns[i]);
    ls_free(turns);
}

int ls_turn_arena(const ls_model *model, int local) {
    return are_taken(model) ? ls_strategy_first_of_device(model->strategy, local) : local;
}

void ls_turn_begin(const ls_model *model, int local) {
    if (are_taken(model)) ls_monitor_lock(&model->built.turns[ls_strategy_first_of_device(model->strategy, local)]);
}

ls_status ls_turn_end(const ls_model *model, int local, ls_status status) {
    struct ls_device *device = model->built.replicas[local].device;
    if (!are_taken(model)) return status;
    if (status)
        ls_device_drain(device);
    else
        status = ls_device_wait(device);
    ls_monitor_unlock(&model->built.turns[ls_strategy_first_of_device(model->strategy, local)]);
    return status;
}
