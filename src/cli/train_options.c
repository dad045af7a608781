/* The options of lockstep train, and its help. */
#include "cli/train_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/config.h"
#include "cli/signals.h"

static const char about[] =
    "lockstep train: train a model without writing C\n"
    "\n"
    "usage: lockstep train --model M --dataset digits|shapes|words|DIR|FILE [OPTIONS]\n"
    "\n"
    "Reads TF_CONFIG, joins the other workers, mirrors the model on its devices and trains it in lockstep; without\n"
    "TF_CONFIG it trains alone. Every worker gets the same options. The chief prints the progress. As TF_CONFIG's\n"
    "evaluator it trains nothing: it measures the checkpoints of --checkpoint FOLDER as lockstep evaluate --watch\n"
    "does, ends with the training, and writes event files with --tensorboard DIR.\n";

static const char more[] =
    "signals:\n"
    "  SIGTERM to any worker   all workers stop after the same step, save its checkpoint where --checkpoint is given, "
    "and\n"
    "                          end with status 143; the next start goes on there. At the end of an epoch validation\n"
    "                          comes first; in the last one the training ends as always. While this worker waits for\n"
    "                          others (to join, to come back after a loss, to take part in a step, to finish) the "
    "wait\n"
    "                          is given up within 2 s, and what is saved is the last step that was done. A second\n"
    "                          signal ends the process at once, and so does one before the first step where it is "
    "alone\n"
    "  SIGINT (Ctrl-C)         the same; the worker that gets it ends with 130, the others with 143\n"
    "  SIGTERM to a ps task    it serves until its workers have left, LOCKSTEP_STOP_GRACE at most, and ends with 143\n"
    "  SIGUSR1 to any worker   with --checkpoint: save a checkpoint after the present step, in a wait after\n"
    "                          the next one, and go on\n"
    "\n"
    "examples:\n"
    "  lockstep train --model mlp --dataset digits\n"
    "  lockstep run -np 2 -- lockstep train --model mlp --dataset digits --epochs 5 --json\n"
    "  TF_CONFIG='{\"cluster\":{\"worker\":[\"a:2222\",\"b:2222\"]},\"task\":{\"type\":\"worker\",\"index\":0}}' \\\n"
    "      lockstep train --dataset /data/mnist --optimizer adam\n"
    "\n"
    "exit status: 0 trained; 2 a bad command line or TF_CONFIG; 138 a peer was lost or a deadline passed;\n"
    "143 stopped by SIGTERM, 130 by SIGINT; 1 anything else.\n";

static const char *const shuffles[] = {"each-epoch", "once", "never", NULL};
static const char *const checkpoint_errors[] = {"fail", "warn", NULL};
static const char *const strategies[] = {
    "multi-worker", "mirrored", "parameter-server", "central-storage", "one-device", "local-sgd", NULL};
static const char *const sparse_tables[] = {"by-rule", "always", "never", NULL};
static const char *const consistencies[] = {"sync", "delayed", "async", NULL};
static const char *const stales[] = {"apply", "scale", "drop", NULL};
static const char *const communications[] = {"auto", "ring", "nccl", NULL};
static const char *const compressions[] = {"none", "fp16", "bf16", NULL};
static const char *const shardings[] = {"none", "optimizer", "gradients", NULL};
static const char *const cross_device_ops[] = {"auto", "one-device", "hierarchical", "nccl", NULL};
static const char *const divisions[] = {"layout-invariant", "tensorflow", NULL};
static const char *const auto_shards[] = {"data", "off", "file", "auto", "hint", NULL};
static const char *const shard_hints[] = {"files", "examples", "rows", "batches", NULL};

/* The strategy reads it from there. */
static bool set_trace(const struct ls_command_line *line, const struct ls_option *option, const char *path,
                      void *field) {
    (void)option, (void)field;
    if (!*path) return LS_REFUSE(line, "--trace needs a path");
    if (!setenv("LOCKSTEP_TRACE", path, 1)) return true;
    return LS_REFUSE(line, "--trace '%.80s': %s", path, strerror(errno));
}

#define AT(field) LS_OPTION_AT(struct ls_train_options, field)

