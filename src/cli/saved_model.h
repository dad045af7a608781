/* A trained model and the data that it is shown: what lockstep evaluate and lockstep predict share. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/augment.h"
#include "cli/data_options.h"
#include "cli/train_model.h"

enum ls_saved_option {
    LS_SAVED_MODEL = 256,
    LS_SAVED_ALPHA,
    LS_SAVED_HIDDEN,
    LS_SAVED_WEIGHTS,
    LS_SAVED_DATASET,
    LS_SAVED_SPLIT,
    LS_SAVED_LIMIT,
    LS_SAVED_SEED,
    LS_SAVED_BATCH,
    LS_SAVED_DEVICES,
    LS_SAVED_END
};
#define LS_SAVED_OPTIONS                                                                                               \
    {"model", required_argument, NULL, LS_SAVED_MODEL}, {"alpha", required_argument, NULL, LS_SAVED_ALPHA},            \
        {"hidden", required_argument, NULL, LS_SAVED_HIDDEN}, {"weights", required_argument, NULL, LS_SAVED_WEIGHTS},  \
        {"dataset", required_argument, NULL, LS_SAVED_DATASET}, {"split", required_argument, NULL, LS_SAVED_SPLIT},    \
        {"limit", required_argument, NULL, LS_SAVED_LIMIT}, {"seed", required_argument, NULL, LS_SAVED_SEED},          \
        {"batch-size", required_argument, NULL, LS_SAVED_BATCH},                                                       \
        {"devices", required_argument, NULL, LS_SAVED_DEVICES},                                                        \
        {"precision", required_argument, NULL, LS_RULE_PRECISION}, {"symmetric", no_argument, NULL, LS_SYMMETRIC},     \
        LS_DATA_OPTIONS
#define LS_SAVED_HELP                                                                                                  \
    "  --weights WHAT          the model's: .safetensors, .npz, Keras' .h5, .weights.h5 or .keras; or a folder of\n"   \
    "                          checkpoints, whose newest is taken. The chief reads it\n"                               \
    "  --model mlp|lenet|mobilenet_v2|resnet50, --hidden A,B,..., --alpha X   as the model was trained (default "      \
    "mlp,\n"                                                                                                           \
    "                          128,64)\n"                                                                              \
    "  --dataset WHAT          as lockstep train has it (default digits)\n"                                            \
    "  --split test|train      (default test)\n"                                                                       \
    "  --limit N               use only the first N examples\n"                                                        \
    "  --seed N                of drawn data (default 0)\n"                                                            \
    "  --batch-size N          examples in the global batch (default 64 a replica)\n"                                  \
    "  --devices D             auto (all GPUs, else one CPU), gpu, a number of CPU devices, or a list such as gpu:0\n" \
    "                          (default: LOCKSTEP_DEVICES, then auto)\n"                                               \
    "  --precision float32|tf32|mixed_bfloat16|mixed_float16   as lockstep train has it (default float32)\n"           \
    "  --symmetric             pixels in [-1, 1]\n" LS_DATA_HELP

struct ls_saved_model {
    struct ls_train_model model;
    struct ls_augment augment;
    ls_strategy_options strategy;
    ls_dataset_options data;
    const char *dataset, *weights;
    char path[4096]; /* of the newest checkpoint in a folder */
};
void ls_saved_model_begin(struct ls_saved_model *saved);
/* Puts the option that getopt has just read into saved; false after the error has been printed. */
bool ls_read_saved_option(const struct ls_command_line *line, int option, struct ls_saved_model *saved);
/* Whether there is what is needed; false after the error has been printed. */
bool ls_check_saved_options(const struct ls_command_line *line, const struct ls_saved_model *saved);
/* Opens both on a strategy that is there. */
ls_status ls_saved_model_open(struct ls_saved_model *saved, ls_strategy *strategy, ls_model **model, ls_dataset **data);
