/* From a model's state to checkpoints and back. */
#include "train/checkpointing.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/clock.h"
#include "base/kept_error.h"
#include "base/new.h"
#include "base/shape.h"
#include "base/options.h"
#include "base/point.h"
#include "checkpoint/writer.h"
#include "collective/collectives.h"
#include "strategy/iterator.h"
#include "train/about.h"
#include "train/model_build.h"
#include "train/restored.h"
#include "train/model_state.h"

#define KEEP      2
#define CALLBACKS "lockstep.callbacks" /* the tensor of their states, whatever bytes these are */

struct ls_checkpointing {
    ls_model *model;
    const ls_dataset *data;
    const struct ls_fit_lines *lines;
    const struct ls_log *log;
    ls_checkpoint_options options; /* folder is ours */
    char *folder;
    int64_t steps_per_epoch, last_position;
    bool keeper;                          /* this worker uses the folder */
    uint64_t job;                         /* the keeper's number for the folder's lock */
    bool known;                           /* the others have that number: the fit goes on */
    bool foreign;                         /* another job has the folder */
    struct ls_folder_lock *lock;          /* NULL if not held */
    bool due;                             /* a checkpoint is */
    bool failing;                         /* the last one could not be written: said already */
    int64_t submitted;                    /* when the newest was */
    int64_t saved, saved_epochs;          /* of the newest that was copied: its position, -1: none; epochs done */
    bool waits;                           /* it is not submitted yet, as it is not settled */
    int64_t seen;                         /* the position of the call before; -1: there was none */
    float *state;                         /* parts in blobs, callbacks' states, tables; a busy writer's */
    size_t floats, model_floats;          /* without tables; of the parts in blobs */
    struct ls_callback_list *callbacks;   /* borrowed; NULL without callbacks */
    struct ls_training_progress progress; /* the checkpoint's */
    struct ls_checkpoint checkpoint;
    struct ls_checkpoint_tensor *tensors;
    size_t variables; /* of tensors, with their moments */
    char (*names)[128];
    char *training, *bits; /* the manifest's lines */
    struct ls_writer *writer;
};

static ls_status check_checkpointing_options(ls_checkpoint_options *options) {
    if (!options->folder || !*options->folder) return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: folder is missing");
    if (options->every_steps < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: every_steps %lld must not be negative",
                       (long long)options->every_steps);
    if (options->keep < 0)
        return ls_fail(LS_INVALID_ARGUMENT, "checkpoint: keep %d must not be negative", options->keep);
    if (!options->keep) options->keep = KEEP;
    return ls_override_check(options->overrides);
}

/* The keeper alone has rows of tables, behind what all have. */
static ls_status allocate_state(struct ls_checkpointing *checkpointing) {
    const ls_model *model = checkpointing->model;
    checkpointing->model_floats = ls_model_state_count(model, LS_PARTS_IN_BLOBS);
    checkpointing->floats =
        checkpointing->model_floats + ls_callback_list_state_size(checkpointing->callbacks) / sizeof(float);
    size_t floats = checkpointing->floats;
    if (checkpointing->keeper) floats += ls_model_state_count(model, LS_OWNED_IN_ROWS);
    checkpointing->state = ls_alloc_aligned(floats * sizeof(float));
    return checkpointing->state ? LS_OK : ls_fail_memory("a checkpoint's state", floats * sizeof(float));
}

/* Of the parts with such owners, which lie at that place. Returns how many; without tensors it only counts. */
static size_t describe_parts(struct ls_checkpointing *checkpointing, unsigned owners, const float *at, size_t made) {
    struct ls_model_state_place place = {0};
    for (; ls_model_state_next(checkpointing->model, owners, &place); made++) {
        if (!checkpointing->tensors) continue;
        char *name = checkpointing->names[made];
        ls_model_state_name(checkpointing->model, place.part->blob, place.variable->name, name,
                            sizeof(checkpointing->names[0]));
        checkpointing->tensors[made] =
            (struct ls_checkpoint_tensor){name, place.variable->shape, at + place.begin + place.offset};
    }
    return made;
}

static size_t describe_model(struct ls_checkpointing *checkpointing) {
    size_t made = describe_parts(checkpointing, LS_PARTS_IN_BLOBS, checkpointing->state, 0);
    return describe_parts(checkpointing, LS_OWNED_IN_ROWS, checkpointing->state + checkpointing->floats, made);
}

