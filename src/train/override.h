/* Numbers of the optimizer that a training may have otherwise than the checkpoint from which it goes on. */
#pragma once
#include <lockstep/lockstep.h>

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