static const struct ls_option model_rows[] = {
    {"norm-momentum", "X",
     "of batch normalizations' moving statistics (default: the model's own; mobilenet_v2's is 0.999, so that they need "
     "thousands of steps: short trainings want 0.9)",
     AT(model.norm_momentum), 0.001, 0.999999},
    {"weights", "FILE",
     "begin with these: .safetensors (a checkpoint too, or Hugging Face's of gpt2 or llama), .npz, or Keras' .h5, "
     ".weights.h5, .keras; or a folder of Hugging Face's; the chief reads it",
     AT(model.weights)},
    {"skip-mismatch", NULL, "variables that the file lacks or has in another shape keep their initial values",
     AT(model.skip_mismatch), true, .needs = "weights FILE"},
    {"freeze", "NAMES",
     "keep the variables of these layers as they are: names, or patterns such as 'block_*', with commas (--summary "
     "prints names)",
     AT(model.frozen)},
    {"train-only", "NAMES", "freeze all other layers", AT(model.trained)},
    {"sync-batch-norm", NULL, "batch normalization by the statistics of all replicas' examples", AT(model.synchronized),
     true},
    {"fused-batch-norm", NULL, "its moving variance as in TensorFlow's fused kernel: n / (n - 1) of Keras 3's",
     AT(model.fused), true},
    {"summary", NULL, "print the model's layers and parameters first", AT(model.summary), true},
    {0}};
static const struct ls_option data_rows[] = {
    {"cache", NULL, "keep examples in memory once they are read", AT(data.cache), true},
    {"shuffle-buffer", "N", "shuffle as tf.data does with a buffer of N (default: the whole data)",
     AT(data.shuffle_buffer), 1, INT64_C(1) << 40, .needs = "shuffle each-epoch|once"},
    {"no-validation", NULL, "do not evaluate on the validation split (the test split without one) after each epoch",
     AT(validate), false},
    {"prefetch", "N", "steps read ahead (default 2)", AT(data.prefetch), 1, 1024},
    {0}};
static const struct ls_option training_rows[] = {
    {"epochs", "N", "passes over the data (default 5)", AT(fit.epochs), 1, 1000000},
    {"steps-per-epoch", "N", "end an epoch after N steps (default: when the data ends)", AT(fit.steps_per_epoch), 1,
     INT64_C(1) << 40},
    {"shuffle", NULL, "(default each-epoch)", AT(data.shuffle), LS_SHUFFLE_EACH_EPOCH, .words = shuffles},
    {"drop-remainder", NULL, "leave out the short last batch", AT(data.drop_remainder), true},
    {0}};
static const struct ls_option checkpoint_rows[] = {
    {"checkpoint", "FOLDER",
     "keep checkpoints there (made if its parent is there; the chief's alone), and go on from the newest whole one if "
     "there is one, to the bits of an undisturbed training; removed when the training succeeds. Its files are "
     "safetensors",
     AT(checkpoint.folder)},
    {"checkpoint-steps", "N", "after every N steps (default: after each epoch)", AT(checkpoint.every_steps), 1,
     INT64_C(1) << 40, .needs = "checkpoint FOLDER"},
    {"checkpoint-keep", "K", "keep the newest K (default 2)", AT(checkpoint.keep), 1, 1000000,
     .needs = "checkpoint FOLDER"},
    {"checkpoint-retain", NULL, "do not remove them when the training succeeds; the newest is the end's",
     AT(checkpoint.keep_on_success), true, .needs = "checkpoint FOLDER"},
    {"checkpoint-override", "NAME,...",
     "numbers of the optimizer that need not be the checkpoint's, and are what this command line says: learning_rate, "
     "momentum, beta_1, beta_2, epsilon, rho, weight_decay, clipvalue, clipnorm, global_clipnorm, schedule",
     AT(checkpoint.overrides), .needs = "checkpoint FOLDER"},
    {"checkpoint-errors", NULL, "what it is when one cannot be written or read: the end, or a warning (default fail)",
     AT(checkpoint.warn_only), .words = checkpoint_errors, .needs = "checkpoint FOLDER"},
    {"watch-timeout", "S",
     "as TF_CONFIG's evaluator: end, with status 0, after S seconds without a new one (default: none)",
     AT(watch_timeout), 0.1, 1e9, .needs = "checkpoint FOLDER"},
    {0}};
