/* From a model's state to checkpoints and back. */
#include "strategy/backup.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/point.h"
#include "base/proof.h"
#include "checkpoint/writer.h"
#include "model/rate_schedule.h"

#define KEEP      2
#define CALLBACKS "lockstep.callbacks" /* the tensor of their states, whatever bytes these are */

struct ls_backup {
    ls_model *model;
    const ls_dataset *data;
    const struct ls_fit_lines *lines;
    const struct ls_log *log;
    ls_checkpoint_options options; /* folder is ours */
    char *folder;
    int64_t steps_per_epoch, last_position;
    bool keeper;                 /* this worker uses the folder */
    uint64_t job;                /* the keeper's number for the folder's lock */
    bool foreign;                /* another job has the folder */
    struct ls_folder_lock *lock; /* NULL: not held */
    bool due;                    /* a checkpoint is */
    bool failing;                /* the last one could not be written: said already */
    int64_t saved;               /* position of the newest that was submitted; -1: none */
    int64_t seen;                /* the position of the call before; -1: there was none */
    /* the state: parameters, then the optimizer's moments, as they lie in the blobs; the writer's while it is not idle
     */
    float *state;
    size_t floats, model_floats;    /* the model's come first, then the callbacks' states */
    struct ls_callbacks *callbacks; /* borrowed; NULL: none */
    struct ls_checkpoint checkpoint;
    struct ls_checkpoint_tensor *tensors;
    size_t variables; /* of tensors, with their moments */
    char (*names)[128];
    char *training, *bits; /* the manifest's lines */
    struct ls_writer *writer;
};

static int moments(const struct ls_backup *backup) {
    return ls_optimizer_moments(&backup->model->step.rule);
}

/* ---- making ---- */

