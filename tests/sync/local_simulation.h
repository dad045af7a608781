/* A simulation of LocalSGDStrategy: each worker's steps between two meetings are those of a model that trains alone on
 * that worker's rows, and a meeting is what this computes. */
#pragma once
#include "harness.h"
#include "train/model_state.h"
#include "train/toy.h"

enum { EPOCHS = 2, MOST = 3, FRAGMENTS = 8, FLOATS = 4096 };

struct outcome {
    float state[FLOATS];
    size_t floats, trained;
    double loss;
    int64_t steps, bytes; /* of the vectors of rank 0's collectives in the fit */
    char sha256[MOST][65];
};
struct draft {
    ls_layer layers[8];
    size_t count;
    ls_optimizer optimizer;
    int workers, devices[MOST], replicas; /* of all */
    int batch, steps;                     /* rows of all; an epoch */
    ls_local_sgd_options local;
    uint64_t seed;
    /* of one run of it */
    ls_checkpoint_options checkpoint;
    int stop_at, stopper; /* the rank asks before this step; 0: nobody does */
    float other_rate;     /* of rank 1 after the first epoch; 0: that of all */
    struct outcome outcome;
};

/* Fragments meet between meetings. */
bool has_fragments(const struct draft *draft);
ls_status open_model(struct draft *draft, ls_strategy *strategy, ls_model **model);
ls_status open_data(struct toy *toy, int first, int rows, int batch, ls_dataset **data);
struct simulated {
    ls_strategy *strategy;
    ls_model *model;
    float state[FLOATS];
};
/* Trains as the draft says, and compares the state with the outcome's. *loss is the last epoch's. */
void simulate(struct draft *draft, struct simulated *workers, double *loss);
