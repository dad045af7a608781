/* A training as lines "field=value": what workers compare before it, and what a checkpoint keeps of it. */
#pragma once
#include "train/model.h"

struct ls_fit_lines {
    char *training; /* what the training is: position and state mean nothing in another */
    char *bits;     /* what the bits depend on beside it in every generation */
    char *others;   /* what must be equal on all workers beside both */
    char *all;      /* the three of them */
};
/* Before the first step; options with their defaults. Freed with ls_fingerprint_free_lines. */
ls_status ls_fingerprint_describe_fit(const ls_model *model, const ls_dataset *data, const ls_fit_options *options,
                                      struct ls_fit_lines *lines);
/* For a checkpoint: lines->bits, and with them what the present generation, to which the model is attached, makes of
 * the bits: who adds the gradients. Freed with ls_free. */
ls_status ls_fingerprint_describe_bits(const ls_model *model, const ls_dataset *data, const struct ls_fit_lines *lines,
                                       char **bits);
void ls_fingerprint_free_lines(struct ls_fit_lines *lines);
/* Collective, for an evaluation: the data, and whether weights were loaded. INVALID_ARGUMENT naming the first
 * difference. */
ls_status ls_fingerprint_agree_evaluation(const ls_model *model, const ls_dataset *data);
