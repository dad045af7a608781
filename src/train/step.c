/* One step on all replicas. A training step is a transaction: forward, backward and the all-reduce write only memory
 * that a step may lose (activations, gradients). When every gradient is there, all local replicas apply the update
 * without waiting for other workers.
 *
 * train_replica is a replica's step: compute runs the plan on the replica's batch; gradients_ready, called after each
 * layer's backward pass, gives the blob from offset on; ls_step_sums_end waits for the sums; update runs
 * the optimizer. With gradient accumulation gather_replica computes the batches before the last one (gathering), and
 * the last one adds their sum to its own gradients (merging), down to the offset merged. extras, the tail of the blob,
 * sum the loss, metrics and requests over all replicas; they are written before the first bucket is given.
 * progress.step.iteration names the step in flight: a failed step restores its old value. */
#include "train/step.h"

#include <stdio.h>
#include <string.h>

#include "base/activity.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/point.h"
#include "model/plan_run.h"
#include "strategy/strategy.h"
#include "train/input.h"
#include "train/model.h"
#include "train/training_state.h"
#include "train/device_times.h"

/* A replica's part in a training step, as the readiness callback sees it. */
struct training {
    ls_model *model;
    struct ls_model_replica *replica;
    struct ls_track *track; /* of the timeline */
    int local;
    bool gathering;                /* not the step's last batch: no bucket is given to the reducer */
    bool merging;                  /* not the step's first batch: the gathered gradients are added */
    size_t merged;                 /* offset from which they are added already */
    ls_status status;              /* of merging and giving */
    bool extras_written;           /* written once, before the first bucket is given */
    bool updated;                  /* the update ran with the plan */
    int64_t mark, backward;        /* begin of the timeline's next span, and of backward */
    struct ls_device_times *times; /* of a device that computes behind this thread; owns; the same of its points: */
    int point, point_of_backward;
};

static struct ls_span_facts this_step(const ls_model *model) {
    return (struct ls_span_facts){.step = model->progress.step.iteration};
}

/* Ends a span of the replica's track; the next one begins there. */
static void trace_until_now(struct training *training, const char *name) {
    ls_track_end(training->track, training->mark, name, this_step(training->model));
    training->mark = ls_track_begin(training->track);
}

/* The same of the device that computes. It has a track of its own where it does so behind this thread. */
static void trace_device(struct training *training, const char *name) {
    if (!training->times) {
        trace_until_now(training, name);
        return;
    }
    int now = ls_device_times_now(training->times);
    ls_device_times_note(training->times, training->point, now, name);
    training->point = now;
}

/* Ends the timeline's span of the plan's last part: forward, or the backward pass of the layer whose first variable
 * lies at offset. */
static void trace_progress(struct training *training, size_t offset) {
    const struct ls_network *network = training->model->built.network;
    char name[sizeof(ls_network_variable(network, 0)->name)];
    int index = 0;
    if (!training->track) return;
    if (offset == ls_network_trainable_count(network)) {
        trace_device(training, "forward");
        training->backward = training->mark;
        training->point_of_backward = training->point;
        return;
    }
    while (ls_network_variable(network, index)->offset != offset) index++;
    const char *variable = ls_network_variable(network, index)->name;
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(variable, "/"), variable);
    trace_device(training, name);
}

/* The plan has run, or is queued. */
static void trace_backward(struct training *training) {
    if (!training->times) {
        ls_track_end(training->track, training->backward, "backward", this_step(training->model));
        return;
    }
    ls_device_times_note(training->times, training->point_of_backward, training->point, "backward");
    trace_until_now(training, "queue");
}

/* The loss is known before any gradient is, so the extras go with the first bucket. */
static ls_status write_extras(const struct training *training) {
    ls_step_report_fill(training->model, training->local);
    return ls_update_run(training->replica, LS_UPDATE_REPORT);
}

static void give_gradients(struct training *training, size_t offset) {
    const ls_model *model = training->model;
    if (training->gathering) return;
    if (training->merging && !training->status)
        training->status = ls_accumulate_merge(training->replica, offset, training->merged);
    training->merged = offset;
    if (!training->status && !training->extras_written) training->status = write_extras(training);
    training->extras_written = true;
    if (!training->status) training->status = ls_step_sums_ready(model, training->local, offset);
}

/* The workers' group runs one call at a time: a plan that exchanges statistics gives its buckets at the end. */
static void gradients_ready(void *context, size_t offset) {
    const struct training *training = context;
    trace_progress(context, offset);
    if (!offset || !training->model->bound.synchronized) give_gradients(context, offset);
}

