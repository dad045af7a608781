/* What lockstep train trains for and by: optimizer, schedule, loss, metrics. */
#pragma once
#include <lockstep/lockstep.h>

#include "cli/options.h"

enum ls_rule_option {
    LS_RULE_OPTIMIZER = 1408,
    LS_RULE_RATE,
    LS_RULE_MOMENTUM,
    LS_RULE_NESTEROV,
    LS_RULE_CENTERED,
    LS_RULE_BETA_1,
    LS_RULE_BETA_2,
    LS_RULE_EPSILON,
    LS_RULE_RHO,
    LS_RULE_DECAY,
    LS_RULE_EXCLUDE,
    LS_RULE_CLIP_VALUE,
    LS_RULE_CLIP_NORM,
    LS_RULE_GLOBAL_CLIP_NORM,
    LS_RULE_ACCUMULATE,
    LS_RULE_SCHEDULE,
    LS_RULE_DECAY_STEPS,
    LS_RULE_DECAY_RATE,
    LS_RULE_STAIRCASE,
    LS_RULE_DECAY_TO,
    LS_RULE_PIECES,
    LS_RULE_WARMUP_STEPS,
    LS_RULE_WARMUP_FROM,
    LS_RULE_LOSS,
    LS_RULE_SMOOTHING,
    LS_RULE_L1,
    LS_RULE_L2,
    LS_RULE_METRICS,
    LS_RULE_PRECISION,
    LS_RULE_NONDETERMINISTIC
};
/* clang-format off */
#define LS_RULE_OPTIONS \
    {"optimizer", required_argument, NULL, LS_RULE_OPTIMIZER}, {"learning-rate", required_argument, NULL, LS_RULE_RATE}, \
    {"momentum", required_argument, NULL, LS_RULE_MOMENTUM}, {"nesterov", no_argument, NULL, LS_RULE_NESTEROV}, \
    {"centered", no_argument, NULL, LS_RULE_CENTERED}, {"beta-1", required_argument, NULL, LS_RULE_BETA_1}, \
    {"beta-2", required_argument, NULL, LS_RULE_BETA_2}, {"epsilon", required_argument, NULL, LS_RULE_EPSILON}, \
    {"rho", required_argument, NULL, LS_RULE_RHO}, {"weight-decay", required_argument, NULL, LS_RULE_DECAY}, \
    {"exclude-from-weight-decay", required_argument, NULL, LS_RULE_EXCLUDE}, \
    {"clip-value", required_argument, NULL, LS_RULE_CLIP_VALUE}, {"clip-norm", required_argument, NULL, LS_RULE_CLIP_NORM}, \
    {"global-clip-norm", required_argument, NULL, LS_RULE_GLOBAL_CLIP_NORM}, \
    {"accumulate", required_argument, NULL, LS_RULE_ACCUMULATE}, {"schedule", required_argument, NULL, LS_RULE_SCHEDULE}, \
    {"decay-steps", required_argument, NULL, LS_RULE_DECAY_STEPS}, {"decay-rate", required_argument, NULL, LS_RULE_DECAY_RATE}, \
    {"staircase", no_argument, NULL, LS_RULE_STAIRCASE}, {"decay-to", required_argument, NULL, LS_RULE_DECAY_TO}, \
    {"pieces", required_argument, NULL, LS_RULE_PIECES}, {"warmup-steps", required_argument, NULL, LS_RULE_WARMUP_STEPS}, \
    {"warmup-from", required_argument, NULL, LS_RULE_WARMUP_FROM}, {"loss", required_argument, NULL, LS_RULE_LOSS}, \
    {"label-smoothing", required_argument, NULL, LS_RULE_SMOOTHING}, {"kernel-l1", required_argument, NULL, LS_RULE_L1}, \
    {"kernel-l2", required_argument, NULL, LS_RULE_L2}, {"metrics", required_argument, NULL, LS_RULE_METRICS}, \
    {"precision", required_argument, NULL, LS_RULE_PRECISION}, \
    {"nondeterministic-ops", no_argument, NULL, LS_RULE_NONDETERMINISTIC}
#define LS_RULE_HELP \
    "  --optimizer sgd|adam|adamw|rmsprop|lamb   with Keras' rules and defaults (default sgd)\n" \
    "  --learning-rate X       (default 0.1 for sgd, 0.001 for the others)\n" \
    "  --momentum X            for sgd and rmsprop (default 0); --nesterov for sgd, --centered for rmsprop\n" \
    "  --beta-1 X, --beta-2 X  for adam, adamw and lamb: of the means of gradients and of their squares (default 0.9,\n" \
    "                          0.999); --rho X for rmsprop (default 0.9); above 0 and below 1\n" \
    "  --epsilon X             added to what is divided by, not for sgd (default 1e-7)\n" \
    "  --weight-decay X        decoupled, of any optimizer (default 0.004 for adamw, else 0)\n" \
    "  --exclude-from-weight-decay A,B   not of variables whose names contain one of the words, as bias,gamma,beta\n" \
    "  --clip-value X, --clip-norm X, --global-clip-norm X   of gradients: each element, the norm of each variable,\n" \
    "                          the norm of all; one of the three\n" \
    "  --accumulate K          take the mean gradient of K batches for a step\n" \
    "  --schedule constant|exponential|cosine|piecewise   of the learning rate (default constant)\n" \
    "  --decay-steps N, --decay-rate X, --staircase   for exponential: rate * X^(step / N), in whole powers\n" \
    "  --decay-steps N, --decay-to X   for cosine: to the part X of the rate after N steps (default 0)\n" \
    "  --pieces STEP:RATE,...  for piecewise: after that step, that rate\n" \
    "  --warmup-steps N        first let the rate rise linearly, from --warmup-from (default 0)\n" \
    "  --loss sparse_categorical_crossentropy|categorical_crossentropy|binary_crossentropy|mean_squared_error\n" \
    "  --label-smoothing X     take so much of each target from all classes alike (default 0)\n" \
    "  --kernel-l1 X, --kernel-l2 X   regularise the kernels of all dense and conv2d layers: the loss has X sum |w| and\n" \
    "                          X sum w^2 more (default 0)\n" \
    "  --metrics LIST          measured beside loss and accuracy: sparse_categorical_accuracy, categorical_accuracy,\n" \
    "                          binary_accuracy, top_k=K, mean_loss (the loss without regularisers)\n" \
    "  --precision float32|tf32|mixed_bfloat16|mixed_float16   what layers compute in; variables stay float32. 16 bits\n" \
    "                          need GPUs; mixed_float16 scales the loss (default float32)\n" \
    "  --nondeterministic-ops  let GPUs use faster algorithms that add in any order: other bits in each run. CPUs\n" \
    "                          compute alike with and without (default: deterministic, as after TensorFlow's\n" \
    "                          enable_op_determinism)\n"
/* clang-format on */

struct ls_rules {
    ls_optimizer optimizer;
    ls_loss loss;
    float kernel_l1, kernel_l2;            /* of all kernels */
    ls_compile_options compile;            /* metrics points here: */
    ls_metric metrics[LS_MAX_METRICS + 1]; /* ends with a zero row */
    int metric_count;
};
/* Takes the option that getopt has just read; false after the error has been printed. */
bool ls_read_rule_option(const struct ls_command_line *line, int option, struct ls_rules *rules);
/* After the last option: defaults. */
void ls_rules_complete(struct ls_rules *rules);