static ls_status check_options(ls_checkpoint_options *options) {
    if (!options->folder || !*options->folder) return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: folder is missing");
    if (options->every_steps < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: every_steps %lld must not be negative",
                       (long long)options->every_steps);
    if (options->keep < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: keep %d must not be negative", options->keep);
    if (!options->keep) options->keep = KEEP;
    return LS_OK;
}

/* A variable, or a moment of it: "optimizer/moment_1/dense/kernel". */
static void describe_tensor(struct ls_backup *backup, size_t index, int blob, int variable) {
    const struct ls_network_variable *from = ls_network_variable(backup->model->network, variable);
    char *name = backup->names[index];
    if (blob)
        (void)snprintf(name, sizeof(backup->names[0]), "optimizer/moment_%d/%s", blob, from->name);
    else
        (void)snprintf(name, sizeof(backup->names[0]), "%s", from->name);
    backup->tensors[index] = (struct ls_checkpoint_tensor){
        name, from->shape, backup->state + (size_t)blob * backup->model->blob_count + from->offset};
}

static ls_status allocate_state(struct ls_backup *backup) {
    backup->model_floats = ls_model_state_count(backup->model);
    backup->floats = backup->model_floats + ls_callbacks_state_size(backup->callbacks) / sizeof(float);
    backup->state = ls_alloc_aligned(backup->floats * sizeof(float));
    return backup->state ? LS_OK : ls_fail_memory("a checkpoint's state", backup->floats * sizeof(float));
}

/* What is not trained has no moments. */
static ls_status describe_tensors(struct ls_backup *backup) {
    const struct ls_network *network = backup->model->network;
    int variables = ls_network_variable_count(network), trainable = 0;
    while (trainable < variables && ls_network_variable(network, trainable)->trainable) trainable++;
    size_t count = (size_t)variables + (size_t)trainable * (size_t)moments(backup), made = (size_t)variables;
    bool callbacks = backup->floats > backup->model_floats;
    backup->variables = count;
    count += callbacks;
    backup->names = ls_alloc_array(count, sizeof(*backup->names));
    backup->tensors = ls_alloc_array(count, sizeof(*backup->tensors));
    if (!backup->names || !backup->tensors) return ls_fail_memory("a checkpoint's tensors", count);
    for (int v = 0; v < variables; v++) describe_tensor(backup, (size_t)v, 0, v);
    for (int blob = 1; blob <= moments(backup); blob++)
        for (int v = 0; v < trainable; v++) describe_tensor(backup, made++, blob, v);
    if (callbacks)
        backup->tensors[made] =
            (struct ls_checkpoint_tensor){CALLBACKS, LS_SHAPE((int64_t)(backup->floats - backup->model_floats)),
                                          backup->state + backup->model_floats};
    backup->checkpoint.tensors = backup->tensors;
    backup->checkpoint.count = count;
    return LS_OK;
}

/* Anew in each generation. */
static ls_status describe_bits(struct ls_backup *backup) {
    char *bits = NULL;
    ls_status status = ls_fit_describe_bits(backup->model, backup->data, backup->lines, &bits);
    if (status) return status;
    ls_free(backup->bits);
    backup->checkpoint.manifest.bits = backup->bits = bits;
    return LS_OK;
}

static ls_status describe_training(struct ls_backup *backup) {
    const struct ls_fit_lines *lines = backup->lines;
    LS_CLEANUP(ls_free_pointer) char *model = NULL;
    ls_status status = ls_model_describe(backup->model, &model);
    if (status) return status;
    size_t size = strlen(model) + strlen(lines->training) + 1;
    backup->training = ls_alloc(size);
    if (!backup->training) return ls_fail_memory("a manifest", size);
    (void)snprintf(backup->training, size, "%s%s", model, lines->training);
    backup->checkpoint.manifest = (struct ls_manifest){.seed = backup->model->seed, .training = backup->training};
    if (backup->floats > backup->model_floats)
        backup->checkpoint.manifest.callbacks = ls_callbacks_names(backup->callbacks);
    return describe_bits(backup);
}

/* What cannot be done with the folder: an error, or where the user wants that a warning. So it is where the first task
 * is lost, and the others go on without it: they may not have the folder. */
static ls_status complain(struct ls_backup *backup, ls_status status) {
    const struct ls_membership *membership = backup->model->strategy->membership;
    bool deputy = membership->task > 0;
    if (!status || !(backup->options.warn_only || deputy)) return status;
    if (!backup->failing) ls_log_warning(backup->log, "%s; training goes on without a new checkpoint", ls_error());
    backup->failing = true;
    return LS_OK;
}

/* The folder is this job's alone, and takes files. */
static ls_status claim_folder(struct ls_backup *backup) {
    if (backup->lock) return LS_OK;
    ls_status status = ls_folder_lock_take(backup->folder, backup->job, backup->log, &backup->lock);
    backup->foreign = status == LS_FAILED_PRECONDITION;
    return status ? status : ls_checkpoints_check(backup->folder);
}

static ls_status prepare_folder(struct ls_backup *backup) {
    ls_status status = allocate_state(backup);
    if (!status) status = describe_tensors(backup);
    if (!status) status = describe_training(backup);
    if (!status && !backup->job) status = ls_proof_random(&backup->job, sizeof(backup->job));
    if (!status) status = complain(backup, claim_folder(backup));
    return status ? status : ls_writer_new(backup->folder, backup->options.keep, &backup->writer);
}

static bool is_keeper(const ls_strategy *strategy) {
    return strategy->membership->rank == 0 && ls_is_chief(strategy);
}

bool ls_backup_has_moved(const struct ls_backup *backup) {
    return backup->keeper != is_keeper(backup->model->strategy);
}

ls_status ls_backup_new(const struct ls_backup_config *config, struct ls_backup **backup) {
    const ls_strategy *strategy = config->model->strategy;
    struct ls_backup *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a backup", sizeof(*made));
    *made = (struct ls_backup){.model = config->model,
                               .data = config->data,
                               .lines = config->lines,
                               .log = &strategy->membership->log,
                               .callbacks = config->callbacks,
                               .steps_per_epoch = config->steps_per_epoch,
                               .last_position = config->last_position,
                               .job = config->job,
                               .keeper = is_keeper(strategy),
                               .saved = -1,
                               .seen = -1};
    ls_status status = ls_options_copy("ls_checkpoint_options", &made->options, sizeof(made->options), config->options);
    if (!status) status = check_options(&made->options);
    if (!status && !(made->folder = ls_strdup(made->options.folder))) status = ls_fail_memory("a folder's name", 1);
    if (!status && made->keeper) status = prepare_folder(made);
    if (status)
        ls_backup_free(made);
    else
        *backup = made;
    return status;
}

/* ---- going on ---- */

/* What the chief tells the others, as whole words. */
struct restored {
    int64_t status, found;
    int64_t callbacks; /* whether their states were found as well */
    uint64_t job;
    struct ls_manifest manifest; /* without its texts */
    char error[LS_ERROR_SIZE];
};
_Static_assert(sizeof(struct restored) % sizeof(int64_t) == 0, "it is broadcast as words");

static ls_status check_manifest(const struct ls_backup *backup, const struct ls_manifest *manifest) {
    ls_status status = ls_manifest_compare(manifest->training, backup->training);
    if (status)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "it belongs to another training: %s; take another folder, or remove its checkpoints",
                       ls_error());
    if (manifest->steps_per_epoch != backup->steps_per_epoch || manifest->position > backup->last_position)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "it is that of step %lld with %lld steps an epoch, beyond the %lld steps of %lld an epoch of "
                       "this training",
                       (long long)manifest->position, (long long)manifest->steps_per_epoch,
                       (long long)backup->last_position, (long long)backup->steps_per_epoch);
    return LS_OK;
}

