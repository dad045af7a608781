/* lockstep train: trains a model from the command line. The same program under a TF_CONFIG, under lockstep run, or
 * alone. */
#include <errno.h>
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/augment.h"
#include "cli/callback_options.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/options.h"
#include "cli/train_model.h"
#include "cli/train_signals.h"

static const char help[] =
    "lockstep train: train a model without writing C\n"
    "\n"
    "usage: lockstep train --model M --dataset digits|shapes|DIR|FILE.npz [OPTIONS]\n"
    "\n"
    "Reads TF_CONFIG, joins the other workers, mirrors the model on its devices and trains it in lockstep; without\n"
    "TF_CONFIG it trains alone. Every worker gets the same options. The chief prints the progress.\n"
    "\n"
    "model and data:\n"
    "  --model mlp|lenet|mobilenet_v2|resnet50   (default mlp: layers of --hidden units with ReLU, then one unit a\n"
    "                          class); the others are for images of any size\n"
    "  --alpha X               multiplier of mobilenet_v2's widths (default 1)\n"
    "  --norm-momentum X       of batch normalizations' moving statistics (default: the model's own; mobilenet_v2's "
    "is\n"
    "                          0.999, so that they need thousands of steps: short trainings want 0.9)\n"
    "  --weights FILE          begin with these: .safetensors (a checkpoint too), .npz, or Keras' .h5, .weights.h5, "
    ".keras;\n"
    "                          the chief reads it. --skip-mismatch: variables that it lacks or has in another shape "
    "keep\n"
    "                          their initial values\n"
    "  --sync-batch-norm       batch normalization by the statistics of all replicas' examples\n"
    "  --fused-batch-norm      its moving variance as in TensorFlow's fused kernel: n / (n - 1) of Keras 3's\n"
    "  --summary               print the model's layers and parameters first\n"
    "  --hidden A,B,...        units of the hidden layers; 'none' for a linear model (default 128,64)\n"
    "  --dataset WHAT          drawn digits or shapes; a folder of MNIST's IDX, CIFAR-10's binary, TFRecord or NumPy\n"
    "                          files, or of images, a folder each class; or an .npz file (default digits)\n"
    "  --limit N               use only the first N training examples\n"
    "  --no-validation         do not evaluate on the test split after each epoch\n" LS_DATA_HELP LS_AUGMENT_HELP "\n"
    "training:\n"
    "  --epochs N              passes over the data (default 5)\n"
    "  --batch-size N          examples in the global batch, all replicas together (default 64 a replica)\n"
    "  --steps-per-epoch N     end an epoch after N steps (default: when the data ends)\n"
    "  --seed N                of the initial weights, the shuffle and drawn data (default 0)\n"
    "  --shuffle each-epoch|once|never   (default each-epoch)\n"
    "  --drop-remainder        leave out the short last batch\n" LS_RULE_HELP "\n"
    "checkpoints:\n"
    "  --checkpoint FOLDER     keep checkpoints there (it must be there; only the chief uses it), and go on from the\n"
    "                          newest whole one if there is one, to the bits of an undisturbed training; removed when\n"
    "                          the training succeeds. Its files are safetensors\n"
    "  --checkpoint-steps N    after every N steps (default: after each epoch)\n"
    "  --checkpoint-keep K     keep the newest K (default 2)\n"
    "  --checkpoint-retain     do not remove them when the training succeeds; the newest is the end's\n"
    "  --checkpoint-errors fail|warn   what it is when one cannot be written or read: the end, or a warning\n"
    "                          (default fail)\n"
    "\n"
    "seeing it:\n" LS_CALLBACK_HELP "\n"
    "signals:\n"
    "  SIGTERM to any worker   all workers stop after the same step, save its checkpoint where --checkpoint is given, "
    "and\n"
    "                          end with status 143; the next start goes on there. At the end of an epoch validation\n"
    "                          comes first; in the last one the training ends as always. A second SIGTERM, and one\n"
    "                          before the first step, ends the process at once\n"
    "  SIGUSR1 to any worker   with --checkpoint: save a checkpoint after the present step and go on\n"
    "\n"
    "distribution:\n"
    "  --strategy multi-worker|mirrored|one-device   (default multi-worker: reads TF_CONFIG)\n"
    "  --devices D             auto (all GPUs, else one CPU), gpu, a number of CPU devices, or a list such as "
    "gpu:0,gpu:1\n"
    "                          (default: LOCKSTEP_DEVICES, then auto)\n"
    "  --communication auto|ring|nccl   between workers (default auto)\n"
    "  --compression none|fp16|bf16     of gradients on links between workers; nothing is compressed where workers\n"
    "                          share memory (default none)\n"
    "  --transport auto|shm|tcp|grpc    between workers; sets LOCKSTEP_TRANSPORT (default: what it says, else auto)\n"
    "  --cross-device-ops auto|one-device|hierarchical|nccl   within one worker (default auto)\n"
    "  --bytes-per-pack N      gradient bytes in a bucket; 0: 1 MiB first, then 25 MiB or a sixteenth of all (default "
    "0)\n"
    "  --threads-per-replica N (default 1)\n"
    "  --timeout S             seconds that one collective may take (default LOCKSTEP_COLLECTIVE_TIMEOUT)\n"
    "  --division layout-invariant|tensorflow   how a global batch is divided (default layout-invariant)\n"
    "  --auto-shard data|off|file|auto|hint   for --division tensorflow (default data)\n"
    "  --shard-hint files|examples|rows|batches   for --auto-shard hint: of what each worker has its part\n"
    "\n"
    "output:\n"
    "  --json                  the chief's last line on stdout is one JSON object: num_replicas_in_sync,\n"
    "                          num_workers, steps, loss, accuracy, val_loss, val_accuracy, metrics and val_metrics\n"
    "                          by name, samples_per_second, weights_sha256; for mixed_float16 also loss_scale and\n"
    "                          skipped_steps; of the memory of its first device arena_bytes (what layers give each "
    "other,\n"
    "                          as planned), planned_bytes (all of the model's), peak_bytes (a GPU's, at the most)\n"
    "  --trace PATH            write the timeline of the training to PATH in Chrome's trace format (ui.perfetto.dev\n"
    "                          shows it): steps, forward, backward, each bucket's all-reduce, waiting, updating.\n"
    "                          %r in PATH becomes the rank; without it several workers write a.json as a.rank0.json,\n"
    "                          a.rank1.json, ... Sets LOCKSTEP_TRACE\n"
    "  --verbose -1|0|1|2      nothing; bar on a terminal, else lines; bar; a line an epoch (default 0)\n"
    "  --help                  print this text\n"
    "\n"
    "examples:\n"
    "  lockstep train --model mlp --dataset digits\n"
    "  lockstep run -np 2 -- lockstep train --model mlp --dataset digits --epochs 5 --json\n"
    "  TF_CONFIG='{\"cluster\":{\"worker\":[\"a:2222\",\"b:2222\"]},\"task\":{\"type\":\"worker\",\"index\":0}}' \\\n"
    "      lockstep train --dataset /data/mnist --optimizer adam\n"
    "\n"
    "exit status: 0 trained; 2 a bad command line or TF_CONFIG; 138 a peer was lost or a deadline passed;\n"
    "143 stopped by SIGTERM; 1 anything else.\n";

