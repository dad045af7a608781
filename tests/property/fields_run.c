/* Every field of a strategy's, a fit's, a checkpoint's, a variable's and the callbacks' options: it changes something,
 * or is refused. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "property/fields.h"

/* ---- a strategy's ---- */

static const ls_strategy_options strategy_base = {
    .size = sizeof(ls_strategy_options), .devices = "1", .tf_config = "{}"};

static int opened_log; /* lines */

static void count_lines(void *context, ls_log_level level, const char *line) {
    (void)level, (void)line;
    ++*(int *)(context ? context : &opened_log);
}

static const struct change strategy_changes[] = {
    CHANGE(ls_strategy_options, devices, "no such device"),
    CHANGE(ls_strategy_options, cross_device_ops, 99),
    CHANGE(ls_strategy_options, communication, 99),
    CHANGE(ls_strategy_options, timeout_seconds, -1),
    CHANGE(ls_strategy_options, join_timeout_seconds, -1),
    CHANGE(ls_strategy_options, tf_config, "{"),
    CHANGE(ls_strategy_options, replicas, -1),
    CHANGE(ls_strategy_options, threads_per_replica, -1),
    CHANGE(ls_strategy_options, compression, 99),
    CHANGE(ls_strategy_options, shard, 99),
    CHANGE(ls_strategy_options, shard_copies, 1),
    CHANGE(ls_strategy_options, stages, 2),
};

static ls_status open_strategy(const ls_strategy_options *options) {
    ls_strategy *strategy = NULL;
    ls_status status = ls_multi_worker_mirrored_strategy_new(options, &strategy);
    ls_strategy_free(strategy);
    return status;
}

TEST_EACH(every_field_of_strategy_options_counts, COUNT_OF(strategy_changes)) {
    ls_strategy_options changed = strategy_base;
    assert_ok(open_strategy(&strategy_base));
    change_field(&changed, &strategy_changes[_i]);
    ck_assert_msg(open_strategy(&changed) == LS_INVALID_ARGUMENT, "%s is ignored", strategy_changes[_i].field);
}

FIELD(ls_central_storage_options, parameter_device) {
    ls_strategy *strategy = NULL;
    ls_status status =
        ls_central_storage_strategy_new(NULL, LS_CENTRAL_STORAGE(.parameter_device = "gpu:0"), &strategy);
    return status == LS_INVALID_ARGUMENT && !strategy;
}

FIELD(ls_parameter_server_options, replicas) {
    ls_strategy *strategy = NULL;
    ls_status status = ls_parameter_server_strategy_new(NULL, LS_PARAMETER_SERVER(.replicas = 17), &strategy);
    return status == LS_INVALID_ARGUMENT && strstr(ls_error(), "replicas 17") && !strategy;
}

static bool is_refused_for_servers(ls_parameter_server_options servers, ls_status wanted, const char *field) {
    ls_strategy *strategy = NULL;
    servers.size = sizeof(servers);
    return ls_parameter_server_strategy_new(NULL, &servers, &strategy) == wanted && strstr(ls_error(), field) &&
           !strategy;
}

FIELD(ls_parameter_server_options, consistency) {
    return is_refused_for_servers((ls_parameter_server_options){.consistency = (ls_consistency)99}, LS_INVALID_ARGUMENT,
                                  "consistency 99") &&
           is_refused_for_servers((ls_parameter_server_options){.consistency = LS_ASYNC, .sparse = LS_SPARSE_ALWAYS},
                                  LS_UNIMPLEMENTED, "consistency LS_SYNC in place of async");
}

FIELD(ls_parameter_server_options, staleness) {
    return is_refused_for_servers((ls_parameter_server_options){.consistency = LS_ASYNC, .staleness = -1},
                                  LS_INVALID_ARGUMENT, "staleness -1") &&
           is_refused_for_servers((ls_parameter_server_options){.staleness = 2}, LS_INVALID_ARGUMENT,
                                  "staleness and on_stale go with");
}

FIELD(ls_parameter_server_options, on_stale) {
    return is_refused_for_servers((ls_parameter_server_options){.consistency = LS_ASYNC, .on_stale = (ls_on_stale)5},
                                  LS_INVALID_ARGUMENT, "on_stale 5") &&
           is_refused_for_servers((ls_parameter_server_options){.on_stale = LS_STALE_SCALE}, LS_INVALID_ARGUMENT,
                                  "staleness and on_stale go with");
}

FIELD(ls_parameter_server_options, hybrid) {
    return is_refused_for_servers((ls_parameter_server_options){.consistency = LS_ASYNC, .hybrid = true},
                                  LS_INVALID_ARGUMENT, "hybrid goes with consistency LS_SYNC");
}

