/* What a checkpoint says beside the variables: where the training was, and what must be the same for going on to mean
 * anything. Kept as texts in the file's metadata. Random numbers have no state (base/random.h): the seeds, which are in
 * the description of the training, and the position determine them all. */
#pragma once
#include <lockstep/lockstep.h>

#include "checkpoint/safetensors.h"

#define LS_MANIFEST_TEXTS  32  /* at most so many */
#define LS_MANIFEST_NUMBER 160 /* characters of a number, or of LS_MAX_METRICS numbers */

struct ls_manifest {
    int64_t step;            /* optimizer steps since compile: the iteration counter */
    int64_t position;        /* steps since fit began: the place in the data; portions where batches are scaled */
    int64_t steps_per_epoch; /* likewise */
    int64_t generation;      /* of the group, added to that of the checkpoint from which the group went on */
    double learning_rate;    /* of the next step; 0: as compiled */
    double loss_scale;       /* of float16, of the next step; 0: the loss is not scaled */
    double good_steps;       /* since the loss scale was changed */
    double skipped_steps;    /* of step, those that were not applied */
    double stopped;          /* 1: a callback has ended the training */
    double epoch_penalty;    /* of regularisers, a sum of the unfinished epoch; 0: none */
    uint64_t seed;           /* of the model; the dataset's is in the training's description */
    /* sums of the unfinished epoch */
    double epoch_loss;
    int64_t epoch_correct, epoch_rows;
    double loss, accuracy, val_loss, val_accuracy; /* as last told */
    double epoch_metrics[LS_MAX_METRICS];          /* sums too */
    double metrics[LS_MAX_METRICS], val_metrics[LS_MAX_METRICS];
    const char *training;  /* lines "field=value": must be equal to go on */
    const char *bits;      /* likewise; where it differs the bits may */
    const char *callbacks; /* whose states the checkpoint has; NULL: none */
};
/* The numbers' texts are kept in numbers. */
struct ls_manifest_texts {
    struct ls_safetensors_text texts[LS_MANIFEST_TEXTS];
    char numbers[LS_MANIFEST_TEXTS][LS_MANIFEST_NUMBER];
    size_t count;
};
void ls_manifest_write(const struct ls_manifest *manifest, struct ls_manifest_texts *to);
/* The texts are borrowed from file. INVALID_ARGUMENT where a field is missing or no number, or the version is another.
 */
ls_status ls_manifest_read(const struct ls_safetensors *file, struct ls_manifest *manifest);
/* LS_OK if both are the same lines, else FAILED_PRECONDITION naming the first that differs, with both values. */
ls_status ls_manifest_compare(const char *there, const char *here);
