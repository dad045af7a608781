/* lockstep evaluate behind its options; lockstep train comes here as the evaluator of TF_CONFIG. */
#pragma once
#include "cli/saved_model.h"

struct ls_evaluation {
    bool json;
    bool report;             /* by class, too */
    bool watch;              /* each checkpoint of the folder as it appears */
    bool evaluator;          /* of TF_CONFIG */
    double timeout;          /* seconds for which watching waits for a new one; 0 sets no limit */
    const char *tensorboard; /* the folder of event files that watching writes; NULL for none */
    bool warn_only;          /* where these cannot be written */
};
/* Measures and prints; the exit status. */
int ls_evaluation_run(struct ls_saved_model *saved, const struct ls_evaluation *evaluation);