static ls_status describe_tensors(struct ls_checkpointing *checkpointing) {
    bool others = checkpointing->floats > checkpointing->model_floats; /* the callbacks' states */
    size_t variables = describe_model(checkpointing), count = variables + others;
    checkpointing->names = ls_alloc_array(count, sizeof(*checkpointing->names));
    checkpointing->tensors = ls_alloc_array(count + 1, sizeof(*checkpointing->tensors));
    if (!checkpointing->names || !checkpointing->tensors) return ls_fail_memory("a checkpoint's tensors", count);
    const ls_shape shape = LS_SHAPE((int64_t)(checkpointing->floats - checkpointing->model_floats));
    checkpointing->tensors[describe_model(checkpointing)] =
        (struct ls_checkpoint_tensor){CALLBACKS, shape, checkpointing->state + checkpointing->model_floats};
    checkpointing->variables = variables;
    checkpointing->checkpoint.tensors = checkpointing->tensors;
    checkpointing->checkpoint.count = count;
    return LS_OK;
}

/* Anew in each generation. */
static ls_status note_bits(struct ls_checkpointing *checkpointing) {
    char *bits = NULL;
    ls_status status =
        ls_fingerprint_describe_bits(checkpointing->model, checkpointing->data, checkpointing->lines, &bits);
    if (status) return status;
    ls_free(checkpointing->bits);
    checkpointing->progress.facts.bits = checkpointing->bits = bits;
    return LS_OK;
}

static ls_status note_training(struct ls_checkpointing *checkpointing) {
    const struct ls_fit_lines *lines = checkpointing->lines;
    LS_CLEANUP(ls_free_pointer) char *model = NULL;
    ls_status status = ls_model_build_describe(checkpointing->model, &model);
    if (status) return status;
    size_t size = strlen(model) + strlen(lines->training) + 1;
    checkpointing->training = ls_alloc(size);
    if (!checkpointing->training) return ls_fail_memory("a manifest", size);
    (void)snprintf(checkpointing->training, size, "%s%s", model, lines->training);
    checkpointing->progress.facts = (struct ls_training_facts){.steps_per_epoch = checkpointing->steps_per_epoch,
                                                               .seed = checkpointing->model->spec.seed,
                                                               .description = checkpointing->training};
    checkpointing->checkpoint.manifest = ls_training_progress_manifest(&checkpointing->progress);
    if (checkpointing->floats > checkpointing->model_floats)
        checkpointing->progress.facts.callbacks = ls_callback_list_names(checkpointing->callbacks);
    return note_bits(checkpointing);
}

/* A fault of the folder is a warning in three cases, otherwise an error. Case 1: the user set warn_only. Case 2: the
 * first task is lost, and its deputy may lack the folder. Case 3: another job took the folder during a recovery, while
 * the training's state is in memory. */
static ls_status complain(struct ls_checkpointing *checkpointing, ls_status status) {
    const struct ls_runtime *runtime = checkpointing->model->strategy->runtime;
    bool deputy = runtime->task > 0, displaced = checkpointing->known && checkpointing->foreign;
    if (!status || !(checkpointing->options.warn_only || deputy || displaced)) return status;
    if (!checkpointing->failing)
        ls_log_warning(checkpointing->log, "%s; training goes on without a new checkpoint", ls_error());
    checkpointing->failing = true;
    return LS_OK;
}

/* The folder is this job's alone, and takes files. */
static ls_status claim_folder(struct ls_checkpointing *checkpointing) {
    if (checkpointing->lock) return LS_OK;
    ls_status status =
        ls_folder_lock_take(checkpointing->folder, checkpointing->job, checkpointing->log, &checkpointing->lock);
    checkpointing->foreign = status == LS_FAILED_PRECONDITION;
    return status ? status : ls_checkpoint_folder_check(checkpointing->folder);
}

static ls_status prepare_folder(struct ls_checkpointing *checkpointing) {
    ls_status status = allocate_state(checkpointing);
    if (!status) status = describe_tensors(checkpointing);
    if (!status) status = note_training(checkpointing);
    if (!status && !checkpointing->job) status = ls_entropy_fill(&checkpointing->job, sizeof(checkpointing->job));
    if (!status) status = complain(checkpointing, claim_folder(checkpointing));
    return status ? status : ls_writer_new(checkpointing->folder, checkpointing->options.keep, &checkpointing->writer);
}