static ls_status copy_tensors(struct ls_backup *backup, const struct ls_loaded *loaded, bool callbacks) {
    size_t others = ls_safetensors_find(&loaded->file, CALLBACKS) ? 2 : 1; /* and the digest */
    if (loaded->file.tensor_count != backup->variables + others)
        return ls_fail(LS_INVALID_ARGUMENT, "it has %zu tensors instead of %zu", loaded->file.tensor_count - others,
                       backup->variables);
    for (size_t i = 0; i < (callbacks ? backup->checkpoint.count : backup->variables); i++) {
        const struct ls_checkpoint_tensor *tensor = &backup->tensors[i];
        const void *data;
        ls_status status = ls_loaded_find(loaded, tensor->name, &tensor->shape, &data);
        if (status) return status;
        memcpy(backup->state + (tensor->data - backup->state), data,
               (size_t)ls_shape_count(&tensor->shape) * sizeof(float));
    }
    return LS_OK;
}

/* Whether the callbacks are those whose states the checkpoint has. */
static bool has_callbacks(const struct ls_backup *backup, const struct ls_manifest *manifest, const char *name) {
    const char *there = manifest->callbacks ? manifest->callbacks : "";
    const char *here = backup->checkpoint.manifest.callbacks ? backup->checkpoint.manifest.callbacks : "";
    if (!strcmp(there, here)) return *here;
    ls_log_warning(backup->log,
                   "checkpoint '%s/%s' has the states of callbacks '%s', this training has '%s': they begin anew",
                   backup->folder, name, there, here);
    return false;
}

/* The checkpoint's state into ours. */
static ls_status take_up(struct ls_backup *backup, const struct ls_loaded *loaded, const char *name, bool callbacks) {
    const struct ls_manifest *manifest = &loaded->manifest;
    ls_status status = check_manifest(backup, manifest);
    if (!status) status = copy_tensors(backup, loaded, callbacks);
    if (status) return ls_fail_context(status, "checkpoint '%s/%s'", backup->folder, name);
    if (ls_manifest_compare(manifest->bits, backup->bits))
        ls_log_warning(backup->log, "checkpoint '%s/%s': the bits may be others than without an interruption: %s",
                       backup->folder, name, ls_error());
    ls_log_info(backup->log, "training goes on after step %lld (%lld epochs and %lld steps), from checkpoint '%s/%s'",
                (long long)manifest->step, (long long)(manifest->position / manifest->steps_per_epoch),
                (long long)(manifest->position % manifest->steps_per_epoch), backup->folder, name);
    return LS_OK;
}

static void load_newest(struct ls_backup *backup, struct restored *restored) {
    struct ls_loaded loaded = {0};
    char name[LS_CHECKPOINT_NAME] = "";
    restored->job = backup->job;
    if (backup->foreign) return;
    ls_status status = ls_checkpoints_load(backup->folder, backup->log, &loaded, name);
    if (status != LS_INVALID_ARGUMENT) status = complain(backup, status);
    restored->found = !status && name[0];
    restored->callbacks = restored->found && has_callbacks(backup, &loaded.manifest, name);
    if (restored->found) status = take_up(backup, &loaded, name, restored->callbacks);
    restored->manifest = loaded.manifest;
    restored->manifest.training = restored->manifest.bits = restored->manifest.callbacks = NULL;
    restored->status = status;
    if (status) (void)snprintf(restored->error, sizeof(restored->error), "%s", ls_error());
    ls_loaded_free(&loaded);
}

/* The state to every worker and replica. */
static ls_status spread_state(struct ls_backup *backup, bool callbacks) {
    ls_model *model = backup->model;
    ls_status status = backup->state ? LS_OK : allocate_state(backup);
    if (!status)
        status = ls_group_broadcast(model->strategy->membership->group, "checkpoint's state", 0, LS_FLOAT32,
                                    backup->state, backup->floats);
    if (!status && callbacks) ls_callbacks_set_state(backup->callbacks, backup->state + backup->model_floats);
    return status ? status : ls_model_set_state(model, backup->state);
}