FIELD(ls_parameter_server_options, max_staleness) {
    return is_refused_for_servers((ls_parameter_server_options){.consistency = LS_ASYNC, .max_staleness = 3},
                                  LS_INVALID_ARGUMENT, "max_staleness 3 goes with") &&
           is_refused_for_servers((ls_parameter_server_options){.consistency = LS_ASYNC, .on_stale = LS_STALE_DROP},
                                  LS_INVALID_ARGUMENT, "max_staleness 0 is needed by");
}

FIELD(ls_parameter_server_options, delay) {
    return is_refused_for_servers((ls_parameter_server_options){.consistency = LS_DELAYED, .delay = -1},
                                  LS_INVALID_ARGUMENT, "delay -1") &&
           is_refused_for_servers((ls_parameter_server_options){.delay = 1}, LS_INVALID_ARGUMENT, "delay 1 goes with");
}

FIELD(ls_parameter_server_options, sparse) {
    ls_strategy *strategy = NULL;
    ls_status status =
        ls_parameter_server_strategy_new(NULL, LS_PARAMETER_SERVER(.sparse = (ls_sparse_tables)7), &strategy);
    return status == LS_INVALID_ARGUMENT && strstr(ls_error(), "sparse 7") && !strategy;
}

static bool is_refused_as_local(ls_local_sgd_options local, const char *field) {
    ls_strategy *strategy = NULL;
    local.size = sizeof(local);
    ls_status status = ls_local_sgd_strategy_new(&strategy_base, &local, &strategy);
    return status == LS_INVALID_ARGUMENT && strstr(ls_error(), field) && !strategy;
}

FIELD(ls_local_sgd_options, sync_every) {
    return is_refused_as_local((ls_local_sgd_options){.sync_every = -1}, "sync_every -1");
}

FIELD(ls_local_sgd_options, outer_learning_rate) {
    return is_refused_as_local((ls_local_sgd_options){.sync_every = 1, .outer_learning_rate = NAN}, "outer_learning");
}

FIELD(ls_local_sgd_options, outer_momentum) {
    return is_refused_as_local((ls_local_sgd_options){.sync_every = 1, .outer_momentum = 2}, "outer_momentum 2");
}

FIELD(ls_local_sgd_options, fragments) {
    return is_refused_as_local((ls_local_sgd_options){.sync_every = 3, .fragments = 2}, "of fragments 2");
}

FIELD(ls_local_sgd_options, fragment_delay) {
    return is_refused_as_local((ls_local_sgd_options){.sync_every = 3, .fragment_delay = 3}, "fragment_delay 3");
}

FIELD(ls_local_sgd_options, fragment_alpha) {
    return is_refused_as_local((ls_local_sgd_options){.sync_every = 3, .fragment_alpha = -1}, "fragment_alpha -1");
}

static void find_moments(void *context, ls_log_level level, const char *line) {
    (void)level;
    *(bool *)context |= strstr(line, "each has its own moments") != NULL;
}

FIELD(ls_local_sgd_options, local_moments) {
    ls_strategy_options options = strategy_base;
    ls_strategy *strategy = NULL;
    bool found = false;
    options.log = find_moments;
    options.log_context = &found;
    assert_ok(ls_local_sgd_strategy_new(&options, LS_LOCAL_SGD(.sync_every = 1, .local_moments = true), &strategy));
    ls_strategy_free(strategy);
    return found;
}

FIELD(ls_strategy_options, log) {
    ls_strategy_options options = strategy_base;
    options.log = count_lines;
    opened_log = 0;
    assert_ok(open_strategy(&options));
    return opened_log > 0;
}

FIELD(ls_strategy_options, log_context) {
    ls_strategy_options options = strategy_base;
    int mine = 0;
    options.log = count_lines;
    options.log_context = &mine;
    assert_ok(open_strategy(&options));
    return mine > 0;
}

/* ---- an all-reduce's ---- */

static struct digest all_reduce(ls_all_reduce_options options) {
    ls_communicator *communicator = NULL;
    const float inputs[3] = {1, -2.5F, 3};
    float outputs[3] = {0};
    options.size = sizeof(options);
    options.name = "sum";
    options.input = inputs;
    options.output = outputs;
    options.count = COUNT_OF(outputs);
    assert_ok(ls_communicator_new(LS_STRATEGY(.tf_config = "{}"), &communicator));
    ls_status status = ls_all_reduce(communicator, &options);
    struct digest digest = status ? digest_refusal(status) : digest_bytes((struct digest){0}, outputs, sizeof(outputs));
    ls_communicator_free(communicator);
    return digest;
}

FIELD(ls_all_reduce_options, prescale) {
    return differs(all_reduce((ls_all_reduce_options){0}), all_reduce((ls_all_reduce_options){.prescale = 0.5}));
}