static bool is_keeper(const ls_strategy *strategy) {
    return strategy->runtime->rank == 0 && ls_is_chief(strategy);
}

/* Another worker took the folder where this one was left out, and has come in again. An unfinished checkpoint is
 * none of the new generation's. */
bool ls_checkpointing_has_moved(const struct ls_checkpointing *checkpointing) {
    bool displaced = checkpointing->lock && !ls_folder_lock_stands(checkpointing->lock);
    return displaced || checkpointing->keeper != is_keeper(checkpointing->model->strategy);
}

ls_status ls_checkpointing_new(const struct ls_checkpointing_config *config, struct ls_checkpointing **checkpointing) {
    const ls_strategy *strategy = config->model->strategy;
    LS_NEW(struct ls_checkpointing, made, "a checkpointing");
    *made = (struct ls_checkpointing){.model = config->model,
                                      .data = config->data,
                                      .lines = config->lines,
                                      .log = &strategy->runtime->log,
                                      .callbacks = config->callbacks,
                                      .steps_per_epoch = config->steps_per_epoch,
                                      .last_position = config->last_position,
                                      .job = config->job,
                                      .known = config->job != 0,
                                      .keeper = is_keeper(strategy),
                                      .saved = -1,
                                      .seen = -1};
    ls_status status = ls_options_copy("ls_checkpoint_options", &made->options, sizeof(made->options), config->options);
    if (!status) status = check_checkpointing_options(&made->options);
    if (!status && !(made->folder = ls_strdup(made->options.folder))) status = ls_fail_memory("a folder's name", 1);
    if (!status && made->keeper) status = prepare_folder(made);
    return LS_HAND_OVER(status, checkpointing, made, ls_checkpointing_free(made));
}

/* ---- going on ---- */

static ls_status check_progress(const struct ls_checkpointing *checkpointing,
                                const struct ls_training_progress *progress, struct ls_override *override) {
    ls_status status = ls_override_compare(checkpointing->options.overrides, progress->facts.description,
                                           checkpointing->training, override);
    if (status) return status;
    return ls_restored_check_length(progress, checkpointing->steps_per_epoch, checkpointing->last_position);
}

static ls_status copy_tensors(struct ls_checkpointing *checkpointing, const struct ls_loaded *loaded, bool callbacks) {
    size_t others = ls_safetensors_find(&loaded->file, CALLBACKS) ? 2 : 1; /* and the digest */
    if (loaded->file.tensor_count != checkpointing->variables + others)
        return ls_fail(LS_INVALID_ARGUMENT, "it has %zu tensors instead of %zu", loaded->file.tensor_count - others,
                       checkpointing->variables);
    for (size_t i = 0; i < (callbacks ? checkpointing->checkpoint.count : checkpointing->variables); i++) {
        const struct ls_checkpoint_tensor *tensor = &checkpointing->tensors[i];
        const void *data;
        ls_status status = ls_checkpoint_file_find(loaded, tensor->name, &tensor->shape, &data);
        if (status) return status;
        memcpy((float *)(uintptr_t)tensor->data, data, (size_t)ls_shape_count(&tensor->shape) * sizeof(float));
    }
    return LS_OK;
}

/* The checkpoint's state into ours. A learning rate that is overridden is as compiled. */
static ls_status take_up(struct ls_checkpointing *checkpointing, const struct ls_loaded *loaded, const char *name,
                         struct ls_restored *restored) {
    struct ls_training_progress *progress = &restored->progress;
    const struct ls_training_progress own = ls_model_state_progress(checkpointing->model);
    struct ls_override override;
    restored->callbacks = ls_restored_has_callbacks(checkpointing->log, checkpointing->folder, name,
                                                    progress->facts.callbacks, checkpointing->progress.facts.callbacks);
    ls_status status = check_progress(checkpointing, progress, &override);
    if (!status) status = copy_tensors(checkpointing, loaded, restored->callbacks);
    if (status) return ls_fail_context(status, "checkpoint '%s/%s'", checkpointing->folder, name);
    if (override.rate || !(progress->learning_rate > 0)) progress->learning_rate = own.learning_rate;
    if (!(progress->scaler.scale > 0)) progress->scaler = own.scaler;
    ls_restored_tell(checkpointing->log, checkpointing->folder, name, progress, override.told, checkpointing->bits);
    ls_training_progress_unfold(progress);
    return LS_OK;
}