static void set_state(struct ls_backup *backup, const struct ls_manifest *manifest, struct ls_fit_state *state) {
    backup->model->step.iteration = manifest->step;
    if (manifest->loss_scale > 0)
        backup->model->scaler = (struct ls_loss_scaler){(float)manifest->loss_scale, (int64_t)manifest->good_steps,
                                                        (int64_t)manifest->skipped_steps};
    if (manifest->learning_rate > 0) backup->model->step.rule.learning_rate = (float)manifest->learning_rate;
    backup->saved = backup->seen = manifest->position;
    state->position = manifest->position;
    state->epochs = state->ended = manifest->position / manifest->steps_per_epoch;
    state->stopped = manifest->stopped > 0;
    state->sums = (struct ls_loss_sums){.loss = manifest->epoch_loss,
                                        .correct = manifest->epoch_correct,
                                        .rows = manifest->epoch_rows,
                                        .penalty = manifest->epoch_penalty};
    memcpy(state->sums.metrics, manifest->epoch_metrics, sizeof(state->sums.metrics));
    memcpy(state->result.metrics, manifest->metrics, sizeof(state->result.metrics));
    memcpy(state->result.val_metrics, manifest->val_metrics, sizeof(state->result.val_metrics));
    state->result.steps = manifest->step;
    state->result.loss = manifest->loss;
    state->result.accuracy = manifest->accuracy;
    state->result.val_loss = manifest->val_loss;
    state->result.val_accuracy = manifest->val_accuracy;
    ls_loss_scaler_tell(&backup->model->scaler, &state->result);
}

ls_status ls_backup_restore(struct ls_backup *backup, struct ls_fit_state *state) {
    struct restored restored = {0};
    ls_reached("checkpoint_read");
    if (backup->keeper) load_newest(backup, &restored);
    ls_status status = ls_group_broadcast(backup->model->strategy->membership->group, "checkpoint", 0, LS_INT64,
                                          &restored, sizeof(restored) / sizeof(int64_t));
    if (!status && restored.status) status = ls_fail((ls_status)restored.status, "%s", restored.error);
    state->job = restored.job;
    state->generations = restored.manifest.generation;
    if (status || !restored.found) return status;
    status = spread_state(backup, restored.callbacks);
    if (!backup->keeper) ls_free(ls_steal(backup->state));
    if (!status) set_state(backup, &restored.manifest, state);
    return status;
}

/* ---- saving ---- */

static double changed_rate(const ls_model *model) {
    float rate = model->step.rule.learning_rate;
    bool scheduled = !ls_rate_schedule_is_constant(&model->step.rule.schedule);
    return scheduled || rate == model->compiled_rate ? 0 : (double)rate;
}

/* The writer is idle. */
static ls_status save(struct ls_backup *backup, const struct ls_fit_state *state) {
    struct ls_manifest *manifest = &backup->checkpoint.manifest;
    ls_status status = complain(backup, claim_folder(backup));
    backup->due = false;
    if (status || backup->foreign) return status;
    struct ls_track *track = backup->model->strategy->replicas[0].track;
    int64_t begun = ls_track_begin(track);
    status = describe_bits(backup);
    if (!status) status = ls_model_get_state(backup->model, backup->state);
    if (status) return status;
    ls_callbacks_get_state(backup->callbacks, backup->state + backup->model_floats);
    manifest->step = backup->model->step.iteration;
    manifest->position = state->position;
    manifest->learning_rate = changed_rate(backup->model);
    manifest->loss_scale = (double)backup->model->scaler.scale;
    manifest->good_steps = (double)backup->model->scaler.good_steps;
    manifest->skipped_steps = (double)backup->model->scaler.skipped;
    manifest->stopped = state->stopped;
    manifest->generation = state->generations + (int64_t)backup->model->strategy->membership->generation;
    manifest->steps_per_epoch = backup->steps_per_epoch;
    manifest->epoch_loss = state->sums.loss;
    manifest->epoch_penalty = state->sums.penalty;
    manifest->epoch_correct = state->sums.correct;
    manifest->epoch_rows = state->sums.rows;
    memcpy(manifest->epoch_metrics, state->sums.metrics, sizeof(manifest->epoch_metrics));
    memcpy(manifest->metrics, state->result.metrics, sizeof(manifest->metrics));
    memcpy(manifest->val_metrics, state->result.val_metrics, sizeof(manifest->val_metrics));
    manifest->loss = state->result.loss;
    manifest->accuracy = state->result.accuracy;
    manifest->val_loss = state->result.val_loss;
    manifest->val_accuracy = state->result.val_accuracy;
    ls_track_end(track, begun, "checkpoint", (struct ls_span_facts){.step = manifest->step});
    ls_writer_submit(backup->writer, &backup->checkpoint, backup->lock);
    ls_reached("checkpoint");
    backup->saved = state->position;
    return LS_OK;
}

