/* --optimizer and its neighbours. */
#include "cli/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const optimizers[] = {"sgd", "adam", "adamw", "rmsprop", "lamb", NULL};
static const char *const schedules[] = {"constant", "exponential", "cosine", "piecewise", NULL};
const char *const ls_rules_losses[] = {"sparse_categorical_crossentropy",
                                       "categorical_crossentropy",
                                       "binary_crossentropy",
                                       "mean_squared_error",
                                       "mean_absolute_error",
                                       "huber",
                                       NULL};

static const char *const recomputes[] = {"auto", "none", "activations", "blocks", NULL};
static const char *const precisions[] = {"float32", "tf32", "mixed_bfloat16", "mixed_float16", NULL};

static bool read_pieces(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                        void *field) {
    (void)option;
    ls_rate_schedule *schedule = field;
    int count = 0, length = 0;
    memset(schedule->boundaries, 0, sizeof(schedule->boundaries));
    for (const char *at = text; *at; at += length + (at[length] == ',')) {
        long long step = 0;
        float rate = 0;
        if (count == LS_MAX_BOUNDARIES)
            return LS_REFUSE(line, "--pieces '%.80s' has more than %d", text, LS_MAX_BOUNDARIES);
        if (sscanf(at, "%18lld:%f%n", &step, &rate, &length) != 2 || (at[length] && at[length] != ',') || step < 1 ||
            (at[length] == ',' && !at[length + 1]))
            return LS_REFUSE(line, "--pieces '%.80s' is no list of STEP:RATE", text);
        schedule->boundaries[count] = step;
        schedule->values[count++] = rate;
    }
    return true;
}

static bool read_metric(const char *word, ls_metric *metric) {
    const ls_metric known[] = {ls_sparse_categorical_accuracy(),
                               ls_categorical_accuracy(),
                               ls_binary_accuracy(),
                               ls_mean_squared_error(),
                               ls_mean_absolute_error(),
                               ls_mean_loss(),
                               ls_perplexity()};
    static const char *const names[] = {"sparse_categorical_accuracy",
                                        "categorical_accuracy",
                                        "binary_accuracy",
                                        "mean_squared_error",
                                        "mean_absolute_error",
                                        "mean_loss",
                                        "perplexity"};
    int k = 0, length = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        *metric = known[i];
        if (!strcasecmp(ls_option_habit(word), names[i])) return true;
    }
    if (sscanf(word, "top_k=%9d%n", &k, &length) != 1 || word[length]) return false;
    *metric = (ls_metric)ls_top_k(k);
    return k > 0;
}

static bool read_metrics(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                         void *field) {
    ls_metric *metrics = field;
    char copy[512], *list = copy;
    int count = 0;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *word; (word = ls_next_word(&list));) {
        if (!strcasecmp(word, "accuracy") || !strcasecmp(word, "acc"))
            return LS_REFUSE(line, "--%s '%.80s': accuracy is measured anyway, where the loss has one: leave it out",
                             option->name, text);
        if (!strcasecmp(word, "auc") || !strcasecmp(word, "f1"))
            return LS_REFUSE(line, "--%s '%.80s': '%s' comes with 'lockstep evaluate --report'", option->name, text,
                             word);
        if (count == LS_MAX_METRICS || !read_metric(word, &metrics[count++]))
            return LS_REFUSE(line,
                             "--%s '%.80s': '%s' is none of sparse_categorical_accuracy, categorical_accuracy, "
                             "binary_accuracy, top_k=K, mean_squared_error, mean_absolute_error, mean_loss, "
                             "perplexity, or one too many",
                             option->name, text, word);
    }
    metrics[count] = (ls_metric){0};
    return true;
}

