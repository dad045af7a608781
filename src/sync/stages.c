/* A pipeline: workers have a stage of the model's layers each (train/stages.h), and the batches of a step, which the
 * optimizer gathers, go through all stages one behind the other. A worker makes each batch's forward and backward as
 * the schedule says: 1F1B holds as few batches as there are stages from here on. Both go in the order of the batches,
 * and so do the sums of gradients: they are those of gradient accumulation on one device, to the bit. Then all workers
 * meet with losses and requests, and each updates its variables.
 *
 * A table that the first stage's embedding and the last stage's head share: each batch's gradient of it goes from the
 * head to the embedding, which adds its part as on one device, and the new table comes back after the update. */
#include "sync/sync.h"

#include <string.h>

#include "base/clock.h"
#include "base/point.h"
#include "base/shape.h"
#include "collective/messages/mail.h"
#include "shard/part.h"
#include "strategy/iterator.h"
#include "sync/pipeline_order.h"
#include "train/fit.h"
#include "train/input.h"
#include "train/sparse.h"
#include "train/stages.h"
#include "train/step.h"

/* The present step. */
struct staged {
    struct ls_fitting *fitting;
    ls_model *model;
    struct ls_stages *stages;
    struct ls_model_replica *replica;
    struct ls_track *track;
    int batches; /* of the step */
    bool ends;   /* the epoch, with the step */
};

static bool is_last(const struct staged *staged) {
    return staged->stages->own == staged->stages->count - 1;
}

static struct ls_stage_slot *slot_of(const struct staged *staged, int batch) {
    return &staged->stages->slots[batch % staged->stages->slot_count];
}

/* ---- messages ---- */

static ls_status send_floats(const struct staged *staged, const char *name, const float *values, size_t count, int to) {
    int64_t begun = ls_track_begin(staged->track);
    ls_status status = ls_mail_send(staged->model->strategy->runtime->group,
                                    LS_SEND(name, values, count, LS_FLOAT32, staged->stages->first + to));
    ls_track_end(staged->track, begun, "send", (struct ls_span_facts){.bytes = count * sizeof(*values)});
    return status;
}

static ls_status receive_floats(const struct staged *staged, const char *name, float *values, size_t count, int from) {
    int64_t begun = ls_track_begin(staged->track);
    ls_status status = ls_mail_receive(staged->model->strategy->runtime->group,
                                       LS_RECEIVE(name, values, count, LS_FLOAT32, staged->stages->first + from));
    ls_track_end(staged->track, begun, "receive", (struct ls_span_facts){.bytes = count * sizeof(*values)});
    return status;
}

/* Elements of what a stage gives to the next one, for a batch. */
static size_t count_between(const struct staged *staged, int stage, int64_t rows) {
    const struct ls_network *network = staged->model->built.network;
    return (size_t)(rows * ls_shape_count(&ls_network_node(network, staged->stages->starts[stage + 1] - 1)->output));
}

/* Returns true if stages exchange the gradient of a shared table. */
static bool shares_table(const struct staged *staged) {
    const struct ls_stages *stages = staged->stages;
    return stages->table.begin < stages->table.end &&
           stages->table.begin < ls_network_trainable_count(staged->model->built.network);
}

static size_t count_table(const struct staged *staged) {
    return staged->stages->table.end - staged->stages->table.begin;
}

/* ---- a batch ---- */

/* Ops read these numbers beside their tensors. The batch is the random numbers' pass. */
static void set_batch(const struct staged *staged, int batch) {
    staged->model->progress.step.pass = batch;
    staged->model->built.numbers->step = staged->model->progress.step;
}

static ls_status seek(const struct staged *staged, int batch) {
    const struct ls_fit_state *state = &staged->fitting->state;
    int64_t steps = ls_pipeline_steps(staged->fitting->pipeline), position = state->position + batch;
    return ls_pipeline_seek(staged->fitting->pipeline, position / steps, position % steps);
}

