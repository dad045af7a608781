/* The reducer adds bucket by bucket while backward goes on. Without it a worker needs no other one: its replicas meet
 * when all have their gradients, and add the whole blobs. */
#include "train/step.h"

#include "strategy/strategy.h"

bool ls_step_sums_follow(const ls_model *model) {
    return model->bound.reducer;
}

void ls_step_sums_begin(const ls_model *model, int local) {
    if (model->bound.reducer) ls_reducer_begin(model->bound.reducer, local, model->progress.step.iteration);
}

ls_status ls_step_sums_ready(const ls_model *model, int local, size_t offset) {
    return model->bound.reducer ? ls_reducer_ready(model->bound.reducer, local, offset) : LS_OK;
}

/* All replicas must have gradients before one adds them. */
static ls_status check_replicas(ls_strategy *strategy, void *context) {
    const ls_model *model = context;
    for (int i = 0; i < strategy->local_count; i++)
        if (model->built.replicas[i].status)
            return ls_fail(LS_ABORTED, "the step is given up: replica %d failed", strategy->replicas[i].id);
    return LS_OK;
}

/* The replica's gradients and all of the others' are there. */
static ls_status add_in_worker(ls_replica *replica, const struct ls_adder *adder, const struct ls_bucket *whole) {
    const struct ls_host_staging *own = &adder->routes[replica->local_id];
    void *arrays[LS_MAX_LOCAL_DEVICES];
    for (int i = 0; i < adder->count; i++) arrays[i] = adder->arrays[i];
    const struct ls_cross_device_call call = {LS_SUM, LS_FLOAT32, whole->end, arrays, adder->count};
    ls_status status = ls_cross_device_all_reduce(replica, &call);
    if (!status) status = ls_host_staging_return(own, whole);
    return status ? status : ls_host_staging_settle(own);
}

static ls_status bring_to_host(const ls_replica *replica, const struct ls_adder *adder, const struct ls_bucket *whole) {
    const struct ls_host_staging *own = &adder->routes[replica->local_id];
    ls_status status = ls_host_staging_send(own, 0, whole);
    return status ? status : ls_host_staging_arrive(own, 0, adder->runtime);
}

static ls_status reduce_in_worker(ls_replica *replica, ls_model *model, ls_status status) {
    const struct ls_bucket whole = {0, model->built.summed_count + LS_EXTRAS};
    const struct ls_adder *adder = &model->bound.adder;
    if (adder->count == 1) return status;
    int64_t begun = ls_track_begin(replica->track);
    if (!status) status = bring_to_host(replica, adder, &whole);
    struct ls_kept_error kept = ls_kept_error_of(status); /* the meeting sets an error of its own */
    model->built.replicas[replica->local_id].status = status;
    ls_status others = ls_replicas_meet(replica, check_replicas, model);
    if (status) return ls_kept_error_raise(&kept);
    if (!others) others = add_in_worker(replica, adder, &whole);
    ls_track_end(replica->track, begun, "all-reduce",
                 (struct ls_span_facts){model->progress.step.iteration, 0, whole.end * sizeof(float)});
    return others;
}

ls_status ls_step_sums_end(ls_replica *replica, ls_model *model, ls_status status) {
    if (!model->bound.reducer) return reduce_in_worker(replica, model, status);
    return status ? ls_reducer_fail(model->bound.reducer, replica->local_id, status)
                  : ls_reducer_wait(model->bound.reducer, replica->local_id);
}
