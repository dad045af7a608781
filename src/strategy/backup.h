/* What fit keeps in a checkpoint folder, and takes up again (tf.keras.callbacks.BackupAndRestore). Between steps every
 * worker has the same state, so the chief alone writes it: it copies the state, and a thread writes the copy while
 * training goes on. */
#pragma once
#include "strategy/callback.h"
#include "strategy/fingerprint.h"
#include "strategy/model.h"

/* Where a fit is, between two steps. */
struct ls_fit_state {
    int64_t position;         /* steps since fit began; where batches are scaled, their portions */
    uint64_t job;             /* a number drawn for this training's checkpoint folder; 0: none */
    int64_t generations;      /* of the groups that trained before this one, from the checkpoint */
    int64_t epochs;           /* that are done: evaluated, and all replicas compared */
    bool evaluated;           /* the present epoch, whose steps are done */
    int64_t ended;            /* epochs whose end the callbacks' states have: epochs, or one more */
    bool stopped;             /* as a callback wished: there are no more epochs */
    struct ls_loss_sums sums; /* of the present epoch */
    ls_result result;
};

struct ls_backup;
struct ls_backup_config {
    ls_model *model;
    const ls_checkpoint_options *options;
    const ls_dataset *data; /* borrowed, as lines */
    const struct ls_fit_lines *lines;
    struct ls_callbacks *callbacks;         /* borrowed; built. May be NULL */
    int64_t steps_per_epoch, last_position; /* of the fit */
    uint64_t job;                           /* of the fit that goes on; 0: it begins */
};
/* Reads options (checked on every worker; the folder on the chief only). The model is attached. */
ls_status ls_backup_new(const struct ls_backup_config *config, struct ls_backup **backup);
/* Collective: where the chief finds a checkpoint, its state becomes every worker's, and *state that of the fit. The
 * same error on all workers where it belongs to another training. */
ls_status ls_backup_restore(struct ls_backup *backup, struct ls_fit_state *state);
/* Whether the worker that keeps the checkpoints has become another one: a backup for who it is now takes its place. */
bool ls_backup_has_moved(const struct ls_backup *backup);
/* After a committed step, or at the end of an epoch when all that belongs to it is done: takes a checkpoint when one is
 * due and the one before is written; otherwise it stays due. An error is the writer's, of an earlier one. */
ls_status ls_backup_step(struct ls_backup *backup, const struct ls_fit_state *state);
/* All workers stop here: the chief saves this state, unless it is saved, and waits until it is written. *folder becomes
 * where it is, borrowed, and stays NULL where nothing is kept, or could not be saved and that is only a warning. */
ls_status ls_backup_stop(struct ls_backup *backup, const struct ls_fit_state *state, const char **folder);
/* After the last epoch: removes the checkpoints, or writes the last one. */
ls_status ls_backup_finish(struct ls_backup *backup, const struct ls_fit_state *state);
/* Waits for a checkpoint that is being written. NULL is nothing. */
void ls_backup_free(struct ls_backup *backup);