static void keep_input(const struct staged *staged, struct ls_stage_slot *slot) {
    const ls_model *model = staged->model;
    const struct ls_model_input *input = &staged->replica->inputs[0];
    const struct ls_target_kind *kind = ls_pipeline_targets(model->progress.pipeline);
    size_t rows = (size_t)slot->rows, features = rows * (size_t)ls_shape_count(&model->built.input);
    if (!staged->stages->own) memcpy(slot->input.features, input->features, features * sizeof(float));
    memcpy(slot->input.targets, input->targets, rows * (size_t)ls_target_width(kind) * sizeof(float));
    if (kind->weighted) memcpy(slot->input.weights, input->weights, rows * sizeof(float));
}

/* The first stage needs features, and the last one labels. */
static ls_status load(const struct staged *staged, struct ls_stage_slot *slot) {
    ls_model *model = staged->model;
    struct ls_model_numbers *numbers = model->built.numbers;
    bool reads = !staged->stages->own || is_last(staged);
    slot->rows = ls_pipeline_rows(model->progress.pipeline, 0);
    numbers->loss_scale = 1.0F / (float)ls_step_rows(model);
    numbers->statistic_scale = 1;
    ls_precision_scaling_begin(model);
    ls_status status = reads ? ls_input_load(model, 0, &slot->rows) : LS_OK;
    if (is_last(staged)) status = ls_label_count_scale(model, 0, status);
    if (!status && slot->rows) status = ls_stages_find(model, slot);
    if (!status && slot->rows && reads) keep_input(staged, slot);
    return status;
}

/* Gradients, or changes of moving statistics, of a batch in that range are there: those of the batches before it are
 * added, and they are gathered until the last one. */
static ls_status gather_range(const struct staged *staged, int kind, int batch) {
    struct ls_range range = staged->stages->ranges[kind];
    const struct ls_model_replica *replica = staged->replica;
    bool last = batch + 1 == staged->batches;
    staged->model->built.numbers->merge_scale = last ? 1.0F / (float)staged->batches : 1;
    ls_status status = batch ? ls_accumulate_merge(replica, range.begin, range.end) : LS_OK;
    if (!last && !status)
        memcpy(replica->gathered + range.begin, replica->gradients + range.begin,
               (range.end - range.begin) * sizeof(float));
    return status;
}

static void gather_sums(const struct staged *staged, int batch) {
    struct ls_replica_numbers *numbers = staged->replica->numbers;
    if (is_last(staged) && batch + 1 < staged->batches) ls_op_add_loss_sums(&numbers->gathered, &numbers->sums);
}

static ls_status run_forward(const struct staged *staged, int batch, struct ls_stage_slot *slot) {
    const struct ls_stages *stages = staged->stages;
    const float *outputs;
    ls_status status = LS_OK;
    if (stages->own)
        status = receive_floats(staged, "values between stages", slot->entry,
                                count_between(staged, stages->own - 1, slot->rows), stages->own - 1);
    if (status) return status;
    set_batch(staged, batch);
    int64_t begun = ls_track_begin(staged->track);
    status = ls_stages_forward(slot, &outputs);
    ls_track_end(staged->track, begun, "forward",
                 (struct ls_span_facts){.step = staged->model->progress.step.iteration});
    if (!status && !is_last(staged))
        status = send_floats(staged, "values between stages", outputs, count_between(staged, stages->own, slot->rows),
                             stages->own + 1);
    return status;
}

static void zero_range(const struct staged *staged, int kind) {
    struct ls_range range = staged->stages->ranges[kind];
    memset(staged->replica->gradients + range.begin, 0, (range.end - range.begin) * sizeof(float));
}

/* Moving statistics change forward. A replica without examples in a short batch gives zeros, in all of its stages. */
static ls_status go_forward(const struct staged *staged, int batch) {
    struct ls_stage_slot *slot = slot_of(staged, batch);
    set_batch(staged, batch);
    ls_status status = seek(staged, batch);
    if (!status) status = load(staged, slot);
    if (!status && slot->rows) status = run_forward(staged, batch, slot);
    if (status) return status;
    if (!slot->rows) zero_range(staged, 1);
    if (!slot->rows) staged->replica->numbers->sums = (struct ls_loss_sums){0};
    gather_sums(staged, batch);
    return gather_range(staged, 1, batch);
}