static bool read_class_weight(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                              void *field) {
    (void)option;
    struct ls_rules *rules = field;
    int count = 0, length = 0;
    for (const char *at = text; *at; at += length + (at[length] == ',')) {
        ls_class_weight *weight = &rules->class_weight[count];
        if (count++ == LS_MAX_CLASS_WEIGHTS)
            return LS_REFUSE(line, "--class-weight has more than %d classes", LS_MAX_CLASS_WEIGHTS);
        if (sscanf(at, "%9d:%f%n", &weight->label, &weight->weight, &length) != 2 ||
            (at[length] && at[length] != ',') || weight->label < 0 || !(weight->weight >= 0))
            return LS_REFUSE(line, "--class-weight '%.80s' is no list of CLASS:WEIGHT, such as 0:1,1:5", text);
    }
    rules->class_weight[count] = (ls_class_weight){-1, 0};
    rules->class_weights = count;
    return count > 0 || LS_REFUSE(line, "--class-weight is empty");
}

#define AT(field) LS_OPTION_AT(struct ls_rules, field)

const struct ls_option ls_optimizer_options[] = {
    {"optimizer", NULL, "with Keras' rules and defaults (default sgd)", AT(optimizer.kind), LS_OPTIMIZER_SGD,
     .words = optimizers},
    {"learning-rate", "X", "(default 0.1 for sgd, 0.001 for the others)", AT(optimizer.learning_rate), 1e-12, 1e6},
    {"momentum", "X", "for sgd and rmsprop (default 0)", AT(optimizer.momentum), 0, 1},
    {"nesterov", NULL, "for sgd: Nesterov's momentum", AT(optimizer.nesterov), true, .needs = "momentum X"},
    {"momentum-correction", NULL,
     "with --momentum: where the learning rate changes, the velocity changes with it, as in Horovod's warm-up",
     AT(optimizer.momentum_correction), true, .needs = "momentum X"},
    {"centered", NULL, "for rmsprop: by the variance of the gradients", AT(optimizer.centered), true},
    {"beta-1", "X", "for adam, adamw and lamb: of the mean of gradients; above 0 and below 1 (default 0.9)",
     AT(optimizer.beta_1), 1e-6, 0.999999},
    {"beta-2", "X", "for adam, adamw and lamb: of the mean of their squares; above 0 and below 1 (default 0.999)",
     AT(optimizer.beta_2), 1e-6, 0.999999},
    {"epsilon", "X", "added to what is divided by, not for sgd (default 1e-7)", AT(optimizer.epsilon), 1e-30, 1e3},
    {"torch-epsilon", NULL, "for adam and adamw: add it behind the correction of the mean of squares, as torch does",
     AT(optimizer.torch_epsilon), true},
    {"rho", "X", "for rmsprop: of the mean of squared gradients; above 0 and below 1 (default 0.9)", AT(optimizer.rho),
     1e-6, 0.999999},
    {"weight-decay", "X", "decoupled, of any optimizer (default 0.004 for adamw, else 0)", AT(optimizer.weight_decay),
     1e-12, 1e3},
    {"exclude-from-weight-decay", "A,B", "not of variables whose names contain one of the words, as bias,gamma,beta",
     AT(optimizer.exclude_from_weight_decay)},
    {"clip-value", "X", "clip each element of the gradients; one of the three clips", AT(optimizer.clipvalue), 1e-12,
     1e12},
    {"clip-norm", "X", "clip the norm of each variable's gradient", AT(optimizer.clipnorm), 1e-12, 1e12},
    {"global-clip-norm", "X", "clip the norm of all gradients together", AT(optimizer.global_clipnorm), 1e-12, 1e12},
    {"accumulate", "K", "take the mean gradient of K batches for a step", AT(optimizer.gradient_accumulation_steps), 1,
     100000},
    {"schedule", NULL, "of the learning rate (default constant)", AT(optimizer.schedule.kind), LS_CONSTANT_RATE,
     .words = schedules},
    {"decay-steps", "N",
     "for exponential: rate * X^(step / N) with --decay-rate X; for cosine: to the part --decay-to of the rate after N "
     "steps",
     AT(optimizer.schedule.decay_steps), 1, INT64_C(1) << 40, .needs = "schedule exponential|cosine"},
    {"decay-rate", "X", "for exponential", AT(optimizer.schedule.decay_rate), 1e-12, 1e3,
     .needs = "schedule exponential"},
    {"staircase", NULL, "for exponential: in whole powers", AT(optimizer.schedule.staircase), true,
     .needs = "schedule exponential"},
    {"decay-to", "X", "for cosine (default 0)", AT(optimizer.schedule.alpha), 0, 1, .needs = "schedule cosine"},
    {"pieces", "STEP:RATE,...", "for piecewise: after that step, that rate",
     offsetof(struct ls_rules, optimizer.schedule), LS_OPTION_READ, .read = read_pieces, .needs = "schedule piecewise"},
    {"warmup-steps", "N", "first let the rate rise linearly, from --warmup-from", AT(optimizer.schedule.warmup_steps),
     1, INT64_C(1) << 40},
    {"warmup-from", "X", "for --warmup-steps (default 0)", AT(optimizer.schedule.warmup_from), 0, 1e6,
     .needs = "warmup-steps N"},
    {0}};
