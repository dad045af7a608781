/* One step on all replicas. A training step is a transaction: forward, backward and the all-reduce touch only what a
 * step may lose (activations, gradients); when every gradient is there, all local replicas apply the update without
 * waiting for anyone, and the iteration counter moves last. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/point.h"
#include "strategy/model.h"

/* The replica's plan for so many rows: kept, since only a few row counts occur. */
static ls_status find_plan(ls_model *model, int local, int64_t rows, bool training, struct ls_plan **plan) {
    struct ls_model_replica *replica = &model->replicas[local];
    struct ls_plan_slot *oldest = &replica->plans[0];
    replica->clock++;
    for (size_t i = 0; i < LS_PLANS_KEPT; i++) {
        struct ls_plan_slot *slot = &replica->plans[i];
        if (slot->plan && slot->rows == rows && slot->training == training && slot->input == replica->input) {
            slot->used = replica->clock;
            *plan = slot->plan;
            return LS_OK;
        }
        if (slot->used < oldest->used) oldest = slot;
    }
    const struct ls_plan_config config = {
        .network = model->network,
        .device = replica->device,
        .rows = rows,
        .training = training,
        .objective = model->objective,
        .parameters = replica->parameters,
        .gradients = training ? replica->gradients : NULL,
        .features = replica->inputs[replica->input].features,
        .labels = replica->inputs[replica->input].labels,
        .loss_scale = &model->numbers->loss_scale,
        .gradient_scale = &model->numbers->gradient_scale,
        .sums = &replica->numbers->sums,
        .arena = &replica->arena,
        .exchange = model->synchronized ? &replica->exchange.exchange : NULL,
        .seed = model->seed,
        .replica = model->strategy->replicas[local].id,
        .step = &model->numbers->step,
    };
    struct ls_plan *made;
    ls_status status = ls_plan_new(&config, &made);
    if (status) return status;
    ls_plan_free(oldest->plan);
    *oldest = (struct ls_plan_slot){made, rows, replica->input, training, replica->clock};
    *plan = made;
    return LS_OK;
}

/* A replica's part in a training step, as the readiness callback sees it. */
struct training {
    ls_model *model;
    struct ls_model_replica *replica;
    struct ls_track *track; /* of the timeline */
    int local;
    bool gathering;         /* it is not the step's last batch: nothing is given to others */
    bool merging;           /* it is not the step's first one: what was gathered is added */
    size_t merged;          /* where the part of the blob begins that has it */
    ls_status status;       /* of merging and giving */
    bool extras_written;    /* they go once, with the first bucket */
    bool updated;           /* with the gradients */
    int64_t mark, backward; /* where the timeline's next span begins, and where backward did */
};

static struct ls_span_facts this_step(const ls_model *model) {
    return (struct ls_span_facts){.step = model->step.iteration};
}

/* Ends a span of the replica's track; the next one begins there. */
static void trace_until_now(struct training *training, const char *name) {
    ls_track_end(training->track, training->mark, name, this_step(training->model));
    training->mark = ls_track_begin(training->track);
}

/* What the plan has just done: forward, or the backward pass of the layer whose first variable lies at offset. */
static void trace_progress(struct training *training, size_t offset) {
    const struct ls_network *network = training->model->network;
    char name[sizeof(ls_network_variable(network, 0)->name)];
    int index = 0;
    if (!training->track) return;
    if (offset == ls_network_trainable_count(network)) {
        trace_until_now(training, "forward");
        training->backward = training->mark;
        return;
    }
    while (ls_network_variable(network, index)->offset != offset) index++;
    const char *variable = ls_network_variable(network, index)->name;
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(variable, "/"), variable);
    trace_until_now(training, name);
}

static void write_rate(const ls_model *model, float *bytes) {
    uint32_t bits;
    memcpy(&bits, &model->step.rule.learning_rate, sizeof(bits));
    for (int i = 0; i < 4; i++) bytes[i] = (float)(bits >> 8 * i & 0xFF);
}