static const struct ls_option strategy_rows[] = {
    {"strategy", NULL, "(default multi-worker: reads TF_CONFIG)", AT(strategy_name), .words = strategies},
    {"ps-replicas", "N",
     "parameter-server: servers that keep each variable; with 2 the loss of one loses nothing (default 1)",
     AT(servers.replicas), 1, 16, .needs = "strategy parameter-server"},
    {"hybrid", NULL,
     "parameter-server: servers keep sparse tables alone; other gradients are all-reduced, with the servers' help",
     AT(servers.hybrid), true, .needs = "strategy parameter-server"},
    {"sparse", NULL,
     "parameter-server: whether rows of embedding's table are on the servers alone: where a batch touches few of them "
     "(by-rule), always, never (default by-rule)",
     AT(servers.sparse), LS_SPARSE_BY_RULE, .words = sparse_tables, .needs = "strategy parameter-server"},
    {"consistency", NULL, "parameter-server: which variables a step's gradients are of (default sync: the newest)",
     AT(servers.consistency), LS_SYNC, .words = consistencies, .needs = "strategy parameter-server"},
    {"delay", "STEPS", "delayed: the variables before the last so many steps", AT(servers.delay), 0, 64,
     .needs = "consistency delayed"},
    {"staleness", "N",
     "async: batches that a worker may be ahead of the slowest one; 0 is --consistency sync (default: any number)",
     AT(staleness), 0, INT32_MAX, .needs = "consistency async"},
    {"on-stale", NULL,
     "async: what becomes of gradients whose variables were updated since: apply, scale (their rate is divided by the "
     "updates), drop (where they are more than --max-staleness) (default apply)",
     AT(servers.on_stale), LS_STALE_APPLY, .words = stales, .needs = "consistency async"},
    {"max-staleness", "UPDATES", "for --on-stale drop", AT(servers.max_staleness), 1, INT32_MAX,
     .needs = "on-stale drop"},
    {"sync-every", "STEPS",
     "local-sgd: a worker trains alone for so many steps, then all take the mean of their variables",
     AT(local.sync_every), 1, INT32_MAX, .needs = "strategy local-sgd"},
    {"outer-learning-rate", "RATE", "DiLoCo: the mean change is a gradient, applied with this rate (0.7 is usual)",
     AT(local.outer_learning_rate), 1e-9, 1e6, .needs = "sync-every STEPS"},
    {"outer-momentum", "M", "Nesterov momentum of that (0.9 is usual)", AT(local.outer_momentum), 0, 0.999999,
     .needs = "outer-learning-rate RATE"},
    {"local-moments", NULL, "each worker keeps its own moments of the optimizer, in place of their mean",
     AT(local.local_moments), true, .needs = "sync-every STEPS"},
    {"fragments", "F", "parts of the model: each STEPS / F steps one of them meets (default 1)", AT(local.fragments), 1,
     INT32_MAX, .needs = "sync-every STEPS"},
    {"fragment-delay", "D",
     "steps from the beginning of a fragment's exchange, beside training, to its use: below STEPS / F (default 0)",
     AT(local.fragment_delay), 0, INT32_MAX, .needs = "sync-every STEPS"},
    {"fragment-alpha", "A", "of a worker's own values in that use; the rest are those of all (default 0)",
     AT(local.fragment_alpha), 0, 1, .needs = "sync-every STEPS"},
    {"communication", NULL, "between workers (default auto)", AT(strategy.communication), LS_AUTO,
     .words = communications},
    {"compression", NULL,
     "of gradients on links between workers; nothing is compressed where workers share memory (default none)",
     AT(strategy.compression), LS_COMPRESS_NONE, .words = compressions},
    {"shard", NULL,
     "multi-worker: divide over the workers, with the same bits, the optimizer's moments (ZeRO stage 1), or these and "
     "gradients (ZeRO stage 2) (default none)",
     AT(strategy.shard), LS_SHARDING_NONE, .words = shardings},
    {"shard-copies", "N", "workers that have each moment; with 2 the loss of one loses nothing (default 2)",
     AT(strategy.shard_copies), 1, 16, .needs = "shard optimizer|gradients"},
    {"stages", "N",
     "multi-worker: a pipeline of N workers with a range of the layers each, through which the --accumulate batches go "
     "(default 1)",
     AT(strategy.stages), 1, 64},
    {"micro-batches", "M", "batches of a Mth of --batch-size go through the stages, as with --accumulate M",
     AT(micro_batches), 1, 100000},
    {"cross-device-ops", NULL, "within one worker (default auto)", AT(strategy.cross_device_ops),
     .words = cross_device_ops},
    {"bytes-per-pack", "N", "gradient bytes in a bucket; 0: 1 MiB first, then 25 MiB or a sixteenth of all (default 0)",
     AT(strategy.bytes_per_pack), 0, INT64_C(1) << 40},
    {"replicas", "N",
     "replicas in sync of all workers, at least one a device: the same bits on 1 to N devices (default one a device)",
     AT(strategy.replicas), 1, 65536},
    {"threads-per-replica", "N", "threads that compute a CPU replica's steps (default 1)",
     AT(strategy.threads_per_replica), 1, 1024},
    {"timeout", "S", "seconds that one collective may take (default LOCKSTEP_COLLECTIVE_TIMEOUT)",
     AT(strategy.timeout_seconds), 1e-3, 1e6},
    {"division", NULL, "how a global batch is divided (default layout-invariant)", AT(data.division),
     LS_DIVIDE_LAYOUT_INVARIANT, .words = divisions},
    {"auto-shard", NULL, "for --division tensorflow (default data)", AT(data.auto_shard), LS_SHARD_DATA,
     .words = auto_shards, .needs = "division tensorflow"},
    {"shard-hint", NULL, "for --auto-shard hint: of what each worker has its part", AT(data.shard_hint), LS_HINT_FILES,
     .words = shard_hints, .needs = "auto-shard hint"},
    {0}};
