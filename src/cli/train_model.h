/* The model of lockstep train: as its options say. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"
#include "cli/rules.h"

#define LS_MAX_HIDDEN 31

struct ls_train_model {
    const char *name;          /* "mlp", or one of ls_application's */
    int hidden[LS_MAX_HIDDEN]; /* units of mlp's hidden layers */
    int hidden_count;
    float alpha;         /* 0: not given */
    float norm_momentum; /* of batch normalizations; 0: the model's own */
    uint64_t seed;
    struct ls_rules rules;
    const char *weights; /* a file; NULL: they are drawn */
    bool skip_mismatch;
    bool synchronized, fused; /* its batch normalization */
    bool summary;             /* the chief prints one to stderr */
};
/* The value of --hidden; false after the error has been printed. */
bool ls_read_hidden(const struct ls_command_line *line, const char *text, struct ls_train_model *choice);
/* Made, seeded and compiled for data. */
ls_status ls_train_model_make(const struct ls_train_model *choice, ls_strategy *strategy, const ls_dataset *data,
                              ls_model **model);