/* All replicas of all workers must have the same: then each sum is so many times this worker's own. */
static ls_status check_rate(const ls_model *model, const float *extras) {
    float own[4], replicas = (float)model->strategy->total_count;
    write_rate(model, own);
    for (int i = 0; i < 4; i++)
        if (extras[LS_EXTRA_RATE + i] != own[i] * replicas)
            return ls_fail(LS_INVALID_ARGUMENT,
                           "the learning rate is %g on rank %d and another one on another worker: set it alike on all",
                           (double)model->step.rule.learning_rate, model->strategy->membership->rank);
    return LS_OK;
}

/* The loss is known before any gradient is, so the extras go with the first bucket. A worker's first replica speaks for
 * the worker. */
static void fill_report(const struct training *training) {
    const ls_model *model = training->model;
    struct ls_model_replica *replica = training->replica;
    ls_request request = training->local ? LS_GO_ON : model->request;
    float *report = replica->numbers->report;
    report[LS_EXTRA_SAVE] = request == LS_SAVE ? 1.0F : 0.0F;
    report[LS_EXTRA_STOP] = request == LS_STOP ? 1.0F : 0.0F;
    report[LS_EXTRA_STOP_RANKS] = request == LS_STOP ? (float)model->strategy->membership->rank : 0.0F;
    write_rate(model, report + LS_EXTRA_RATE);
}

static ls_status write_extras(const struct training *training) {
    fill_report(training);
    return training->replica->report.run(&training->replica->report);
}

static void give_gradients(struct training *training, size_t offset) {
    const ls_model *model = training->model;
    if (training->gathering) return;
    if (training->merging && !training->status)
        training->status = ls_gather_merge(training->replica, offset, training->merged);
    training->merged = offset;
    if (!training->status && !training->extras_written) training->status = write_extras(training);
    training->extras_written = true;
    if (!training->status && model->reducer) /* which is told of a failure at the end */
        training->status = ls_reducer_ready(model->reducer, training->local, offset);
}

/* The workers' group is one call's at a time: what exchanges statistics on the way gives its buckets at the end. */
static void gradients_ready(void *context, size_t offset) {
    const struct training *training = context;
    trace_progress(context, offset);
    if (!offset || !training->model->synchronized) give_gradients(context, offset);
}

/* To a blob of gradients. */
static ls_status write_zeros(const struct training *training) {
    const struct ls_model_replica *replica = training->replica;
    size_t size = (training->model->blob_count + LS_EXTRAS) * sizeof(float);
    if (replica->device->host_memory) {
        memset(replica->gradients, 0, size);
        return LS_OK;
    }
    LS_CLEANUP(ls_free_pointer) void *zeros = ls_alloc_aligned(size);
    if (!zeros) return ls_fail_memory("empty gradients", size);
    return replica->device->ops->copy_in(replica->device, replica->gradients, zeros, size);
}

/* A replica without examples in a short batch gives zeros. */
static ls_status no_gradients(struct training *training) {
    struct ls_plan *plan;
    ls_status status = LS_OK;
    if (training->model->synchronized) {
        status = find_plan(training->model, training->local, 1, true, &plan);
        if (!status) status = ls_plan_run_idle(plan);
    }
    if (!status) status = write_zeros(training);
    if (status) return status;
    training->replica->numbers->sums = (struct ls_loss_sums){0};
    give_gradients(training, 0);
    return training->status;
}

/* Gradients that are no numbers change nothing, on any replica. */
static ls_status update_replica(const struct ls_model_replica *replica) {
    ls_status status = replica->penalty_built ? replica->penalty.run(&replica->penalty) : LS_OK;
    if (!status) status = ls_scaling_look(replica);
    if (status || !ls_scaling_is_finite(replica)) return status;
    status = replica->optimizer.run(&replica->optimizer);
    return status || !replica->statistics_built ? status : replica->statistics.run(&replica->statistics);
}