/* The head's part of a shared table's gradient comes first. */
static ls_status bring_gradients(const struct staged *staged, struct ls_stage_slot *slot) {
    const struct ls_stages *stages = staged->stages;
    ls_status status = LS_OK;
    if (!is_last(staged))
        status = receive_floats(staged, "gradients between stages", ls_stages_output_gradient(slot),
                                count_between(staged, stages->own, slot->rows), stages->own + 1);
    if (!status && shares_table(staged) && stages->own == stages->table_stage)
        status = receive_floats(staged, "gradient of a table", staged->replica->gradients + stages->table.begin,
                                count_table(staged), stages->head_stage);
    return status;
}

static ls_status send_gradients(const struct staged *staged, const struct ls_stage_slot *slot, const float *gradient) {
    const struct ls_stages *stages = staged->stages;
    ls_status status = LS_OK;
    if (stages->own)
        status = send_floats(staged, "gradients between stages", gradient,
                             count_between(staged, stages->own - 1, slot->rows), stages->own - 1);
    if (!status && shares_table(staged) && stages->own == stages->head_stage)
        status = send_floats(staged, "gradient of a table", staged->replica->gradients + stages->table.begin,
                             count_table(staged), stages->table_stage);
    return status;
}

static ls_status run_backward(const struct staged *staged, int batch, struct ls_stage_slot *slot) {
    const float *gradient;
    ls_status status = bring_gradients(staged, slot);
    if (status) return status;
    set_batch(staged, batch);
    int64_t begun = ls_track_begin(staged->track);
    status = ls_stages_backward(slot, &gradient);
    ls_track_end(staged->track, begun, "backward",
                 (struct ls_span_facts){.step = staged->model->progress.step.iteration});
    return status ? status : send_gradients(staged, slot, gradient);
}

static ls_status go_backward(const struct staged *staged, int batch) {
    struct ls_stage_slot *slot = slot_of(staged, batch);
    ls_status status = LS_OK;
    if (slot->rows)
        status = run_backward(staged, batch, slot);
    else
        zero_range(staged, 0);
    return status ? status : gather_range(staged, 0, batch);
}

static struct ls_pipeline_order order_of(const struct staged *staged) {
    const struct ls_stages *stages = staged->stages;
    return (struct ls_pipeline_order){stages->count, stages->own, staged->batches,
                                      (enum ls_pipeline_kind)staged->model->strategy->pipeline};
}

static ls_status run_batches(const struct staged *staged) {
    const struct ls_pipeline_order order = order_of(staged);
    ls_status status = LS_OK;
    for (int i = 0; i < 2 * staged->batches && !status; i++) {
        const struct ls_pipeline_action action = ls_pipeline_order_at(&order, i);
        status = (action.backward ? go_backward : go_forward)(staged, action.batch);
    }
    return status;
}

/* ---- the step ---- */

/* Gradients, changes of moving statistics and numbers of all replicas of the stage. */
static ls_status add_replicas(const struct staged *staged) {
    const struct ls_stages *stages = staged->stages;
    float *gradients = staged->replica->gradients;
    int64_t begun = ls_track_begin(staged->track);
    ls_status status = LS_OK;
    for (int k = 0; k < 2 && !status; k++)
        status = ls_staged_add(stages, LS_FLOAT32, gradients + stages->ranges[k].begin,
                               stages->ranges[k].end - stages->ranges[k].begin);
    if (!status) status = ls_staged_add(stages, LS_FLOAT32, gradients + staged->model->built.summed_count, LS_EXTRAS);
    ls_track_end(staged->track, begun, "all-reduce",
                 (struct ls_span_facts){.step = staged->model->progress.step.iteration});
    return status;
}

/* Losses, rates and requests of all workers: the last stage has the losses, and the first replica tells what all have
 * added. Behind it all have their gradients. */
static ls_status meet(const struct staged *staged) {
    ls_model *model = staged->model;
    float *extras = staged->replica->gradients + model->built.summed_count;
    const void *input = extras;
    void *output = extras;
    ls_step_report_fill(model, 0);
    ls_status status = ls_update_run(staged->replica, LS_UPDATE_REPORT);
    if (!status) status = add_replicas(staged);
    if (staged->stages->replica) memset(extras, 0, LS_EXTRAS * sizeof(*extras));
    if (!status)
        status = ls_reduce_all_replicas(model->strategy,
                                        LS_ALL_REDUCE("numbers of a step", .count = LS_EXTRAS, .dtype = LS_FLOAT32,
                                                      .inputs = &input, .outputs = &output));
    if (!status) memcpy(model->bound.extras, extras, LS_EXTRAS * sizeof(*extras));
    return status ? status : ls_step_report_check_rate(model, model->progress.step.rule.learning_rate, extras);
}