static bool completes_bucket(void *context, size_t offset, size_t before) {
    const struct ls_model_bound *bound = &((const struct training *)context)->model->bound;
    return ls_buckets_begin_in(bound->buckets, bound->bucket_count, offset, before);
}

/* Zeroes a bucket of gradients. */
static ls_status write_zeros(const struct training *training, const struct ls_bucket *bucket) {
    const struct ls_model_replica *replica = training->replica;
    size_t size = (bucket->end - bucket->begin) * sizeof(float);
    float *gradients = replica->gradients + bucket->begin;
    if (replica->device->host_memory) {
        memset(gradients, 0, size);
        return LS_OK;
    }
    LS_CLEANUP(ls_free_pointer) void *zeros = ls_alloc_aligned(size);
    if (!zeros) return ls_fail_memory("empty gradients", size);
    return replica->device->ops->copy_in(replica->device, gradients, zeros, size);
}

/* Bucket by bucket, as backward would. */
static ls_status give_zeros(struct training *training) {
    const struct ls_model_bound *bound = &training->model->bound;
    for (size_t b = 0; b < bound->bucket_count && !training->status; b++) {
        ls_status status = write_zeros(training, &bound->buckets[b]);
        if (status) return status;
        give_gradients(training, bound->buckets[b].begin);
    }
    return training->status;
}

/* A replica without examples in a short batch gives zeros. */
static ls_status no_gradients(struct training *training) {
    struct ls_plan *plan;
    ls_status status = LS_OK;
    if (training->model->bound.synchronized) {
        status = ls_plan_slots_find(training->model, training->local, 1, true, &plan);
        if (!status) status = ls_plan_run_idle(plan);
    }
    const struct ls_model_bound *bound = &training->model->bound;
    if (!status && bound->await) status = bound->await(bound->await_context, SIZE_MAX);
    if (status) return status;
    training->replica->numbers->sums = (struct ls_loss_sums){0};
    return give_zeros(training);
}

/* True if the step needs no other replica and nothing is inspected before the update. Such a step may be captured whole
 * as a program of the device, with no look of the host in between. The timeline, a reducer, an exchange, gathered
 * batches and the look for finite gradients each need the host in the middle. */
static bool is_alone(const struct training *training) {
    const ls_model *model = training->model;
    return model->strategy->local_count == 1 && !ls_step_sums_follow(model) && !training->track &&
           !training->replica->watched;
}

/* Runs plan, report and update as one program if the device can. */
static ls_status run_whole_step(struct training *training, struct ls_plan *plan) {
    const struct ls_op *optimizer = &training->replica->updates[LS_UPDATE_OPTIMIZER].op, *tail[LS_UPDATE_KINDS];
    ls_step_report_fill(training->model, training->local);
    ls_status status = optimizer->renew ? optimizer->renew(optimizer) : LS_OK;
    training->updated = true;
    return status ? status : ls_plan_run_with(plan, tail, ls_update_list(training->replica, tail));
}

/* The timeline follows each op, a reducer the buckets, and else nobody does: the device may run what lies between as
 * one program. */
static ls_status run_plan(struct training *training, struct ls_plan *plan) {
    if (is_alone(training)) return run_whole_step(training, plan);
    const struct ls_plan_follower follower = {gradients_ready, completes_bucket, training};
    if (training->track) return ls_plan_run(plan, gradients_ready, training);
    if (ls_step_sums_follow(training->model)) return ls_plan_run_followed(plan, &follower);
    ls_status status = ls_plan_run(plan, NULL, NULL);
    if (!status) give_gradients(training, 0);
    return status;
}

static void tell_of_refusal(const struct training *training, struct ls_plan *plan) {
    const char *why = ls_plan_run_refusal(plan);
    if (why)
        ls_log_warning(&training->model->strategy->runtime->log, "%s queues the ops of a step one by one: %s",
                       training->replica->device->name, why);
}

static ls_status after(ls_replica_step_fn *act, ls_model *model, int local, ls_status status) {
    return act ? act(model, local, status) : status;
}

static ls_status compute_gradients(struct training *training) {
    int64_t rows = 0;
    struct ls_plan *plan;
    ls_status status = ls_input_load(training->model, training->local, &rows);
    status = after(training->model->bound.loaded, training->model, training->local, status);
    status = ls_label_count_scale(training->model, training->local, status);
    if (status) return status;
    trace_until_now(training, "input");
    training->point = ls_device_times_now(training->times);
    if (!rows) return no_gradients(training);
    ls_turn_begin(training->model, training->local);
    status = ls_plan_slots_find(training->model, training->local, rows, true, &plan);
    if (!status) status = run_plan(training, plan);
    if (!status) tell_of_refusal(training, plan);
    status = ls_turn_end(training->model, training->local, status);
    if (!status) status = training->status;
    if (!status) trace_backward(training);
    return status;
}