/* Nobody else has a part in the step, and nothing of it is looked at before it is applied. */
static bool is_alone(const struct training *training) {
    const ls_model *model = training->model;
    return model->strategy->local_count == 1 && !model->reducer && !model->synchronized && !training->track &&
           !training->replica->gathered && !training->replica->finite_built;
}

static ls_status report_and_update(void *context) {
    const struct ls_model_replica *replica = context;
    ls_status status = replica->report.run(&replica->report);
    return status ? status : update_replica(replica);
}

/* As one, where the device can. */
static ls_status run_whole_step(struct training *training, struct ls_plan *plan) {
    const struct ls_op *optimizer = &training->replica->optimizer;
    fill_report(training);
    ls_status status = optimizer->renew ? optimizer->renew(optimizer) : LS_OK;
    training->updated = true;
    return status ? status : ls_plan_run_with(plan, report_and_update, training->replica);
}

/* Where nobody needs to know how far the plan is, it may be run as one. */
static ls_status run_plan(struct training *training, struct ls_plan *plan) {
    if (is_alone(training)) return run_whole_step(training, plan);
    if (training->track || training->model->reducer) return ls_plan_run(plan, gradients_ready, training);
    ls_status status = ls_plan_run(plan, NULL, NULL);
    if (!status) give_gradients(training, 0);
    return status;
}

static ls_status compute_gradients(struct training *training) {
    int64_t rows;
    struct ls_plan *plan;
    ls_status status = ls_input_load(training->model, training->local, &rows);
    if (status) return status;
    trace_until_now(training, "input");
    if (!rows) return no_gradients(training);
    status = find_plan(training->model, training->local, rows, true, &plan);
    if (!status) status = run_plan(training, plan);
    if (!status) status = training->status;
    if (!status) ls_track_end(training->track, training->backward, "backward", this_step(training->model));
    return status;
}

/* What is queued is computed while the next batch is brought. */
static ls_status compute(struct training *training) {
    ls_status status = ls_model_exchange_end(training->model, training->local, compute_gradients(training));
    if (!status) ls_input_load_ahead(training->model, training->local, true);
    return status;
}

/* Within one worker: everybody must have gradients before anybody adds. */
static ls_status check_replicas(ls_strategy *strategy, void *context) {
    const ls_model *model = context;
    for (int i = 0; i < strategy->local_count; i++)
        if (model->replicas[i].status)
            return ls_fail(LS_ABORTED, "the step is given up: replica %d failed", strategy->replicas[i].id);
    return LS_OK;
}

static struct ls_route route_of(const struct ls_model_replica *replica) {
    return (struct ls_route){replica->device, replica->gradients,
                             replica->staging ? replica->staging : replica->gradients};
}

/* The replica's gradients and all of the others' are there. */
static ls_status add_in_worker(ls_replica *replica, ls_model *model, const struct ls_bucket *whole) {
    void *arrays[LS_MAX_LOCAL_DEVICES];
    int count = model->strategy->local_count;
    for (int i = 0; i < count; i++) arrays[i] = route_of(&model->replicas[i]).host;
    const struct ls_cross_device_call call = {LS_SUM, LS_FLOAT32, whole->end, arrays, count};
    const struct ls_route own = route_of(&model->replicas[replica->local_id]);
    ls_status status = ls_cross_device_all_reduce(replica, &call);
    if (!status) status = ls_route_return(&own, whole);
    return status ? status : ls_route_settle(&own);
}

static ls_status bring_to_host(const ls_replica *replica, const ls_model *model, const struct ls_bucket *whole) {
    const struct ls_route own = route_of(&model->replicas[replica->local_id]);
    ls_status status = ls_route_send(&own, 0, whole);
    return status ? status : ls_route_arrive(&own, 0, model->strategy->membership);
}