static const struct ls_option output_rows[] = {
    {"json", NULL,
     "the chief's last line on stdout is one JSON object: num_replicas_in_sync, num_workers, steps, loss, accuracy, "
     "val_loss, val_accuracy, metrics and val_metrics by name, samples_per_second, weights_sha256; for mixed_float16 "
     "also loss_scale and skipped_steps; for --consistency async pushes_applied, pushes_dropped, staleness_max and "
     "staleness_mean; null is no finite number, or none at all; of the memory of its first device arena_bytes (what "
     "layers give each other, as planned), planned_bytes (all of the model's), peak_bytes (a GPU's, at the most)",
     AT(json), true},
    {"trace", "PATH",
     "write the timeline of the training to PATH in Chrome's trace format (ui.perfetto.dev shows it): steps, forward, "
     "backward, each bucket's all-reduce, waiting, updating. %r in PATH becomes the rank; without it several workers "
     "write a.json as a.rank0.json, a.rank1.json, ... Sets LOCKSTEP_TRACE",
     0, LS_OPTION_READ, .read = set_trace},
    {"verbose", "-1|0|1|2",
     "no progress; bar on a terminal, else lines; bar; a line an epoch (default 0). What the log says stays: "
     "LOCKSTEP_LOG=error leaves errors alone",
     AT(fit.verbose), -1, 2},
    {"dry-run", NULL,
     "read data and weights, build the model, check the options, print the summary and the plan (lockstep plan), and "
     "end: no worker is joined, and no file is written",
     AT(dry_run), true},
    {0}};

const struct ls_option_table ls_train_tables[] = {
    {"model", ls_model_options, offsetof(struct ls_train_options, model)},
    {NULL, model_rows, 0},
    {"data", ls_dataset_option, offsetof(struct ls_train_options, dataset)},
    {NULL, ls_data_options, offsetof(struct ls_train_options, data)},
    {NULL, data_rows, 0},
    {NULL, ls_augment_option, offsetof(struct ls_train_options, augment)},
    {NULL, ls_symmetric_option, offsetof(struct ls_train_options, augment)},
    {"training", ls_batch_option, offsetof(struct ls_train_options, data)},
    {NULL, training_rows, 0},
    {NULL, ls_training_rules, offsetof(struct ls_train_options, model.rules)},
    {NULL, ls_precision_option, offsetof(struct ls_train_options, model.rules)},
    {"loss", ls_loss_options, offsetof(struct ls_train_options, model.rules)},
    {"optimizer", ls_optimizer_options, offsetof(struct ls_train_options, model.rules)},
    {"checkpoints", checkpoint_rows, 0},
    {"callbacks", ls_callback_options, offsetof(struct ls_train_options, callbacks)},
    {"distribution", strategy_rows, 0},
    {NULL, ls_devices_option, offsetof(struct ls_train_options, strategy.devices)},
    {NULL, ls_transport_option, offsetof(struct ls_train_options, transport)},
    {"configuration", ls_config_options, 0},
    {"output", output_rows, 0},
    {0}};
_Static_assert(sizeof(ls_train_tables) / sizeof(ls_train_tables[0]) == LS_TRAIN_TABLES + 2, "before those of output");

/* Of evaluate and predict the weights say the model and the loss. */
static bool check_needs(const struct ls_command_line *line) {
    static const char *const needs[][2] = {{"hidden", "model mlp|embedding|lstm|gru"},
                                           {"embedding", "model embedding|lstm|gru"},
                                           {"alpha", "model mobilenet_v2"},
                                           {"layers", "model gpt|gpt2|llama"},
                                           {"heads", "model gpt|gpt2|llama"},
                                           {"width", "model gpt|gpt2|llama"},
                                           {"dropout", "model gpt|gpt2|llama"},
                                           {"kv-heads", "model llama"},
                                           {"norm-momentum", "model mobilenet_v2|resnet50"},
                                           {"huber-delta", "loss huber"}};
    const char *schedule = ls_option_text(line, "schedule");
    bool changes = (schedule && strcasecmp(schedule, "constant") != 0) || ls_option_given(line, "warmup-steps") ||
                   ls_option_given(line, "reduce-on-plateau");
    if (!changes && ls_option_given(line, "momentum-correction"))
        return LS_REFUSE(line, "--momentum-correction is of a rate that changes: give --warmup-steps N, "
                               "--schedule or --reduce-on-plateau N");
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
        if (!ls_option_check_need(line, needs[i][0], needs[i][1])) return false;
    return true;
}