const struct ls_option ls_training_rules[] = {
    {"class-weight", "C:W,...",
     "count the loss of class C's examples W times in training, as 0:1,1:5 (default 1). Examples' own weights come "
     "from sample_weight_train and sample_weight_test of an .npz",
     0, LS_OPTION_READ, .read = read_class_weight},
    {"kernel-l1", "X", "regularise the kernels of all dense and conv2d layers: the loss has X sum |w| more (default 0)",
     AT(kernel_l1), 0, 1e6},
    {"kernel-l2", "X", "likewise: the loss has X sum w^2 more (default 0)", AT(kernel_l2), 0, 1e6},
    {"nondeterministic-ops", NULL,
     "let GPUs use faster algorithms that add in any order: other bits in each run. CPUs compute alike with and "
     "without (default: deterministic, as after TensorFlow's enable_op_determinism)",
     AT(compile.nondeterministic_ops), true},
    {"recompute", NULL,
     "what backward makes again, and does not find kept since forward: the same bits, less memory or less time. "
     "activations: outputs of normalizations, GELU and SiLU. blocks: all that lies between two sums of a transformer's "
     "residual stream, too (default auto: none on a GPU with memory enough, else activations)",
     AT(compile.recompute), LS_RECOMPUTE_AUTO, .words = recomputes},
    {0}};
const struct ls_option ls_loss_options[] = {
    {"loss", NULL,
     "(default the first; mean_squared_error where a CSV file's target is numbers). A y of floats, or of several "
     "integers an example, is compared with as many outputs as it has numbers, by all losses but the first; a y of one "
     "integer an example are classes, an output each",
     AT(loss), LS_SPARSE_CATEGORICAL_CROSSENTROPY, .words = ls_rules_losses},
    {"huber-delta", "X", "up to which error huber is a square (default 1)", AT(compile.huber_delta), 1e-12, 1e12},
    {"label-smoothing", "X", "take so much of each target from all classes alike (default 0)",
     AT(compile.label_smoothing), 0, 0.999},
    {"metrics", "LIST",
     "measured beside loss and accuracy: sparse_categorical_accuracy, categorical_accuracy, binary_accuracy, top_k=K, "
     "mean_squared_error, mean_absolute_error, mean_loss (the loss without regularisers), perplexity (exp of that)",
     offsetof(struct ls_rules, metrics), LS_OPTION_READ, .read = read_metrics},
    {"weighted-metrics", "LIST", "the same with the examples' weights", offsetof(struct ls_rules, weighted_metrics),
     LS_OPTION_READ, .read = read_metrics},
    {0}};
const struct ls_option ls_precision_option[] = {
    {"precision", NULL,
     "what layers compute in; variables stay float32. 16 bits need GPUs, but "
     "for mixed_bfloat16 of dense layers; mixed_float16 scales the loss (default float32)",
     AT(compile.precision), LS_PRECISION_FLOAT32, .words = precisions},
    {0}};