static ls_status exchange_table(const struct staged *staged) {
    const struct ls_stages *stages = staged->stages;
    float *table = staged->replica->parameters + stages->table.begin;
    if (!shares_table(staged)) return LS_OK;
    if (stages->own == stages->table_stage)
        return send_floats(staged, "a table", table, count_table(staged), stages->head_stage);
    return stages->own == stages->head_stage
               ? receive_floats(staged, "a table", table, count_table(staged), stages->table_stage)
               : LS_OK;
}

static ls_status bring_together(const struct staged *staged) {
    const float *extras = staged->model->bound.extras;
    bool saves = ls_step_report_saves(extras);
    return saves || ls_step_report_asks(extras) || staged->ends ? ls_stages_gather(staged->model, saves) : LS_OK;
}

static ls_status update_stage(const struct staged *staged) {
    struct ls_stages *stages = staged->stages;
    int64_t begun = ls_track_begin(staged->track);
    set_batch(staged, staged->batches - 1);
    ls_status status = stages->update.run(&stages->update);
    if (!status && stages->moves) status = stages->statistics.run(&stages->statistics);
    if (!status) status = exchange_table(staged);
    ls_reached("applied");
    ls_track_end(staged->track, begun, "update",
                 (struct ls_span_facts){.step = staged->model->progress.step.iteration});
    return status ? status : bring_together(staged);
}

static ls_status run_stage(ls_replica *replica, void *context) {
    const struct staged *staged = context;
    ls_status status = run_batches(staged);
    if (!status) status = meet(staged);
    if (!status) status = update_stage(staged);
    return status ? ls_sync_give_up(replica->strategy->runtime, status) : LS_OK;
}

static ls_status begin_stages(const struct staged *staged) {
    ls_model *model = staged->model;
    struct ls_replica_numbers *numbers = staged->replica->numbers;
    const struct ls_pipeline_order order = order_of(staged);
    ls_status status = ls_stages_reserve(model, ls_pipeline_order_depth(&order));
    if (status) return status;
    ls_stages_forget(model);
    ls_step_begin(model, staged->batches);
    numbers->sums = numbers->gathered = (struct ls_loss_sums){0};
    model->progress.step.iteration++;
    return LS_OK;
}

/* The batches of a step, and the step. */
static ls_status run_staged_step(struct ls_fitting *fitting, int64_t *taken, struct ls_loss_sums *sums) {
    ls_model *model = fitting->model;
    int64_t begun = ls_now(), position = fitting->state.position, left = ls_fit_epoch_end(fitting) - position;
    int most = model->progress.step.rule.gradient_accumulation_steps;
    int batches = left < most ? (int)left : most > 1 ? most : 1;
    struct staged staged = {.fitting = fitting,
                            .model = model,
                            .stages = model->built.stages,
                            .replica = &model->built.replicas[0],
                            .track = model->strategy->replicas[0].track,
                            .batches = batches,
                            .ends = left == batches};
    *taken = batches;
    ls_checkpointing_expect(fitting->checkpointing, position, position + batches, &model->progress);
    ls_status status = begin_stages(&staged);
    if (status) return status;
    status = ls_strategy_run(model->strategy, run_stage, &staged);
    if (!status) return ls_step_commit(model, begun, sums);
    model->progress.step.iteration--;
    if (status != LS_UNAVAILABLE) return status;
    return ls_fail_context(status, "a stage of the pipeline is lost with its worker: %s",
                           ls_part_way_back(staged.stages->returns));
}

const struct ls_sync_ops ls_sync_stages = {.asks_in_step = true,
                                           .updates = true,
                                           .stages = true,
                                           .check = ls_sparse_check,
                                           .commit = ls_sync_commit,
                                           .open_data = ls_iterator_open_staged,
                                           .run = run_staged_step};