static void load_newest(struct ls_checkpointing *checkpointing, struct ls_restored *restored) {
    const struct ls_manifest manifest = ls_training_progress_manifest(&restored->progress);
    struct ls_loaded loaded = {0};
    char name[LS_CHECKPOINT_NAME] = "";
    restored->progress.fit.job = checkpointing->job;
    if (checkpointing->foreign) return;
    ls_status status = ls_checkpoint_folder_load(checkpointing->folder, checkpointing->log, &loaded, name);
    if (!status && name[0] && (status = ls_manifest_read(&loaded.file, &manifest)))
        status = ls_fail_context(status, "checkpoint '%s/%s'", checkpointing->folder, name);
    if (status != LS_INVALID_ARGUMENT) status = complain(checkpointing, status);
    restored->found = !status && name[0];
    if (restored->found) status = take_up(checkpointing, &loaded, name, restored);
    restored->progress.facts = (struct ls_training_facts){0};
    restored->status = status;
    if (status) (void)snprintf(restored->error, sizeof(restored->error), "%s", ls_error());
    ls_checkpoint_file_free_loaded(&loaded);
}

/* The state to every worker and replica. */
static ls_status spread_state(struct ls_checkpointing *checkpointing, bool callbacks) {
    ls_model *model = checkpointing->model;
    ls_status status = checkpointing->state ? LS_OK : allocate_state(checkpointing);
    if (!status)
        status = ls_group_broadcast(model->strategy->runtime->group,
                                    LS_BROADCAST("checkpoint's state", checkpointing->state, checkpointing->floats));
    if (!status && callbacks)
        ls_callback_list_set_state(checkpointing->callbacks, checkpointing->state + checkpointing->model_floats);
    if (!status) status = ls_model_state_set(model, LS_PARTS_IN_BLOBS, LS_FROM_PROGRAM, checkpointing->state);
    if (status) return status;
    return ls_model_state_set(model, LS_OWNED_IN_ROWS, LS_FROM_PROGRAM,
                              checkpointing->keeper ? checkpointing->state + checkpointing->floats : NULL);
}

ls_status ls_checkpointing_restore(struct ls_checkpointing *checkpointing, struct ls_fit_state *state) {
    struct ls_restored restored = {.progress = ls_model_state_progress(checkpointing->model)};
    restored.progress.fit = *state;
    restored.progress.fit.generations = 0;
    ls_reached("checkpoint_read");
    if (checkpointing->keeper) load_newest(checkpointing, &restored);
    ls_status status = ls_restored_broadcast(checkpointing->model->strategy->runtime->group, &restored);
    if (status) return status;
    state->job = restored.progress.fit.job;
    state->generations = restored.progress.fit.generations;
    if (!restored.found) return status;
    *state = restored.progress.fit;
    status = spread_state(checkpointing, restored.callbacks);
    if (!checkpointing->keeper) ls_free(ls_steal(checkpointing->state));
    if (status) return status;
    checkpointing->saved = checkpointing->seen = state->position;
    ls_model_state_set_progress(checkpointing->model, &restored.progress);
    return status;
}

/* ---- saving ---- */

/* Hands the copied state to the writer's thread. */
static void publish(struct ls_checkpointing *checkpointing) {
    checkpointing->waits = false;
    checkpointing->submitted = ls_now();
    ls_writer_submit(checkpointing->writer, &checkpointing->checkpoint, checkpointing->lock);
    ls_reached("checkpoint");
}

/* Once all workers have committed what was copied: they have if they came to what follows it (docs/protocol.md). */
void ls_checkpointing_settle(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state) {
    if (!checkpointing) return;
    bool alone = checkpointing->model->strategy->runtime->size == 1;
    bool settled = alone || state->position > checkpointing->saved || state->epochs > checkpointing->saved_epochs;
    if (checkpointing->waits && settled) publish(checkpointing);
}

static void copy_progress(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state) {
    const ls_model *model = checkpointing->model;
    struct ls_training_progress progress = ls_model_state_progress(model);
    progress.learning_rate = ls_model_state_changed_rate(model);
    progress.fit = *state;
    progress.fit.generations += (int64_t)model->strategy->runtime->generation;
    progress.facts = checkpointing->progress.facts;
    ls_training_progress_fold(&progress);
    checkpointing->progress = progress;
    checkpointing->checkpoint.step = progress.step;
}