struct training {
    ls_strategy_options strategy;
    const char *strategy_name, *dataset;
    struct ls_train_model model;
    const char *transport; /* NULL: what the environment says */
    ls_dataset_options data;
    struct ls_augment augment;
    ls_fit_options fit;
    ls_checkpoint_options checkpoint;
    struct ls_train_callbacks callbacks;
    bool validate, json;
};

enum option_id {
    MODEL = 256,
    ALPHA,
    NORM_MOMENTUM,
    SUMMARY,
    WEIGHTS,
    SKIP_MISMATCH,
    SYNC_BATCH_NORM,
    FUSED_BATCH_NORM,
    HIDDEN,
    DATASET,
    LIMIT,
    NO_VALIDATION,
    EPOCHS,
    BATCH_SIZE,
    STEPS,
    SEED,
    SHUFFLE,
    DROP_REMAINDER,
    CHECKPOINT,
    CHECKPOINT_STEPS,
    CHECKPOINT_KEEP,
    CHECKPOINT_RETAIN,
    CHECKPOINT_ERRORS,
    STRATEGY,
    DEVICES,
    COMMUNICATION,
    COMPRESSION,
    TRANSPORT,
    CROSS_DEVICE,
    BYTES_PER_PACK,
    THREADS,
    TIMEOUT,
    DIVISION,
    AUTO_SHARD,
    SHARD_HINT,
    JSON,
    TRACE,
    VERBOSE
};

