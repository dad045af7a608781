/* Reading --optimizer and its neighbours. */
#include "cli/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const optimizers[] = {"sgd", "adam", "adamw", "rmsprop", "lamb", NULL};
static const char *const schedules[] = {"constant", "exponential", "cosine", "piecewise", NULL};
static const char *const losses[] = {"sparse_categorical_crossentropy", "categorical_crossentropy",
                                     "binary_crossentropy", "mean_squared_error", NULL};

static const char *const precisions[] = {"float32", "tf32", "mixed_bfloat16", "mixed_float16", NULL};

static bool read_word(const struct ls_command_line *line, int option, struct ls_rules *rules) {
    int value = 0;
    switch (option) {
    case LS_RULE_OPTIMIZER:
        if (!ls_option_word(line, "--optimizer", optarg, optimizers, &value)) return false;
        rules->optimizer.kind = (ls_optimizer_kind)(LS_OPTIMIZER_SGD + value);
        return true;
    case LS_RULE_SCHEDULE:
        if (!ls_option_word(line, "--schedule", optarg, schedules, &value)) return false;
        rules->optimizer.schedule.kind = (ls_rate_schedule_kind)(LS_CONSTANT_RATE + value);
        return true;
    case LS_RULE_LOSS:
        if (!ls_option_word(line, "--loss", optarg, losses, &value)) return false;
        rules->loss = (ls_loss)(LS_SPARSE_CATEGORICAL_CROSSENTROPY + value);
        return true;
    case LS_RULE_PRECISION:
        if (!ls_option_word(line, "--precision", optarg, precisions, &value)) return false;
        rules->compile.precision = (ls_precision)(LS_PRECISION_FLOAT32 + value);
        return true;
    default:
        return true;
    }
}

static bool read_number(const struct ls_command_line *line, int option, struct ls_rules *rules) {
    ls_optimizer *optimizer = &rules->optimizer;
    const struct {
        int option;
        const char *name;
        double low, high;
        float *value;
    } table[] = {
        {LS_RULE_RATE, "--learning-rate", 1e-12, 1e6, &optimizer->learning_rate},
        {LS_RULE_MOMENTUM, "--momentum", 0, 1, &optimizer->momentum},
        {LS_RULE_BETA_1, "--beta-1", 1e-6, 0.999999, &optimizer->beta_1},
        {LS_RULE_BETA_2, "--beta-2", 1e-6, 0.999999, &optimizer->beta_2},
        {LS_RULE_EPSILON, "--epsilon", 1e-30, 1e3, &optimizer->epsilon},
        {LS_RULE_RHO, "--rho", 1e-6, 0.999999, &optimizer->rho},
        {LS_RULE_DECAY, "--weight-decay", 1e-12, 1e3, &optimizer->weight_decay},
        {LS_RULE_CLIP_VALUE, "--clip-value", 1e-12, 1e12, &optimizer->clipvalue},
        {LS_RULE_CLIP_NORM, "--clip-norm", 1e-12, 1e12, &optimizer->clipnorm},
        {LS_RULE_GLOBAL_CLIP_NORM, "--global-clip-norm", 1e-12, 1e12, &optimizer->global_clipnorm},
        {LS_RULE_DECAY_RATE, "--decay-rate", 1e-12, 1e3, &optimizer->schedule.decay_rate},
        {LS_RULE_DECAY_TO, "--decay-to", 0, 1, &optimizer->schedule.alpha},
        {LS_RULE_WARMUP_FROM, "--warmup-from", 0, 1e6, &optimizer->schedule.warmup_from},
        {LS_RULE_L1, "--kernel-l1", 0, 1e6, &rules->kernel_l1},
        {LS_RULE_L2, "--kernel-l2", 0, 1e6, &rules->kernel_l2},
        {LS_RULE_SMOOTHING, "--label-smoothing", 0, 0.999, &rules->compile.label_smoothing},
    };
    double value;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].option != option) continue;
        if (!ls_option_number(line, table[i].name, optarg, table[i].low, table[i].high, &value)) return false;
        *table[i].value = (float)value;
    }
    return true;
}

