/* The model of lockstep train: as its options say. */
#pragma once
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "cli/options.h"
#include "cli/rules.h"

#define LS_MAX_HIDDEN 31
#define LS_SAVED_NAME "saved" /* of a model by a file */

struct ls_train_model {
    const char *name;           /* "mlp", "embedding", "lstm", "gru", one of ls_application's, or LS_SAVED_NAME */
    const char *file;           /* of --model; NULL: it is a name */
    const ls_tools_about *said; /* borrowed: whose layers it has; NULL: those of its name */
    const char *said_by;        /* the file */
    int hidden[LS_MAX_HIDDEN];  /* units of hidden layers, but for those of ls_application's */
    int hidden_count;
    int words, width;             /* of embedding's table */
    float alpha;                  /* 0 if not given */
    ls_application_options sizes; /* of a transformer, as they are given */
    float norm_momentum;          /* of batch normalizations; 0 keeps the model's own */
    uint64_t seed;
    struct ls_rules rules;
    const char *weights; /* a file; NULL if the weights are drawn */
    bool skip_mismatch;
    const char *frozen, *trained; /* names of layers; NULL: all are trained */
    bool synchronized, fused;     /* its batch normalization */
    bool summary;                 /* the chief prints one to stderr */
    ls_tokens tokens;             /* of the data; its model has outputs for each of context positions */
    int64_t context;
    int vocabulary;    /* 0: not given */
    int outputs;       /* 0: as data has classes, or numbers */
    bool loss_implied; /* nobody has asked for one */
};
extern const struct ls_option ls_model_options[]; /* of the model: its layers */
/* Its features are integers. */
bool ls_train_model_takes_ids(const struct ls_train_model *choice);
/* It predicts the next token. */
bool ls_train_model_is_transformer(const struct ls_train_model *choice);
/* The dataset where none is given. */
const char *ls_train_model_dataset(const struct ls_train_model *choice);
/* The options that make it again, and say what it is fed with: "--model mlp --hidden 128,64 --loss ..." */
void ls_train_model_words(const struct ls_train_model *choice, bool symmetric, char *text, size_t size);
/* A column of numbers in a table is a regression, where nobody has asked for a loss. */
void ls_train_model_suit(struct ls_train_model *choice, const ls_dataset *data);
/* Made, seeded and compiled for data. */
ls_status ls_train_model_make(const struct ls_train_model *choice, ls_strategy *strategy, const ls_dataset *data,
                              ls_model **model);