static const struct option long_options[] = {
    {"model", required_argument, NULL, MODEL},
    {"alpha", required_argument, NULL, ALPHA},
    {"norm-momentum", required_argument, NULL, NORM_MOMENTUM},
    {"summary", no_argument, NULL, SUMMARY},
    {"weights", required_argument, NULL, WEIGHTS},
    {"skip-mismatch", no_argument, NULL, SKIP_MISMATCH},
    {"sync-batch-norm", no_argument, NULL, SYNC_BATCH_NORM},
    {"fused-batch-norm", no_argument, NULL, FUSED_BATCH_NORM},
    {"hidden", required_argument, NULL, HIDDEN},
    {"dataset", required_argument, NULL, DATASET},
    {"limit", required_argument, NULL, LIMIT},
    {"no-validation", no_argument, NULL, NO_VALIDATION},
    {"epochs", required_argument, NULL, EPOCHS},
    {"batch-size", required_argument, NULL, BATCH_SIZE},
    {"steps-per-epoch", required_argument, NULL, STEPS},
    {"seed", required_argument, NULL, SEED},
    {"shuffle", required_argument, NULL, SHUFFLE},
    {"drop-remainder", no_argument, NULL, DROP_REMAINDER},
    {"checkpoint", required_argument, NULL, CHECKPOINT},
    {"checkpoint-steps", required_argument, NULL, CHECKPOINT_STEPS},
    {"checkpoint-keep", required_argument, NULL, CHECKPOINT_KEEP},
    {"checkpoint-retain", no_argument, NULL, CHECKPOINT_RETAIN},
    {"checkpoint-errors", required_argument, NULL, CHECKPOINT_ERRORS},
    {"strategy", required_argument, NULL, STRATEGY},
    {"devices", required_argument, NULL, DEVICES},
    {"communication", required_argument, NULL, COMMUNICATION},
    {"compression", required_argument, NULL, COMPRESSION},
    {"transport", required_argument, NULL, TRANSPORT},
    {"cross-device-ops", required_argument, NULL, CROSS_DEVICE},
    {"bytes-per-pack", required_argument, NULL, BYTES_PER_PACK},
    {"threads-per-replica", required_argument, NULL, THREADS},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"division", required_argument, NULL, DIVISION},
    {"auto-shard", required_argument, NULL, AUTO_SHARD},
    {"shard-hint", required_argument, NULL, SHARD_HINT},
    {"json", no_argument, NULL, JSON},
    {"trace", required_argument, NULL, TRACE},
    {"verbose", required_argument, NULL, VERBOSE},
    LS_DATA_OPTIONS,
    LS_AUGMENT_OPTIONS,
    LS_RULE_OPTIONS,
    LS_CALLBACK_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {0},
};

static const char *const models[] = {"mlp", "lenet", "mobilenet_v2", "resnet50", NULL};
static const char *const shuffles[] = {"each-epoch", "once", "never", NULL};
static const char *const checkpoint_errors[] = {"fail", "warn", NULL};
static const char *const strategies[] = {"multi-worker", "mirrored", "one-device", NULL};
static const char *const communications[] = {"auto", "ring", "nccl", NULL};
static const char *const compressions[] = {"none", "fp16", "bf16", NULL};
static const char *const transports[] = {"auto", "shm", "tcp", "grpc", NULL};
static const char *const cross_device_ops[] = {"auto", "one-device", "hierarchical", "nccl", NULL};
static const char *const divisions[] = {"layout-invariant", "tensorflow", NULL};
static const char *const auto_shards[] = {"data", "off", "file", "auto", "hint", NULL};
static const char *const shard_hints[] = {"files", "examples", "rows", "batches", NULL};