/* Copies the state. The writer is idle. */
static ls_status save_checkpoint(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state) {
    ls_status status = complain(checkpointing, claim_folder(checkpointing));
    checkpointing->due = false;
    if (status || checkpointing->foreign) return status;
    struct ls_track *track = checkpointing->model->strategy->replicas[0].track;
    int64_t begun = ls_track_begin(track);
    status = note_bits(checkpointing);
    if (!status) status = ls_about_keep(checkpointing->model, &checkpointing->progress.facts.about);
    if (!status) status = ls_model_state_get(checkpointing->model, LS_PARTS_IN_BLOBS, checkpointing->state);
    if (!status)
        status =
            ls_model_state_get(checkpointing->model, LS_OWNED_IN_ROWS, checkpointing->state + checkpointing->floats);
    if (status) return status;
    ls_callback_list_get_state(checkpointing->callbacks, checkpointing->state + checkpointing->model_floats);
    copy_progress(checkpointing, state);
    ls_track_end(track, begun, "checkpoint", (struct ls_span_facts){.step = checkpointing->checkpoint.step});
    checkpointing->saved = state->position;
    checkpointing->saved_epochs = state->epochs;
    checkpointing->waits = true;
    return LS_OK;
}

static ls_status take_result(struct ls_checkpointing *checkpointing) {
    bool written = false;
    ls_status status = ls_writer_result(checkpointing->writer, &written);
    if (status || !written) return complain(checkpointing, status);
    if (checkpointing->failing)
        ls_log_info(checkpointing->log, "checkpoints are written to '%s' again", checkpointing->folder);
    checkpointing->failing = false;
    ls_activity_set(&checkpointing->model->strategy->runtime->activity.saved, ls_now());
    return LS_OK;
}

static int64_t interval_of(const struct ls_checkpointing *checkpointing) {
    int64_t every = checkpointing->options.every_steps, portions = ls_iterator_portions(checkpointing->model->strategy);
    return every ? every * portions : checkpointing->steps_per_epoch;
}

/* Since the position seen, the step's that was looked at last; below 0: none was. */
static bool has_passed(const struct ls_checkpointing *checkpointing, int64_t seen, int64_t position) {
    int64_t every = interval_of(checkpointing);
    return seen < 0 ? position % every == 0 : position / every > seen / every;
}

ls_status ls_checkpointing_step(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state) {
    if (!checkpointing || !checkpointing->keeper) return LS_OK;
    checkpointing->due |=
        has_passed(checkpointing, checkpointing->seen, state->position) || checkpointing->model->progress.requests.save;
    checkpointing->seen = state->position;
    ls_checkpointing_settle(checkpointing, state);
    if (checkpointing->waits || !ls_writer_idle(checkpointing->writer)) return LS_OK;
    ls_status status = take_result(checkpointing);
    if (status && ls_folder_lock_displaced(checkpointing->lock)) return LS_OK; /* the next step says who left it out */
    bool there = ls_model_state_is_here(checkpointing->model);                 /* or the next step brings it */
    if (status || !there || !checkpointing->due || state->position >= checkpointing->last_position) return status;
    status = save_checkpoint(checkpointing, state);
    ls_checkpointing_settle(checkpointing, state);
    return status;
}

int64_t ls_checkpointing_next(const struct ls_checkpointing *checkpointing, int64_t position) {
    int64_t every = checkpointing ? interval_of(checkpointing) : INT64_MAX;
    return checkpointing ? (position / every + 1) * every : INT64_MAX;
}

void ls_checkpointing_expect(const struct ls_checkpointing *at, int64_t from, int64_t position,
                             struct ls_model_progress *progress) {
    progress->keeps = at && at->keeper;
    progress->drains = at && (has_passed(at, from, position) || position % at->steps_per_epoch == 0);
    progress->fetches =
        progress->keeps && (at->due || has_passed(at, at->seen, position) || position % at->steps_per_epoch == 0);
}