static bool read_integer(const struct ls_command_line *line, int option, struct ls_rules *rules) {
    ls_rate_schedule *schedule = &rules->optimizer.schedule;
    int64_t value = 0, most = INT64_C(1) << 40;
    switch (option) {
    case LS_RULE_ACCUMULATE:
        if (!ls_option_integer(line, "--accumulate", optarg, 1, 100000, &value)) return false;
        rules->optimizer.gradient_accumulation_steps = (int)value;
        return true;
    case LS_RULE_DECAY_STEPS:
        return ls_option_integer(line, "--decay-steps", optarg, 1, most, &schedule->decay_steps);
    case LS_RULE_WARMUP_STEPS:
        return ls_option_integer(line, "--warmup-steps", optarg, 1, most, &schedule->warmup_steps);
    default:
        return true;
    }
}

static bool read_pieces(const struct ls_command_line *line, ls_rate_schedule *schedule) {
    int count = 0, length = 0;
    for (const char *at = optarg; *at; at += length + (at[length] == ',')) {
        long long step = 0;
        float rate = 0;
        if (count == LS_MAX_BOUNDARIES)
            return ls_usage_error(line, "--pieces '%.80s' has more than %d", optarg, LS_MAX_BOUNDARIES) == 0;
        if (sscanf(at, "%18lld:%f%n", &step, &rate, &length) != 2 || (at[length] && at[length] != ',') || step < 1)
            return ls_usage_error(line, "--pieces '%.80s' is no list of STEP:RATE", optarg) == 0;
        schedule->boundaries[count] = step;
        schedule->values[count++] = rate;
    }
    return true;
}

static bool read_metric(const char *word, ls_metric *metric) {
    const ls_metric known[] = {ls_sparse_categorical_accuracy(), ls_categorical_accuracy(), ls_binary_accuracy(),
                               ls_mean_loss()};
    static const char *const names[] = {"sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy",
                                        "mean_loss"};
    int k = 0, length = 0;
    for (int i = 0; i < 4; i++) {
        *metric = known[i];
        if (!strcmp(word, names[i])) return true;
    }
    if (sscanf(word, "top_k=%9d%n", &k, &length) != 1 || word[length]) return false;
    *metric = (ls_metric)ls_top_k(k);
    return k > 0;
}

static bool read_metrics(const struct ls_command_line *line, struct ls_rules *rules) {
    char copy[512], *state = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", optarg);
    rules->metric_count = 0;
    for (char *word = strtok_r(copy, ",", &state); word; word = strtok_r(NULL, ",", &state))
        if (rules->metric_count == LS_MAX_METRICS || !read_metric(word, &rules->metrics[rules->metric_count++]))
            return ls_usage_error(line,
                                  "--metrics '%.80s': '%s' is none of sparse_categorical_accuracy, "
                                  "categorical_accuracy, binary_accuracy, top_k=K, mean_loss, or one too many",
                                  optarg, word) == 0;
    rules->metrics[rules->metric_count] = (ls_metric){0};
    return true;
}

bool ls_read_rule_option(const struct ls_command_line *line, int option, struct ls_rules *rules) {
    if (option == LS_RULE_NESTEROV) rules->optimizer.nesterov = true;
    if (option == LS_RULE_CENTERED) rules->optimizer.centered = true;
    if (option == LS_RULE_STAIRCASE) rules->optimizer.schedule.staircase = true;
    if (option == LS_RULE_NONDETERMINISTIC) rules->compile.nondeterministic_ops = true;
    if (option == LS_RULE_EXCLUDE) rules->optimizer.exclude_from_weight_decay = optarg;
    if (option == LS_RULE_PIECES) return read_pieces(line, &rules->optimizer.schedule);
    if (option == LS_RULE_METRICS) return read_metrics(line, rules);
    return read_word(line, option, rules) && read_number(line, option, rules) && read_integer(line, option, rules);
}

void ls_rules_complete(struct ls_rules *rules) {
    ls_optimizer *optimizer = &rules->optimizer;
    if (optimizer->learning_rate <= 0) optimizer->learning_rate = optimizer->kind == LS_OPTIMIZER_SGD ? 0.1F : 0.001F;
    rules->compile.size = sizeof(rules->compile);
    rules->compile.metrics = rules->metrics;
}