/* Options whose value is one of a list of words. */
static bool read_word(const struct ls_command_line *line, int option, struct training *training) {
    const struct {
        int option;
        const char *name;
        const char *const *words;
    } table[] = {
        {MODEL, "--model", models},
        {SHUFFLE, "--shuffle", shuffles},
        {CHECKPOINT_ERRORS, "--checkpoint-errors", checkpoint_errors},
        {STRATEGY, "--strategy", strategies},
        {COMMUNICATION, "--communication", communications},
        {COMPRESSION, "--compression", compressions},
        {TRANSPORT, "--transport", transports},
        {CROSS_DEVICE, "--cross-device-ops", cross_device_ops},
        {DIVISION, "--division", divisions},
        {AUTO_SHARD, "--auto-shard", auto_shards},
        {SHARD_HINT, "--shard-hint", shard_hints},
    };
    int value = 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].option == option && !ls_option_word(line, table[i].name, optarg, table[i].words, &value))
            return false;
    if (option == MODEL) training->model.name = models[value];
    if (option == SHUFFLE) training->data.shuffle = (ls_shuffle)value;
    if (option == CHECKPOINT_ERRORS) training->checkpoint.warn_only = value == 1;
    if (option == STRATEGY) training->strategy_name = strategies[value];
    if (option == COMMUNICATION) training->strategy.communication = (ls_communication)value;
    if (option == COMPRESSION) training->strategy.compression = (ls_compression)value;
    if (option == TRANSPORT) training->transport = transports[value];
    if (option == CROSS_DEVICE) training->strategy.cross_device_ops = (ls_cross_device_ops)value;
    if (option == DIVISION) training->data.division = (ls_division)value;
    if (option == AUTO_SHARD) training->data.auto_shard = (ls_auto_shard)value;
    if (option == SHARD_HINT) training->data.shard_hint = (ls_shard_hint)(LS_HINT_FILES + value);
    return true;
}

/* Options whose value is a whole number. */
static bool read_integer(const struct ls_command_line *line, int option, struct training *training) {
    const struct {
        int option;
        const char *name;
        int64_t low, high;
    } table[] = {
        {LIMIT, "--limit", 1, INT64_C(1) << 40},
        {EPOCHS, "--epochs", 1, 1000000},
        {BATCH_SIZE, "--batch-size", 1, 1 << 30},
        {STEPS, "--steps-per-epoch", 1, INT64_C(1) << 40},
        {SEED, "--seed", 0, INT64_MAX},
        {CHECKPOINT_STEPS, "--checkpoint-steps", 1, INT64_C(1) << 40},
        {CHECKPOINT_KEEP, "--checkpoint-keep", 1, 1000000},
        {BYTES_PER_PACK, "--bytes-per-pack", 0, INT64_C(1) << 40},
        {THREADS, "--threads-per-replica", 1, 1024},
        {VERBOSE, "--verbose", -1, 2},
    };
    int64_t value = 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].option == option &&
            !ls_option_integer(line, table[i].name, optarg, table[i].low, table[i].high, &value))
            return false;
    if (option == LIMIT) training->data.limit = value;
    if (option == EPOCHS) training->fit.epochs = (int)value;
    if (option == BATCH_SIZE) training->data.batch_size = value;
    if (option == STEPS) training->fit.steps_per_epoch = value;
    if (option == SEED) training->model.seed = (uint64_t)value;
    if (option == CHECKPOINT_STEPS) training->checkpoint.every_steps = value;
    if (option == CHECKPOINT_KEEP) training->checkpoint.keep = (int)value;
    if (option == BYTES_PER_PACK) training->strategy.bytes_per_pack = (size_t)value;
    if (option == THREADS) training->strategy.threads_per_replica = (int)value;
    if (option == VERBOSE) training->fit.verbose = (int)value;
    return true;
}

static bool read_number(const struct ls_command_line *line, int option, struct training *training) {
    double value;
    if (option == ALPHA) {
        if (!ls_option_number(line, "--alpha", optarg, 0.01, 16, &value)) return false;
        training->model.alpha = (float)value;
    }
    if (option == NORM_MOMENTUM) {
        if (!ls_option_number(line, "--norm-momentum", optarg, 0.001, 0.999999, &value)) return false;
        training->model.norm_momentum = (float)value;
    }
    if (option == TIMEOUT)
        return ls_option_number(line, "--timeout", optarg, 1e-3, 1e6, &training->strategy.timeout_seconds);
    return true;
}