void ls_rules_complete(struct ls_rules *rules) {
    ls_optimizer *optimizer = &rules->optimizer;
    if (optimizer->learning_rate <= 0) optimizer->learning_rate = optimizer->kind == LS_OPTIMIZER_SGD ? 0.1F : 0.001F;
    rules->compile.size = sizeof(rules->compile);
    rules->compile.metrics = rules->metrics;
    rules->compile.weighted_metrics = rules->weighted_metrics;
}

const char *ls_rules_loss(const struct ls_rules *rules) {
    return ls_rules_losses[rules->loss - LS_SPARSE_CATEGORICAL_CROSSENTROPY];
}

bool ls_rules_compare_numbers(const struct ls_rules *rules) {
    return rules->loss >= LS_MEAN_SQUARED_ERROR;
}

#define KIND(kind) (1U << ((kind)-LS_OPTIMIZER_SGD))

/* Options that not all optimizers have, as the library would refuse them under its own names. */
static bool check_optimizer(const struct ls_command_line *line, const ls_optimizer *optimizer) {
    const unsigned sgd = KIND(LS_OPTIMIZER_SGD), rmsprop = KIND(LS_OPTIMIZER_RMSPROP),
                   adam = KIND(LS_OPTIMIZER_ADAM) | KIND(LS_OPTIMIZER_ADAMW), betas = adam | KIND(LS_OPTIMIZER_LAMB);
    const struct {
        const char *name;
        bool given;
        unsigned kinds;
    } table[] = {
        {"--momentum", optimizer->momentum > 0, sgd | rmsprop},
        {"--nesterov", optimizer->nesterov, sgd},
        {"--beta-1", optimizer->beta_1 > 0, betas},
        {"--beta-2", optimizer->beta_2 > 0, betas},
        {"--epsilon", optimizer->epsilon > 0, betas | rmsprop},
        {"--torch-epsilon", optimizer->torch_epsilon, adam},
        {"--rho", optimizer->rho > 0, rmsprop},
        {"--centered", optimizer->centered, rmsprop},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].given && !(table[i].kinds & KIND(optimizer->kind)))
            return LS_REFUSE(line, "--optimizer %s has no '%s'", optimizers[optimizer->kind - LS_OPTIMIZER_SGD],
                             table[i].name);
    return true;
}

static bool check_schedule(const struct ls_command_line *line, const ls_rate_schedule *schedule) {
    bool exponential = schedule->kind == LS_EXPONENTIAL_DECAY, cosine = schedule->kind == LS_COSINE_DECAY;
    const char *needs = NULL;
    if ((exponential || cosine) && !schedule->decay_steps) needs = "--decay-steps N";
    if (exponential && !needs && !(schedule->decay_rate > 0)) needs = "--decay-rate X";
    if (schedule->kind == LS_PIECEWISE_CONSTANT_DECAY && !schedule->boundaries[0]) needs = "--pieces STEP:RATE,...";
    if (needs) return LS_REFUSE(line, "--schedule %s needs '%s'", schedules[schedule->kind - LS_CONSTANT_RATE], needs);
    for (int i = 1; i < LS_MAX_BOUNDARIES && schedule->boundaries[i]; i++)
        if (schedule->boundaries[i] <= schedule->boundaries[i - 1])
            return LS_REFUSE(line, "--pieces: step %lld must be above the one before, %lld",
                             (long long)schedule->boundaries[i], (long long)schedule->boundaries[i - 1]);
    return true;
}

bool ls_rules_check(const struct ls_command_line *line, const struct ls_rules *rules) {
    const ls_optimizer *optimizer = &rules->optimizer;
    if ((optimizer->clipvalue > 0) + (optimizer->clipnorm > 0) + (optimizer->global_clipnorm > 0) > 1)
        return LS_REFUSE(line, "only one of '--clip-value', '--clip-norm' and '--global-clip-norm' is possible");
    if (optimizer->exclude_from_weight_decay && optimizer->kind != LS_OPTIMIZER_ADAMW && !(optimizer->weight_decay > 0))
        return LS_REFUSE(line, "'%s' needs '--weight-decay X'", "--exclude-from-weight-decay");
    return check_optimizer(line, optimizer) && check_schedule(line, &optimizer->schedule);
}