FIELD(ls_all_reduce_options, postscale) {
    return differs(all_reduce((ls_all_reduce_options){0}), all_reduce((ls_all_reduce_options){.postscale = 0.5}));
}

FIELD(ls_all_reduce_options, compression) {
    return all_reduce((ls_all_reduce_options){.compression = (ls_compression)99}).refused;
}

/* ---- gradients' ---- */

enum { PASSES = 2 };

static struct digest add_gradients(ls_gradients_options options) {
    ls_communicator *communicator = NULL;
    ls_gradients *gradients = NULL;
    float values[2] = {3, 5};
    void *const arrays[2] = {&values[0], &values[1]};
    const size_t counts[2] = {1, 1};
    const ls_dtype dtypes[2] = {LS_FLOAT32, LS_FLOAT32};
    struct digest digest = {0};
    options.size = sizeof(options);
    options.arrays = arrays;
    options.counts = counts;
    options.dtypes = dtypes;
    options.array_count = COUNT_OF(arrays);
    assert_ok(ls_communicator_new(LS_STRATEGY(.tf_config = "{}"), &communicator));
    assert_ok(ls_communicator_negotiate(communicator));
    ls_status status = ls_gradients_new(communicator, &options, &gradients);
    for (int pass = 0; pass < PASSES && !status; pass++) {
        status = ls_gradients_ready(gradients, 0);
        digest = digest_bytes(digest, &status, sizeof(status));
    }
    digest = gradients ? digest_bytes(digest, values, sizeof(values)) : digest_refusal(status);
    ls_gradients_free(gradients);
    ls_communicator_free(communicator);
    return digest;
}

FIELD(ls_gradients_options, passes) {
    return differs(add_gradients((ls_gradients_options){0}), add_gradients((ls_gradients_options){.passes = PASSES}));
}

FIELD(ls_gradients_options, predivide) {
    return add_gradients((ls_gradients_options){.predivide = (double)INFINITY}).refused;
}

/* ---- a fit's ---- */

struct told {
    int epochs, asks;
};

static ls_status tell_epoch(void *context, int epoch, const ls_result *result) {
    struct told *told = context;
    (void)epoch, (void)result;
    if (told) told->epochs++;
    return told ? LS_OK : LS_OUT_OF_RANGE;
}

static ls_request stop_at_once(void *context) {
    (void)context;
    return LS_STOP;
}

static struct digest run_fit(ls_fit_options fit) {
    struct trial trial = trial_default();
    fit.size = sizeof(fit);
    trial.fit = fit;
    return trial_run(&trial);
}

static struct digest plain_fit(void) {
    return run_fit((ls_fit_options){.epochs = 2, .verbose = -1});
}

FIELD(ls_fit_options, epochs) {
    return differs(plain_fit(), run_fit((ls_fit_options){.epochs = 3, .verbose = -1}));
}

FIELD(ls_fit_options, steps_per_epoch) {
    return differs(plain_fit(), run_fit((ls_fit_options){.epochs = 2, .verbose = -1, .steps_per_epoch = 1}));
}

FIELD(ls_fit_options, validation_data) {
    ls_dataset *data = few_images(NULL);
    bool differ = differs(plain_fit(), run_fit((ls_fit_options){.epochs = 2, .verbose = -1, .validation_data = data}));
    ls_dataset_free(data);
    return differ;
}