static void read_flag(int option, struct training *training) {
    if (option == NO_VALIDATION) training->validate = false;
    if (option == DROP_REMAINDER) training->data.drop_remainder = true;
    if (option == JSON) training->json = true;
    if (option == SUMMARY) training->model.summary = true;
    if (option == SYNC_BATCH_NORM) training->model.synchronized = true;
    if (option == FUSED_BATCH_NORM) training->model.fused = true;
    if (option == WEIGHTS) training->model.weights = optarg;
    if (option == SKIP_MISMATCH) training->model.skip_mismatch = true;
    if (option == CHECKPOINT) training->checkpoint.folder = optarg;
    if (option == CHECKPOINT_RETAIN) training->checkpoint.keep_on_success = true;
    if (option == DATASET) training->dataset = optarg;
    if (option == DEVICES) training->strategy.devices = optarg;
}

/* The strategy reads it from there. */
static bool set_trace(const struct ls_command_line *line, const char *path) {
    if (!*path) return ls_usage_error(line, "--trace needs a path") == 0;
    if (!setenv("LOCKSTEP_TRACE", path, 1)) return true;
    return ls_usage_error(line, "--trace '%.80s': %s", path, strerror(errno)) == 0;
}

static bool read_option(const struct ls_command_line *line, int option, struct training *training) {
    read_flag(option, training);
    if (option == HIDDEN) return ls_read_hidden(line, optarg, &training->model);
    if (option == TRACE) return set_trace(line, optarg);
    return read_word(line, option, training) && read_integer(line, option, training) &&
           read_number(line, option, training) && ls_read_data_option(line, option, &training->data) &&
           ls_read_augment_option(line, option, &training->augment, &training->data) &&
           ls_read_callback_option(line, option, &training->callbacks) &&
           ls_read_rule_option(line, option, &training->model.rules);
}

static ls_status make_strategy(const struct training *training, ls_strategy **strategy) {
    if (!strcmp(training->strategy_name, "mirrored")) return ls_mirrored_strategy_new(&training->strategy, strategy);
    if (!strcmp(training->strategy_name, "one-device"))
        return ls_one_device_strategy_new(training->strategy.devices, strategy);
    return ls_multi_worker_mirrored_strategy_new(&training->strategy, strategy);
}

struct outcome {
    ls_result result;
    char sha256[65];
    const char *metrics[LS_MAX_METRICS]; /* names */
};

static ls_status open_data(const struct training *training, ls_dataset **data, ls_dataset **validation) {
    ls_dataset_options options = training->data;
    options.maps = training->augment.train;
    ls_status status = ls_dataset_open(training->dataset, &options, data);
    if (status || !training->validate) return status;
    options.split = LS_TEST;
    options.limit = options.skip = 0;
    options.maps = training->augment.test;
    options.shuffle = LS_SHUFFLE_NEVER;
    options.drop_remainder = false;
    return ls_dataset_open(training->dataset, &options, validation);
}

static ls_status train(struct training *training, ls_strategy *strategy, struct outcome *outcome) {
    ls_dataset *data = NULL, *validation = NULL;
    ls_model *model = NULL;
    if (!training->data.batch_size) training->data.batch_size = 64 * ls_num_replicas_in_sync(strategy);
    training->data.seed = training->model.seed;
    ls_status status = open_data(training, &data, &validation);
    training->fit.validation_data = validation;
    training->fit.request = ls_train_signals_request;
    training->fit.callbacks = training->callbacks.list;
    training->fit.checkpoint = training->checkpoint.folder ? &training->checkpoint : NULL;
    if (!status) status = ls_train_model_make(&training->model, strategy, data, &model);
    if (!status) status = ls_train_callbacks_make(&training->callbacks, validation != NULL);
    for (int i = 0; !status && i < LS_MAX_METRICS; i++) outcome->metrics[i] = ls_model_metric_name(model, i);
    if (!status) status = ls_model_fit(model, data, &training->fit, &outcome->result);
    if (!status) status = ls_model_weights_sha256(model, outcome->sha256);
    ls_model_free(model);
    ls_train_callbacks_free(&training->callbacks);
    ls_dataset_free(data);
    ls_dataset_free(validation);
    return status;
}

static void print_number(const char *name, double value) {
    if (isfinite(value))
        (void)printf("\"%s\": %.9g, ", name, value);
    else
        (void)printf("\"%s\": null, ", name);
}