/* What the writer has come to. */
static ls_status take_result(struct ls_backup *backup) {
    bool written = false;
    ls_status status = ls_writer_result(backup->writer, &written);
    if (!status && written && backup->failing) {
        ls_log_info(backup->log, "checkpoints are written to '%s' again", backup->folder);
        backup->failing = false;
    }
    return complain(backup, status);
}

ls_status ls_backup_step(struct ls_backup *backup, const struct ls_fit_state *state) {
    if (!backup || !backup->keeper) return LS_OK;
    int64_t portions = ls_strategy_portions(backup->model->strategy);
    int64_t every = backup->options.every_steps ? backup->options.every_steps * portions : backup->steps_per_epoch;
    bool passed = backup->seen < 0 ? state->position % every == 0 : state->position / every > backup->seen / every;
    if (passed || backup->model->requests.save) backup->due = true;
    backup->seen = state->position;
    if (!ls_writer_idle(backup->writer)) return LS_OK;
    ls_status status = take_result(backup);
    if (status || !backup->due || state->position >= backup->last_position) return status;
    return save(backup, state);
}

static ls_status wait_for_writer(struct ls_backup *backup) {
    const struct ls_settings *settings = &backup->model->strategy->membership->settings;
    int64_t begun = ls_now(), deadline = ls_deadline_after(begun, settings->collective_timeout);
    for (;;) {
        int64_t report = ls_deadline_in(settings->report_interval);
        if (ls_writer_wait(backup->writer, report < deadline ? report : deadline)) return LS_OK;
        if (ls_now() >= deadline)
            return ls_fail(LS_DEADLINE_EXCEEDED,
                           "the checkpoint of step %lld is still being written to '%s' after "
                           "LOCKSTEP_COLLECTIVE_TIMEOUT (%g s)",
                           (long long)backup->checkpoint.manifest.step, backup->folder, settings->collective_timeout);
        ls_log_info(backup->log, "waiting for the checkpoint of step %lld to be written to '%s', since %.0f s",
                    (long long)backup->checkpoint.manifest.step, backup->folder, ls_seconds_since(begun));
    }
}

static ls_status wait_for_result(struct ls_backup *backup) {
    ls_status status = wait_for_writer(backup);
    return status ? status : take_result(backup);
}

/* The training is done: what cannot be removed is no error of it. */
static void remove_all(struct ls_backup *backup) {
    if (backup->foreign || (backup->lock && !ls_folder_lock_holds(backup->lock))) return;
    if (!wait_for_writer(backup) && !ls_checkpoints_clear(backup->folder)) return;
    if (!backup->failing)
        ls_log_warning(backup->log, "the checkpoints of the training that is done remain in '%s': %s", backup->folder,
                       ls_error());
}

/* The last one of this fit. */
static ls_status save_and_wait(struct ls_backup *backup, const struct ls_fit_state *state) {
    ls_status status = wait_for_result(backup);
    if (status || backup->saved == state->position) return status;
    status = save(backup, state);
    return status ? status : wait_for_result(backup);
}

ls_status ls_backup_stop(struct ls_backup *backup, const struct ls_fit_state *state, const char **folder) {
    if (!backup || !backup->keeper) return LS_OK;
    ls_status status = save_and_wait(backup, state);
    if (!status && !backup->failing) *folder = backup->folder;
    return status;
}

ls_status ls_backup_finish(struct ls_backup *backup, const struct ls_fit_state *state) {
    if (!backup || !backup->keeper) return LS_OK;
    if (backup->options.keep_on_success) return save_and_wait(backup, state);
    remove_all(backup);
    return LS_OK;
}

void ls_backup_free(struct ls_backup *backup) {
    if (!backup) return;
    /* a disk that does not answer: the thread may still read what is here */
    if (backup->writer && (wait_for_writer(backup) || !ls_writer_free(backup->writer, 0))) return;
    ls_folder_lock_free(backup->lock);
    ls_free(backup->state);
    ls_free(backup->tensors);
    ls_free(backup->names);
    ls_free(backup->training);
    ls_free(backup->bits);
    ls_free(backup->folder);
    ls_free(backup);
}