/* Loads the next batch while the device computes the queued ops. */
static ls_status compute(struct training *training) {
    ls_model *model = training->model;
    ls_status status = after(model->bound.computed, model, training->local, compute_gradients(training));
    if (!status) ls_input_load_ahead(model, training->local, true);
    return status;
}

static struct training training_of(const ls_replica *replica, ls_model *model) {
    struct ls_model_replica *own = &model->built.replicas[replica->local_id];
    if (!model->progress.step.pass) own->numbers->gathered = (struct ls_loss_sums){0};
    return (struct training){
        .model = model,
        .replica = own,
        .track = replica->track,
        .local = replica->local_id,
        .merged = model->built.summed_count,
        .merging = model->progress.step.pass > 0,
        .mark = ls_track_begin(replica->track),
        .times = ls_device_times_begin(replica->device, replica->device_track),
    };
}

/* Reads the step's sums: behind the gradients, or from host memory, without waiting for the device, if gradients go
 * through it or no other replica adds to them. */
static ls_status read_extras(const struct training *training, float extras[LS_EXTRAS]) {
    const struct ls_model_replica *replica = training->replica;
    size_t at = training->model->built.summed_count, size = LS_EXTRAS * sizeof(float);
    const float *host = replica->totals ? replica->totals : replica->staging ? replica->staging + at : NULL;
    if (!host) return replica->device->ops->copy_out(replica->device, extras, replica->gradients + at, size);
    memcpy(extras, host, size);
    return LS_OK;
}

/* Before anything is changed. One worker has one rate. */
static ls_status check_others(const struct training *training) {
    float extras[LS_EXTRAS];
    if (ls_model_is_alone(training->model)) return LS_OK;
    ls_status status = read_extras(training, extras);
    return status
               ? status
               : ls_step_report_check_rate(training->model, training->model->progress.step.rule.learning_rate, extras);
}

/* Waits for the device's queue. The next batch may still be on its way. The variables of a replica that shares are
 * updated by their holder: every replica has computed its gradients by then, and the next step begins when all have
 * ended this one. */
static ls_status update(struct training *training) {
    const struct ls_model_replica *replica = training->replica;
    training->mark = ls_track_begin(training->track);
    training->point = ls_device_times_now(training->times);
    ls_status status = training->updated ? LS_OK : ls_update_apply(replica);
    if (training->times) trace_device(training, "update");
    if (!status) status = ls_device_wait(replica->device);
    if (!status && !training->local) status = read_extras(training, training->model->bound.extras);
    if (!status) trace_until_now(training, training->times ? "wait for the device" : "update");
    return status;
}

/* Drains the device's queue after a failure: the next step uses the same memory. */
static ls_status end_replica(struct training *training, ls_status status) {
    if (!status) status = ls_device_times_end(training->times, this_step(training->model));
    if (status) ls_device_drain(training->replica->device);
    ls_device_times_free(&training->times);
    return status;
}

static ls_status train_replica(ls_replica *replica, void *context) {
    ls_model *model = context;
    struct training training = training_of(replica, model);
    ls_step_sums_begin(model, replica->local_id);
    ls_status status = ls_step_sums_end(replica, model, compute(&training));
    if (model->bound.goes_on) /* the next step is computed with the variables that are there */
        return end_replica(&training, status ? status : ls_update_run(training.replica, LS_UPDATE_PENALTY));
    if (!status) status = check_others(&training);
    if (!status) status = update(&training);
    return end_replica(&training, status);
}

static ls_status gather_replica(ls_replica *replica, void *context) {
    ls_model *model = context;
    struct training training = training_of(replica, model);
    training.gathering = true;
    ls_status status = compute(&training);
    if (!status) status = ls_accumulate_keep(model, training.replica, model->progress.step.pass == 0);
    return end_replica(&training, status);
}

int64_t ls_step_rows(const ls_model *model) {
    const struct ls_pipeline *pipeline = model->progress.pipeline;
    int64_t rows = 0;
    if (!model->sync->apart) return ls_pipeline_global_rows(pipeline);
    for (int i = 0; i < model->strategy->local_count; i++) rows += ls_pipeline_rows(pipeline, i);
    return rows ? rows : 1;
}

/* One batch of the step that comes after the last committed one; fn runs on each replica. loss_scale is 1 over the rows
 * of all replicas in this batch: the sum of gradients over replicas is then the gradient of the mean loss, also where
 * the batch is short. iteration goes back after a failure and after a batch that is only gathered, since neither is a
 * step. */