static void print_bytes(const char *name, int64_t bytes) {
    if (bytes)
        (void)printf("\"%s\": %lld, ", name, (long long)bytes);
    else
        (void)printf("\"%s\": null, ", name);
}

static void print_json(int replicas, int workers, const struct outcome *outcome) {
    (void)printf("{\"num_replicas_in_sync\": %d, \"num_workers\": %d, \"steps\": %lld, ", replicas, workers,
                 (long long)outcome->result.steps);
    print_number("loss", outcome->result.loss);
    print_number("accuracy", outcome->result.accuracy);
    print_number("val_loss", outcome->result.val_loss);
    print_number("val_accuracy", outcome->result.val_accuracy);
    for (int i = 0; i < LS_MAX_METRICS && outcome->metrics[i]; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "val_%s", outcome->metrics[i]);
        print_number(outcome->metrics[i], outcome->result.metrics[i]);
        print_number(name, outcome->result.val_metrics[i]);
    }
    print_number("samples_per_second", outcome->result.samples_per_second);
    if (outcome->result.loss_scale > 0)
        (void)printf("\"loss_scale\": %.9g, \"skipped_steps\": %lld, ", outcome->result.loss_scale,
                     (long long)outcome->result.skipped_steps);
    print_bytes("arena_bytes", outcome->result.arena_bytes);
    print_bytes("planned_bytes", outcome->result.planned_bytes);
    print_bytes("peak_bytes", outcome->result.peak_bytes);
    (void)printf("\"weights_sha256\": \"%s\"}\n", outcome->sha256);
}

static int run_training(struct training *training) {
    ls_strategy *strategy = NULL;
    struct outcome outcome;
    if (training->transport && setenv("LOCKSTEP_TRANSPORT", training->transport, 1)) {
        perror("lockstep train: LOCKSTEP_TRANSPORT");
        return 1;
    }
    ls_train_signals_install(training->checkpoint.folder != NULL);
    ls_status status = make_strategy(training, &strategy);
    if (status) return ls_exit(status);
    status = train(training, strategy, &outcome);
    int replicas = ls_num_replicas_in_sync(strategy), workers = ls_num_workers(strategy);
    bool chief = ls_is_chief(strategy); /* of those who are left */
    status = ls_strategy_close(strategy, status);
    if (!status && chief && training->json) print_json(replicas, workers, &outcome);
    return ls_exit(status);
}

int train_main(int argc, char **argv) {
    const struct ls_command_line line = {"lockstep train", argc, argv, "h", long_options};
    struct training training = {
        .strategy = {.size = sizeof(ls_strategy_options)},
        .data = {.size = sizeof(ls_dataset_options)},
        .fit = {.size = sizeof(ls_fit_options), .epochs = 5},
        .checkpoint = {.size = sizeof(ls_checkpoint_options)},
        .strategy_name = "multi-worker",
        .dataset = "digits",
        .model = {.name = "mlp",
                  .hidden = {128, 64},
                  .hidden_count = 2,
                  .rules = {.optimizer = ls_sgd(0), .loss = LS_SPARSE_CATEGORICAL_CROSSENTROPY}},
        .validate = true,
    };
    const ls_checkpoint_options none = training.checkpoint;
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == 'h') return fputs(help, stdout) < 0;
        if (option == LS_OPTION_BAD || !read_option(&line, option, &training)) return LS_EXIT_USAGE;
    }
    if (!ls_no_arguments(&line) || !ls_check_callback_options(&line, &training.callbacks)) return LS_EXIT_USAGE;
    if (!training.checkpoint.folder && memcmp(&training.checkpoint, &none, sizeof(none)) != 0)
        return ls_usage_error(&line, "options '--checkpoint-...' need '--checkpoint FOLDER'");
    if ((training.model.synchronized || training.model.fused) &&
        (!strcmp(training.model.name, "mlp") || !strcmp(training.model.name, "lenet")))
        return ls_usage_error(&line, "model '%s' has no batch normalization", training.model.name);
    if (training.model.skip_mismatch && !training.model.weights)
        return ls_usage_error(&line, "option '--skip-mismatch' needs '--weights FILE'");
    ls_rules_complete(&training.model.rules);
    return run_training(&training);
}