static ls_status reduce_in_worker(ls_replica *replica, ls_model *model, ls_status status) {
    const struct ls_bucket whole = {0, model->blob_count + LS_EXTRAS};
    if (model->strategy->local_count == 1) return status;
    int64_t begun = ls_track_begin(replica->track);
    char error[LS_ERROR_SIZE]; /* the meeting has an error of its own then */
    if (!status) status = bring_to_host(replica, model, &whole);
    (void)memcpy(error, ls_error(), strlen(ls_error()) + 1);
    model->replicas[replica->local_id].status = status;
    ls_status others = ls_replicas_meet(replica, check_replicas, model);
    if (status) return ls_fail(status, "%s", error);
    if (!others) others = add_in_worker(replica, model, &whole);
    ls_track_end(replica->track, begun, "all-reduce",
                 (struct ls_span_facts){model->step.iteration, 0, whole.end * sizeof(float)});
    return others;
}

static ls_status reduce_gradients(ls_replica *replica, ls_model *model, ls_status status) {
    if (!model->reducer) return reduce_in_worker(replica, model, status);
    return status ? ls_reducer_fail(model->reducer, replica->local_id, status)
                  : ls_reducer_wait(model->reducer, replica->local_id);
}

static struct training training_of(const ls_replica *replica, ls_model *model) {
    struct ls_model_replica *own = &model->replicas[replica->local_id];
    if (!model->step.pass) own->numbers->gathered = (struct ls_loss_sums){0};
    return (struct training){
        .model = model,
        .replica = own,
        .track = replica->track,
        .local = replica->local_id,
        .merged = model->blob_count,
        .merging = model->step.pass > 0,
        .mark = ls_track_begin(replica->track),
    };
}

/* What is summed up beside the gradients; where they went through host memory without waiting for the device. */
static ls_status read_extras(const struct training *training, float extras[LS_EXTRAS]) {
    const struct ls_model_replica *replica = training->replica;
    size_t at = training->model->blob_count, size = LS_EXTRAS * sizeof(float);
    if (!replica->staging)
        return replica->device->ops->copy_out(replica->device, extras, replica->gradients + at, size);
    memcpy(extras, replica->staging + at, size);
    return LS_OK;
}

/* Before anything is changed. One worker has one rate. */
static ls_status check_others(const struct training *training) {
    float extras[LS_EXTRAS];
    if (training->model->strategy->membership->size == 1) return LS_OK;
    ls_status status = read_extras(training, extras);
    return status ? status : check_rate(training->model, extras);
}

/* The next batch may go on coming. */
static ls_status update(struct training *training) {
    const struct ls_model_replica *replica = training->replica;
    training->mark = ls_track_begin(training->track);
    ls_status status = training->updated ? LS_OK : update_replica(replica);
    if (!status) status = ls_device_wait(replica->device);
    if (!status && !training->local) status = read_extras(training, training->model->extras);
    if (!status) trace_until_now(training, "update");
    return status;
}

/* A step that is given up leaves nothing in the device's queue: the next one has the same memory. */
static ls_status end_replica(const struct training *training, ls_status status) {
    if (status) ls_device_drain(training->replica->device);
    return status;
}

static ls_status train_replica(ls_replica *replica, void *context) {
    ls_model *model = context;
    struct training training = training_of(replica, model);
    if (model->reducer) ls_reducer_begin(model->reducer, replica->local_id, model->step.iteration);
    ls_status status = reduce_gradients(replica, model, compute(&training));
    if (!status) status = check_others(&training);
    if (!status) status = update(&training);
    return end_replica(&training, status);
}

static ls_status gather_replica(ls_replica *replica, void *context) {
    ls_model *model = context;
    struct training training = training_of(replica, model);
    training.gathering = true;
    ls_status status = compute(&training);
    if (!status) status = ls_gather_keep(model, training.replica, model->step.pass == 0);
    return end_replica(&training, status);
}