/* Checks options that depend on each other; false after the error has been printed. */
static bool check_training(const struct ls_command_line *line, const struct ls_train_options *training) {
    const struct ls_train_model *model = &training->model;
    if (!ls_no_arguments(line) || !ls_check_callback_options(line, &training->callbacks) ||
        !ls_rules_check(line, &model->rules) || !ls_check_dataset(line, training->dataset) ||
        !ls_check_weights(line, model->weights) || !check_needs(line))
        return false;
    if ((model->synchronized || model->fused) &&
        (!strcmp(model->name, "mlp") || !strcmp(model->name, "lenet") || ls_train_model_takes_ids(model)))
        return LS_REFUSE(line, "model '%s' has no batch normalization", model->name);
    if (ls_train_model_is_transformer(model) && !training->data.tokens)
        return LS_REFUSE(line, "model '%s' predicts the next token: give --tokens and --context", model->name);
    if (!training->local.sync_every && !strcmp(training->strategy_name, "local-sgd"))
        return LS_REFUSE(line, "'--strategy local-sgd' needs '--sync-every STEPS'");
    return true;
}

/* Its layers are the model's, and its weights those that training begins with. */
static ls_status take_file(struct ls_train_options *training) {
    struct ls_train_model *model = &training->model;
    ls_status status = model->file ? ls_tools_about_file(model->file, &training->about) : LS_OK;
    if (status || !model->file) return status;
    if (!training->about->layered)
        return ls_tools_fail(LS_INVALID_ARGUMENT,
                             "--model '%s' holds weights, and does not say its layers: give it as --weights",
                             model->file);
    model->said = training->about;
    model->said_by = model->file;
    if (!model->weights) model->weights = model->file;
    return LS_OK;
}

void ls_train_options_end(struct ls_train_options *training) {
    ls_tools_about_free(training->about);
    training->about = NULL;
}

/* Fills in what follows from the command line. As ls_train_options_parse. */
static bool complete_options(struct ls_command_line *line, struct ls_train_options *training, int *code) {
    ls_status status = take_file(training);
    if (status) *code = ls_exit(status);
    if (status) return false;
    *code = LS_EXIT_USAGE;
    if (!training->dataset) training->dataset = ls_train_model_dataset(&training->model);
    training->data.ids = ls_train_model_takes_ids(&training->model);
    training->model.tokens = training->data.tokens;
    training->model.context = training->data.context;
    training->model.vocabulary = training->data.vocabulary;
    if (!check_training(line, training)) return false;
    training->servers.staleness = training->staleness > 0 ? training->staleness : 0;
    if (!training->staleness) training->servers.consistency = LS_SYNC;
    training->model.seed = training->data.seed;
    training->model.loss_implied = !ls_option_given(line, "loss");
    ls_rules_complete(&training->model.rules);
    return true;
}

bool ls_train_options_parse(struct ls_command_line *line, struct ls_train_options *training, int *code) {
    *training = (struct ls_train_options){
        .strategy = {.size = sizeof(ls_strategy_options), .request = ls_signals_request},
        .data = {.size = sizeof(ls_dataset_options)},
        .servers = {.size = sizeof(ls_parameter_server_options)},
        .local = {.size = sizeof(ls_local_sgd_options)},
        .fit = {.size = sizeof(ls_fit_options), .epochs = 5},
        .checkpoint = {.size = sizeof(ls_checkpoint_options)},
        .strategy_name = "multi-worker",
        .staleness = -1,
        .model = {.name = "mlp",
                  .hidden = {128, 64},
                  .hidden_count = 2,
                  .rules = {.optimizer = ls_sgd(0), .loss = LS_SPARSE_CATEGORICAL_CROSSENTROPY}},
        .validate = true,
    };
    *code = ls_options_read(line, training);
    if (*code >= 0) return false;
    bool complete = complete_options(line, training, code);
    if (!complete) ls_train_options_end(training);
    return complete;
}

bool ls_train_options_read(int argc, char **argv, struct ls_train_options *training, int *code) {
    struct ls_command_line line = {"lockstep train", argc, argv, about, more, ls_train_tables, 0};
    return ls_train_options_parse(&line, training, code);
}