/* Until the checkpoint that was submitted last is written, or the caller's time is over: then *done becomes false. */
static ls_status wait_until(struct ls_checkpointing *checkpointing, int64_t pause, bool *done) {
    const struct ls_settings *settings = &checkpointing->model->strategy->runtime->settings;
    int64_t begun = checkpointing->submitted, deadline = ls_deadline_after(begun, settings->collective_timeout);
    for (;;) {
        int64_t report = ls_deadline_in(settings->report_interval), until = report < deadline ? report : deadline;
        if (ls_writer_wait(checkpointing->writer, until < pause ? until : pause)) return LS_OK;
        int64_t now = ls_now();
        *done = now < pause;
        if (now < deadline && !*done) return LS_OK;
        if (now >= deadline)
            return ls_fail(LS_DEADLINE_EXCEEDED,
                           "the checkpoint of step %lld is still being written to '%s' after "
                           "LOCKSTEP_COLLECTIVE_TIMEOUT (%g s)",
                           (long long)checkpointing->checkpoint.step, checkpointing->folder,
                           settings->collective_timeout);
        ls_log_info(checkpointing->log, "waiting for the checkpoint of step %lld to be written to '%s', since %.0f s",
                    (long long)checkpointing->checkpoint.step, checkpointing->folder, ls_seconds_since(begun));
    }
}

static ls_status wait_for_writer(struct ls_checkpointing *checkpointing) {
    return wait_until(checkpointing, LS_NEVER, &(bool){false});
}

static ls_status wait_for_result(struct ls_checkpointing *checkpointing) {
    ls_status status = wait_for_writer(checkpointing);
    return status ? status : take_result(checkpointing);
}

/* The training is done: what cannot be removed is no error of it. */
static void remove_all(struct ls_checkpointing *checkpointing) {
    if (checkpointing->foreign || ls_folder_lock_displaced(checkpointing->lock)) return;
    if (!wait_for_writer(checkpointing) && !ls_checkpoint_folder_clear(checkpointing->folder)) return;
    if (!checkpointing->failing)
        ls_log_warning(checkpointing->log, "the checkpoints of the training that is done remain in '%s': %s",
                       checkpointing->folder, ls_error());
}

/* The last one of this fit, which is settled. */
static ls_status save_last(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state) {
    ls_status status = checkpointing->saved == state->position ? LS_OK : save_checkpoint(checkpointing, state);
    if (checkpointing->waits) publish(checkpointing);
    return status;
}

static ls_status save_and_wait(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state) {
    ls_status status = wait_for_result(checkpointing);
    if (!status) status = save_last(checkpointing, state);
    return status ? status : wait_for_result(checkpointing);
}

ls_status ls_checkpointing_move_on(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state,
                                   int64_t deadline, bool *done) {
    *done = true;
    if (!checkpointing || !checkpointing->keeper) return LS_OK;
    ls_status status = wait_until(checkpointing, deadline, done);
    if (status || !*done) return status;
    status = take_result(checkpointing);
    if (!status) status = save_last(checkpointing, state);
    return status ? status : wait_until(checkpointing, deadline, done);
}

ls_status ls_checkpointing_stop(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state,
                                const char **folder) {
    if (!checkpointing || !checkpointing->keeper) return LS_OK;
    ls_status status = save_and_wait(checkpointing, state);
    if (!status && !checkpointing->failing) *folder = checkpointing->folder;
    return status;
}

ls_status ls_checkpointing_finish(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state) {
    if (!checkpointing || !checkpointing->keeper) return LS_OK;
    if (checkpointing->options.keep_on_success) return save_and_wait(checkpointing, state);
    remove_all(checkpointing);
    return LS_OK;
}

/* Returns false if the disk does not answer, and the thread may still read what is here. The training's own error
 * stays. */
static bool end_writer(struct ls_checkpointing *checkpointing) {
    struct ls_kept_error kept = ls_kept_error_of(LS_DEADLINE_EXCEEDED);
    if (!wait_for_writer(checkpointing)) return ls_writer_free(checkpointing->writer, 0);
    (void)ls_kept_error_raise(&kept);
    return false;
}

void ls_checkpointing_free(struct ls_checkpointing *checkpointing) {
    if (!checkpointing || (checkpointing->writer && !end_writer(checkpointing))) return;
    ls_folder_lock_free(checkpointing->lock);
    void *owned[] = {checkpointing->state, checkpointing->tensors, checkpointing->names, checkpointing->training,
                     checkpointing->bits,  checkpointing->folder,  checkpointing};
    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) ls_free(owned[i]);
}
