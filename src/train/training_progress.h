/* The progress of a training between two steps, with one table of its fields. Checkpoints keep the fields as texts,
 * recovery copies them as bytes. Both formats follow from the table: a new field is a member here and a row there.
 * Pure. */
#pragma once
#include <lockstep/lockstep.h>

#include "checkpoint/manifest.h"
#include "device/op.h"
#include "model/loss_scaler.h"

/* The workers that have asked for something in a step: how many. */
struct ls_requests {
    int64_t save, stop;
    int64_t stop_ranks; /* the sum of the ranks that ask to stop */
};

/* The place of a fit between two steps. */
struct ls_fit_state {
    int64_t position;         /* steps since fit began; where batches are scaled, their portions */
    uint64_t run;             /* a number drawn for this training when it began; in the names of its event files */
    uint64_t job;             /* a number drawn for this training's checkpoint folder; 0: none */
    int64_t generations;      /* of the groups that trained before this one, from the checkpoint */
    int64_t epochs;           /* that are done: evaluated, and all replicas compared */
    bool evaluated;           /* the present epoch, whose steps are done */
    int64_t ended;            /* epochs whose end the callbacks' states have: epochs, or one more */
    bool stopped;             /* as a callback wished: there are no more epochs */
    struct ls_loss_sums sums; /* of the present epoch */
    ls_result result;
};

struct ls_training_progress {
    int64_t step; /* the model's optimizer steps since compile */
    float learning_rate, epoch_rate;
    struct ls_loss_scaler scaler;
    struct ls_requests requests;
    struct ls_fit_state fit;
    float last_rate; /* of the last step; 0 where the momentum is not corrected */
    /* The rest is for checkpoints. Random numbers have no state (base/random.h): seeds and position determine
     * them. */
    bool unfinished;  /* position ends an epoch whose validation is still to come */
    bool epoch_ended; /* the callbacks' states have that epoch's end all the same */
    struct ls_training_facts {
        int64_t steps_per_epoch; /* counted as position */
        uint64_t seed;           /* of the model; the dataset's is in the description */
        const char *description; /* lines "field=value": must be equal to go on */
        const char *bits;        /* likewise; where it differs the bits may */
        const char *about;       /* of the model (about.h) */
        const char *callbacks;   /* whose states the checkpoint has; NULL if none */
    } facts;
};

/* The table, for this record. */
struct ls_manifest ls_training_progress_manifest(struct ls_training_progress *progress);
/* The form of checkpoints and back: whole epochs follow from position and steps_per_epoch, a weight of 0 stands for
 * that of rows without weights. */
void ls_training_progress_fold(struct ls_training_progress *progress);
void ls_training_progress_unfold(struct ls_training_progress *progress);

/* Parts of it as bytes, little-endian, a word of 8 bytes for each number, and a checksum in the last word. */
enum { LS_PROGRESS_MODEL = 1, LS_PROGRESS_FIT = 2, LS_PROGRESS_RESULT = 4 /* fit.result */ };
size_t ls_training_progress_size(unsigned parts);
void ls_training_progress_write(const struct ls_training_progress *progress, unsigned parts, void *bytes);
/* The other members stay as they are. DATA_LOSS for bytes that are none. */
ls_status ls_training_progress_read(const void *bytes, unsigned parts, struct ls_training_progress *progress);