/* One batch of the step that comes after the last committed one; fn runs on each replica. */
static ls_status run_batch(ls_model *model, int batch, ls_replica_fn *fn) {
    struct ls_model_numbers *numbers = model->numbers;
    numbers->loss_scale = 1.0F / (float)ls_pipeline_global_rows(model->pipeline);
    numbers->statistic_scale = 1;
    ls_scaling_begin(model);
    model->step.pass = batch;
    model->step.iteration++;
    numbers->step = model->step;
    ls_status status = ls_strategy_run(model->strategy, fn, model);
    if (status || fn == gather_replica) model->step.iteration--;
    return status;
}

ls_status ls_model_gather_step(ls_model *model, int batch) {
    model->numbers->merge_scale = 1;
    ls_status status = run_batch(model, batch, gather_replica);
    ls_reached("gathered");
    return status;
}

ls_status ls_model_train_step(ls_model *model, int batches, struct ls_loss_sums *sums) {
    model->step.rule.learning_rate = ls_model_next_rate(model);
    model->numbers->merge_scale = 1.0F / (float)batches;
    ls_status status = run_batch(model, batches - 1, train_replica);
    if (status) return status;
    ls_reached("commit");
    ls_loss_scaler_update(&model->scaler, ls_scaling_is_finite(&model->replicas[0]));
    ls_activity_set(&model->strategy->membership->activity.step, model->step.iteration);
    const float *extras = model->extras;
    *sums = (struct ls_loss_sums){
        .loss = (double)extras[LS_EXTRA_LOSS],
        .correct = (int64_t)extras[LS_EXTRA_CORRECT],
        .rows = (int64_t)extras[LS_EXTRA_ROWS],
    };
    sums->penalty = model->replicas[0].numbers->penalty * (double)sums->rows;
    for (int i = 0; i < LS_MAX_METRICS; i++) sums->metrics[i] = (double)extras[LS_EXTRA_METRICS + i];
    model->requests =
        (struct ls_requests){(int)extras[LS_EXTRA_SAVE], (int)extras[LS_EXTRA_STOP], (int)extras[LS_EXTRA_STOP_RANKS]};
    model->request = LS_GO_ON;
    return LS_OK;
}

static ls_status evaluate_rows(ls_model *model, int local, int64_t rows) {
    struct ls_model_replica *own = &model->replicas[local];
    struct ls_plan *plan;
    ls_status status = find_plan(model, local, rows, false, &plan);
    if (!status) status = ls_plan_run(plan, NULL, NULL);
    if (!status) ls_input_load_ahead(model, local, false);
    if (!status) status = ls_device_wait(own->device);
    if (status) return status;
    own->outputs = ls_plan_outputs(plan);
    ls_loss_sums_add(&own->total, &own->numbers->sums);
    return LS_OK;
}

static ls_status evaluate_replica(ls_replica *replica, void *context) {
    ls_model *model = context;
    struct ls_model_replica *own = &model->replicas[replica->local_id];
    int64_t rows;
    ls_status status = ls_input_load(model, replica->local_id, &rows);
    own->output_rows = status ? 0 : rows;
    if (!status && rows) status = evaluate_rows(model, replica->local_id, rows);
    if (status) ls_device_drain(own->device);
    return status;
}

ls_status ls_model_evaluate_step(ls_model *model) {
    return ls_strategy_run(model->strategy, evaluate_replica, model);
}

ls_status ls_model_measure_penalty(ls_model *model) {
    struct ls_model_replica *first = &model->replicas[0];
    struct ls_device *device = first->device;
    struct ls_thread_state before;
    if (!first->penalty_built) return LS_OK;
    ls_status status = device->ops->enter(device, &before);
    if (status) return status;
    status = first->penalty.run(&first->penalty);
    if (!status) status = ls_device_wait(device);
    device->ops->leave(device, &before);
    return status;
}
