/* Checkpoints of fit: saves its state in a folder, and restores it from there (tf.keras.callbacks.BackupAndRestore).
 * Between steps every worker has the same state, so the chief alone writes it. The chief copies the state. A thread
 * writes the copy while training goes on. */
#pragma once
#include <lockstep/lockstep.h>

#include "checkpoint/writer.h"
#include "train/callback_list.h"
#include "train/fingerprint.h"
#include "train/model.h"

struct ls_checkpointing;
struct ls_checkpointing_config {
    ls_model *model;
    const ls_checkpoint_options *options;
    const ls_dataset *data; /* borrowed, as lines */
    const struct ls_fit_lines *lines;
    struct ls_callback_list *callbacks;     /* borrowed; built. May be NULL */
    int64_t steps_per_epoch, last_position; /* of the fit */
    uint64_t job;                           /* of the fit that goes on; 0: it begins */
};
/* Reads options (checked on every worker; the folder on the chief only). The model is attached. */
ls_status ls_checkpointing_new(const struct ls_checkpointing_config *config, struct ls_checkpointing **checkpointing);
/* Collective: where the chief finds a checkpoint, its state becomes every worker's, and *state that of the fit. The
 * same error on all workers where it belongs to another training. */
ls_status ls_checkpointing_restore(struct ls_checkpointing *checkpointing, struct ls_fit_state *state);
/* True if another worker than before keeps the checkpoints, or has done so meanwhile. The caller then replaces this
 * checkpointing by a new one. */
bool ls_checkpointing_has_moved(const struct ls_checkpointing *checkpointing);
/* Notes for the step from one position to the next, which is to be made, whether this worker writes, and a checkpoint
 * may be due then. checkpointing may be NULL. */
void ls_checkpointing_expect(const struct ls_checkpointing *checkpointing, int64_t from, int64_t position,
                             struct ls_model_progress *progress);
/* The next position behind this one at which a checkpoint is due, alike on all workers; INT64_MAX without any. */
int64_t ls_checkpointing_next(const struct ls_checkpointing *checkpointing, int64_t position);
/* After a committed step, or at the end of an epoch when all that belongs to it is done: takes a checkpoint when one is
 * due and the one before is written; otherwise it stays due. An error is the writer's, of an earlier one. */
ls_status ls_checkpointing_step(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state);
/* All workers have come to what follows the last committed state: the checkpoint of it is settled. NULL is
 * nothing. */
void ls_checkpointing_settle(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state);
/* All workers stop here: one attempt of a while, not past the deadline, at what ls_checkpointing_stop waits for; *done:
 * that has nothing to wait for any more, or the error is its. */
ls_status ls_checkpointing_move_on(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state,
                                   int64_t deadline, bool *done);
/* All workers stop here: the chief saves this state, unless it is saved, and waits until it is written. *folder becomes
 * where it is, borrowed, and stays NULL where nothing is kept, or could not be saved and that is only a warning. */
ls_status ls_checkpointing_stop(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state,
                                const char **folder);
/* After the last epoch: removes the checkpoints, or writes the last one. */
ls_status ls_checkpointing_finish(struct ls_checkpointing *checkpointing, const struct ls_fit_state *state);
/* Waits for a checkpoint that is being written. NULL is nothing. */
void ls_checkpointing_free(struct ls_checkpointing *checkpointing);

/* Numbers of the optimizer that a training may have otherwise than the checkpoint from which it goes on. */

#define LS_OVERRIDES_TEXT 512
struct ls_override {
    char names[LS_OVERRIDES_TEXT]; /* of those that differ: "learning_rate,momentum" */
    char told[LS_OVERRIDES_TEXT];  /* with both values: "learning_rate is 0.01, was 0.1" */
    bool rate;                     /* learning_rate or schedule is one of them */
};
/* INVALID_ARGUMENT unless names, "learning_rate,momentum" or NULL, are such numbers. */
ls_status ls_override_check(const char *names);
/* Compares two descriptions of trainings as ls_manifest_compare does, but for names. INVALID_ARGUMENT says also what
 * would have to be in names, where that would do. */
ls_status ls_override_compare(const char *names, const char *there, const char *here, struct ls_override *override);