static off_t printed(int verbose) {
    int held = dup(STDOUT_FILENO), file = open(in_scratch("printed"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert(held >= 0 && file >= 0 && fflush(stdout) == 0 && dup2(file, STDOUT_FILENO) >= 0);
    struct digest digest = run_fit((ls_fit_options){.verbose = verbose});
    (void)fflush(stdout);
    ck_assert(!digest.refused && dup2(held, STDOUT_FILENO) >= 0);
    off_t size = lseek(file, 0, SEEK_END);
    (void)close(held), (void)close(file);
    return size;
}

FIELD(ls_fit_options, verbose) {
    return printed(-1) == 0 && printed(2) > 0;
}

FIELD(ls_fit_options, on_epoch) {
    return differs(plain_fit(), run_fit((ls_fit_options){.epochs = 2, .verbose = -1, .on_epoch = tell_epoch}));
}

FIELD(ls_fit_options, context) {
    struct told told = {0};
    (void)run_fit((ls_fit_options){.epochs = 2, .verbose = -1, .on_epoch = tell_epoch, .context = &told});
    return told.epochs == 2;
}

FIELD(ls_fit_options, class_weight) {
    static const ls_class_weight five_times[] = {{1, 5}, {-1, 0}};
    return differs(plain_fit(), run_fit((ls_fit_options){.epochs = 2, .verbose = -1, .class_weight = five_times}));
}

FIELD(ls_fit_options, request) {
    return differs(plain_fit(), run_fit((ls_fit_options){.epochs = 2, .verbose = -1, .request = stop_at_once}));
}

/* ---- a checkpoint's ---- */

/* The number of files that a training leaves in folder. */
static int count_files(ls_checkpoint_options options, const char *folder, struct digest *digest) {
    int count = 0;
    options.size = sizeof(options);
    options.folder = in_scratch(folder);
    char path[256];
    (void)snprintf(path, sizeof(path), "%s", options.folder);
    options.folder = path;
    *digest = run_fit((ls_fit_options){.epochs = 2, .verbose = -1, .checkpoint = &options});
    DIR *listed = opendir(path);
    for (struct dirent *entry = listed ? readdir(listed) : NULL; entry; entry = readdir(listed))
        count += !strncmp(entry->d_name, "checkpoint-", 11);
    if (listed) (void)closedir(listed);
    return count;
}

static const char *new_folder(void) {
    static char name[32];
    static int number;
    (void)snprintf(name, sizeof(name), "checkpoints%d", number++);
    ck_assert_int_eq(mkdir(in_scratch(name), 0700), 0);
    return name;
}

FIELD(ls_checkpoint_options, folder) {
    struct digest digest;
    return count_files((ls_checkpoint_options){.keep_on_success = true}, new_folder(), &digest) > 0 && !digest.refused;
}

FIELD(ls_checkpoint_options, keep_on_success) {
    struct digest digest;
    return count_files((ls_checkpoint_options){.keep_on_success = false}, new_folder(), &digest) == 0;
}

FIELD(ls_checkpoint_options, keep) {
    struct digest digest;
    return count_files((ls_checkpoint_options){.keep_on_success = true, .keep = 1}, new_folder(), &digest) == 1;
}

/* Fewer than after each epoch: the end's alone. */
FIELD(ls_checkpoint_options, every_steps) {
    struct digest digest;
    ls_checkpoint_options epoch = {.keep_on_success = true, .keep = 100}, rare = epoch;
    rare.every_steps = 1000;
    return count_files(rare, new_folder(), &digest) < count_files(epoch, new_folder(), &digest);
}

FIELD(ls_checkpoint_options, warn_only) {
    struct digest fails, warns;
    (void)count_files((ls_checkpoint_options){.keep = 1}, "no/such", &fails);
    (void)count_files((ls_checkpoint_options){.warn_only = true}, "no/such", &warns);
    return fails.refused && !warns.refused;
}

FIELD(ls_checkpoint_options, overrides) {
    struct digest digest;
    (void)count_files((ls_checkpoint_options){.overrides = "seed"}, new_folder(), &digest);
    return digest.refused;
}

FIELD(ls_fit_options, checkpoint) {
    return ls_checkpoint_options_folder();
}

/* ---- a variable's ---- */

static ls_status add_one(ls_replica *replica, void *context) {
    const float one = (float)ls_replica_id(replica) + 1;
    return ls_variable_assign_add(context, replica, &one);
}

/* After each of two replicas has added its number. */
static struct digest use_variable(const ls_variable_options *options) {
    ls_strategy *strategy = two_devices();
    ls_variable *variable = NULL;
    double value[4] = {0};
    ls_status status = ls_variable_new(strategy, "v", options, &variable);
    if (!status) status = ls_strategy_run(strategy, add_one, variable);
    if (!status) status = ls_variable_read(variable, value);
    struct digest digest = status ? digest_refusal(status) : digest_bytes((struct digest){0}, value, sizeof(value));
    ls_strategy_free(strategy);
    return digest;
}

static const float five = 5;
static const ls_variable_options variable_base = {
    .size = sizeof(ls_variable_options), .dtype = LS_FLOAT32, .aggregation = LS_AGGREGATE_SUM};
static const struct change variable_changes[] = {
    CHANGE(ls_variable_options, dtype, 99),
    CHANGE(ls_variable_options, shape, {1, {-1}}),
    CHANGE(ls_variable_options, initial, &five),
    CHANGE(ls_variable_options, synchronization, 99),
    CHANGE(ls_variable_options, aggregation, LS_AGGREGATE_MEAN),
};

TEST_EACH(every_field_of_variable_options_counts, COUNT_OF(variable_changes)) {
    ls_variable_options changed = variable_base;
    change_field(&changed, &variable_changes[_i]);
    ck_assert_msg(differs(use_variable(&variable_base), use_variable(&changed)), "%s is ignored",
                  variable_changes[_i].field);
}

TESTS("fields", .seconds = 60, .begin = make_scratch, .end = remove_scratch)