static ls_status run_batch(ls_model *model, int batch, ls_replica_fn *fn) {
    struct ls_model_numbers *numbers = model->built.numbers;
    numbers->loss_scale = 1.0F / (float)ls_step_rows(model);
    numbers->statistic_scale = 1;
    ls_precision_scaling_begin(model);
    model->progress.step.pass = batch;
    model->progress.step.iteration++;
    numbers->step = model->progress.step;
    const struct ls_sync_ops *sync = model->sync;
    if (sync->begin && fn == train_replica) sync->begin(model);
    ls_status status = ls_strategy_run(model->strategy, fn, model);
    if (!status && sync->given && fn == train_replica) status = sync->given(model);
    if (status || fn == gather_replica) model->progress.step.iteration--;
    return status;
}

ls_status ls_step_gather(ls_model *model, int batch) {
    model->built.numbers->merge_scale = 1;
    ls_status status = run_batch(model, batch, gather_replica);
    ls_reached("gathered");
    return status;
}

static void tell_progress(const ls_model *model, const struct ls_loss_sums *sums, int64_t nanoseconds) {
    struct ls_activity *activity = &model->strategy->runtime->activity;
    ls_activity_set(&activity->step, model->progress.step.iteration);
    ls_durations_add(&activity->steps, nanoseconds);
    if (sums->rows) ls_activity_set_loss(activity, ls_result_loss(model, sums));
}

void ls_step_begin(ls_model *model, int batches) {
    model->progress.step.rule.learning_rate = ls_model_next_rate(model);
    model->built.numbers->merge_scale = 1.0F / (float)batches;
}

ls_status ls_step_commit(ls_model *model, int64_t begun, struct ls_loss_sums *sums) {
    ls_reached("commit");
    bool applied = ls_precision_scaling_is_finite(&model->built.replicas[0]);
    ls_loss_scaler_update(&model->progress.scaler, applied);
    struct ls_optimizer_step *step = &model->progress.step;
    if (applied && step->rule.momentum_correction) step->last_rate = step->rule.learning_rate;
    ls_status status = model->sync->commit(model, sums);
    if (!status) tell_progress(model, sums, ls_now() - begun);
    return status;
}

ls_status ls_step_train(ls_model *model, int batches, struct ls_loss_sums *sums) {
    int64_t begun = ls_now();
    ls_step_begin(model, batches);
    ls_status status = run_batch(model, batches - 1, train_replica);
    return status ? status : ls_step_commit(model, begun, sums);
}

static ls_status evaluate_rows(ls_model *model, int local, int64_t rows) {
    struct ls_model_replica *own = &model->built.replicas[local];
    size_t size = (size_t)(rows * ls_network_outputs(model->built.network)) * sizeof(float);
    struct ls_plan *plan;
    ls_turn_begin(model, local);
    ls_status status = ls_plan_slots_find(model, local, rows, false, &plan);
    if (!status) status = ls_plan_run(plan, NULL, NULL);
    if (!status) ls_input_load_ahead(model, local, false);
    if (!status) status = ls_device_wait(own->device);
    if (!status && own->outputs)
        status = own->device->ops->copy_out(own->device, own->outputs, ls_plan_outputs(plan), size);
    status = ls_turn_end(model, local, status);
    if (status) return status;
    ls_op_add_loss_sums(&own->total, &own->numbers->sums);
    return LS_OK;
}

static ls_status evaluate_replica(ls_replica *replica, void *context) {
    ls_model *model = context;
    struct ls_model_replica *own = &model->built.replicas[replica->local_id];
    int64_t rows = 0;
    ls_status status = ls_input_load(model, replica->local_id, &rows);
    status = after(model->bound.loaded, model, replica->local_id, status);
    own->output_rows = status ? 0 : rows;
    if (!status && rows) status = evaluate_rows(model, replica->local_id, rows);
    if (status) ls_device_drain(own->device);
    return status;
}

ls_status ls_step_evaluate(ls_model *model) {
    return ls_strategy_run(model->strategy, evaluate_replica, model);
}

ls_status ls_step_measure_penalty(ls_model *model) {
    struct ls_model_replica *first = &model->built.replicas[0];
    struct ls_device *device = first->device;
    struct ls_thread_state before;
    if (!ls_update_has(first, LS_UPDATE_PENALTY)) return LS_OK;
    ls_status status = device->ops->enter(device, &before);
    if (status) return status;
    status = ls_update_run(first, LS_UPDATE_PENALTY);
    if (!status) status = ls_device_wait(device);
    device->ops->leave(device, &before);
    return status;
}
