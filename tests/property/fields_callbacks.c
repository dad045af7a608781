/* Every field of the callbacks' options and of a callback itself: it changes what is trained or written, or is refused.
 */
#define _GNU_SOURCE
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "property/fields.h"

/* The working folder while tests run; "out" is new for each training. */

/* ---- what callbacks write ---- */

static int found_files;
static int64_t found_bytes;

static int find(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)path, (void)at;
    if (kind != FTW_F) return 0;
    found_files++;
    found_bytes += info->st_size;
    return 0;
}

static int forget(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

/* Files by number and size: their names and contents have times in them. */
static struct digest digest_files(struct digest digest) {
    found_files = 0, found_bytes = 0;
    (void)nftw("out", find, 8, FTW_PHYS);
    digest = digest_bytes(digest, &found_files, sizeof(found_files));
    return digest_bytes(digest, &found_bytes, sizeof(found_bytes));
}

static struct digest run_with(ls_callback *callback) {
    struct trial trial = trial_default();
    ls_callback *const list[] = {callback, NULL};
    (void)nftw("out", forget, 8, FTW_DEPTH | FTW_PHYS);
    ck_assert_int_eq(mkdir("out", 0700), 0);
    trial.fit.epochs = 6;
    trial.fit.callbacks = list;
    trial.optimizer.learning_rate = 0.01F; /* the loss falls in each epoch */
    struct digest digest = trial_run(&trial);
    return digest.refused ? digest : digest_files(digest);
}

/* ---- those of the library ---- */

typedef ls_status make_fn(const void *options, ls_callback **callback);

static ls_status make_stopping(const void *options, ls_callback **callback) {
    return ls_early_stopping_new(options, callback);
}
static ls_status make_plateau(const void *options, ls_callback **callback) {
    return ls_reduce_on_plateau_new(options, callback);
}
static ls_status make_checkpoint(const void *options, ls_callback **callback) {
    return ls_model_checkpoint_new(options, callback);
}
static ls_status make_csv(const void *options, ls_callback **callback) {
    return ls_csv_logger_new(options, callback);
}
static ls_status make_board(const void *options, ls_callback **callback) {
    return ls_tensorboard_new(options, callback);
}
static ls_status make_kubeflow(const void *options, ls_callback **callback) {
    return ls_kubeflow_new(options, callback);
}

#define STOPPING(...)                                                                                                  \
    &(const ls_early_stopping_options) {                                                                               \
        .size = sizeof(ls_early_stopping_options), __VA_ARGS__                                                         \
    }
#define PLATEAU(...)                                                                                                   \
    &(const ls_reduce_on_plateau_options) {                                                                            \
        .size = sizeof(ls_reduce_on_plateau_options), __VA_ARGS__                                                      \
    }
#define CHECKPOINT(...)                                                                                                \
    &(const ls_model_checkpoint_options) {                                                                             \
        .size = sizeof(ls_model_checkpoint_options), __VA_ARGS__                                                       \
    }
#define CSV(...)                                                                                                       \
    &(const ls_csv_logger_options) {                                                                                   \
        .size = sizeof(ls_csv_logger_options), __VA_ARGS__                                                             \
    }
#define BOARD(...)                                                                                                     \
    &(const ls_tensorboard_options) {                                                                                  \
        .size = sizeof(ls_tensorboard_options), __VA_ARGS__                                                            \
    }
/* Nothing can be told: that is a warning. */
#define KUBEFLOW                                                                                                       \
    &(const ls_kubeflow_options) {                                                                                     \
        .size = sizeof(ls_kubeflow_options), .url = "https://127.0.0.1/", .authority = "no/such/file"                  \
    }
#define EACH "out/{epoch}.npz"

static const struct {
    make_fn *make;
    const void *base;
    struct change change;
    bool fails; /* the base is what is refused: what is changed is not */
} choices[] = {
    {make_stopping, STOPPING(.monitor = "loss"), CHANGE(ls_early_stopping_options, monitor, "nothing")},
    {make_stopping, STOPPING(.monitor = "loss"), CHANGE(ls_early_stopping_options, mode, LS_MONITOR_MAX)},
    {make_stopping, STOPPING(.monitor = "loss"), CHANGE(ls_early_stopping_options, min_delta, 100)},
    {make_stopping, STOPPING(.monitor = "loss", .min_delta = 100, .patience = 1),
     CHANGE(ls_early_stopping_options, patience, 3)},
    {make_stopping, STOPPING(.monitor = "loss", .patience = 1, .mode = LS_MONITOR_MAX),
     CHANGE(ls_early_stopping_options, restore_best_weights, true)},
    {make_stopping, STOPPING(.monitor = "loss", .patience = 1, .min_delta = 100),
     CHANGE(ls_early_stopping_options, start_from_epoch, 3)},
    {make_plateau, PLATEAU(.monitor = "loss"), CHANGE(ls_reduce_on_plateau_options, monitor, "nothing")},
    {make_plateau, PLATEAU(.monitor = "loss", .patience = 1),
     CHANGE(ls_reduce_on_plateau_options, mode, LS_MONITOR_MAX)},
    {make_plateau, PLATEAU(.monitor = "loss", .patience = 1, .min_delta = 100),
     CHANGE(ls_reduce_on_plateau_options, factor, 0.5)},
    {make_plateau, PLATEAU(.monitor = "loss", .patience = 1, .min_delta = 100),
     CHANGE(ls_reduce_on_plateau_options, patience, 3)},
    {make_plateau, PLATEAU(.monitor = "loss", .patience = 1), CHANGE(ls_reduce_on_plateau_options, min_delta, 100)},
    {make_plateau, PLATEAU(.monitor = "loss", .patience = 1, .min_delta = 100),
     CHANGE(ls_reduce_on_plateau_options, cooldown, 3)},
    {make_plateau, PLATEAU(.monitor = "loss", .patience = 1, .min_delta = 100),
     CHANGE(ls_reduce_on_plateau_options, min_lr, 0.009)},
    {make_checkpoint, CHECKPOINT(.path = EACH), CHANGE(ls_model_checkpoint_options, path, "out/one.npz")},
    {make_checkpoint, CHECKPOINT(.path = EACH, .monitor = "loss", .save_best_only = true),
     CHANGE(ls_model_checkpoint_options, monitor, "nothing")},
    {make_checkpoint, CHECKPOINT(.path = EACH, .monitor = "loss", .save_best_only = true),
     CHANGE(ls_model_checkpoint_options, mode, LS_MONITOR_MAX)},
    {make_checkpoint, CHECKPOINT(.path = EACH, .monitor = "loss", .mode = LS_MONITOR_MAX),
     CHANGE(ls_model_checkpoint_options, save_best_only, true)},
    {make_checkpoint, CHECKPOINT(.path = "no/such/folder.npz"), CHANGE(ls_model_checkpoint_options, warn_only, true),
     true},
    {make_csv, CSV(.path = "out/log.csv"), CHANGE(ls_csv_logger_options, path, "no/such/folder.csv")},
    {make_csv, CSV(.path = "no/such/folder.csv"), CHANGE(ls_csv_logger_options, warn_only, true), true},
    {make_board, BOARD(.folder = "out"), CHANGE(ls_tensorboard_options, folder, "no/such/folder")},
    {make_board, BOARD(.folder = "out"), CHANGE(ls_tensorboard_options, histogram_freq, 1)},
    {make_board, BOARD(.folder = "out", .histogram_freq = 1), CHANGE(ls_tensorboard_options, gradients, true)},
    {make_board, BOARD(.folder = "out", .histogram_freq = 1), CHANGE(ls_tensorboard_options, write_images, true)},
    {make_board, BOARD(.folder = "out"), CHANGE(ls_tensorboard_options, update_freq, 1)},
    {make_board, BOARD(.folder = "out"), CHANGE(ls_tensorboard_options, no_graph, true)},
    {make_board, BOARD(.folder = "out"), CHANGE(ls_tensorboard_options, write_steps_per_second, true)},
    {make_board, BOARD(.folder = "no/such/folder"), CHANGE(ls_tensorboard_options, warn_only, true), true},
    {make_kubeflow, KUBEFLOW, CHANGE(ls_kubeflow_options, url, "ftp://127.0.0.1/")},
    {make_kubeflow, KUBEFLOW, CHANGE(ls_kubeflow_options, interval, -1)},
};

static struct digest run_choice(make_fn *make, const void *options) {
    ls_callback *callback = NULL;
    ls_status status = make(options, &callback);
    if (status) return digest_refusal(status);
    struct digest digest = run_with(callback);
    ls_callback_free(callback);
    return digest;
}

/* size is the first field of each. */
TEST_EACH(every_field_of_callback_options_counts, COUNT_OF(choices)) {
    char changed[256];
    size_t size;
    memcpy(&size, choices[_i].base, sizeof(size));
    ck_assert_uint_le(size, sizeof(changed));
    memcpy(changed, choices[_i].base, size);
    change_field(changed, &choices[_i].change);
    const struct digest base = run_choice(choices[_i].make, choices[_i].base);
    const struct digest with = run_choice(choices[_i].make, changed);
    ck_assert_msg(choices[_i].fails ? base.refused && !with.refused : differs(base, with), "%s is ignored",
                  choices[_i].change.field);
}

/* ---- of a number that gets worse again, which a baseline is for ---- */

static struct digest waits(const ls_early_stopping_options *options) {
    static const double losses[] = {5, 4, 3, 3.5};
    ls_strategy *strategy = two_devices();
    ls_model *model = NULL;
    ls_callback *callback = NULL;
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(3)), &model));
    assert_ok(ls_early_stopping_new(options, &callback));
    ls_callback_log log = {.name = "loss"};
    ls_callback_call call = {.model = model, .epochs = 4, .logs = &log, .log_count = 1};
    assert_ok(callback->on_build(callback->context, &call));
    for (call.epoch = 0; call.epoch < 4; call.epoch++) {
        log.value = losses[call.epoch];
        assert_ok(callback->on_epoch_end(callback->context, &call));
    }
    struct digest digest = digest_bytes((struct digest){0}, callback->state, callback->state_size);
    ls_callback_free(callback);
    ls_model_free(model);
    ls_strategy_free(strategy);
    return digest;
}

FIELD(ls_early_stopping_options, has_baseline) {
    return differs(waits(STOPPING(.monitor = "loss", .patience = 9)),
                   waits(STOPPING(.monitor = "loss", .patience = 9, .has_baseline = true)));
}

FIELD(ls_early_stopping_options, baseline) {
    return differs(waits(STOPPING(.monitor = "loss", .patience = 9, .has_baseline = true)),
                   waits(STOPPING(.monitor = "loss", .patience = 9, .has_baseline = true, .baseline = 3.2)));
}

/* ---- of the table of epochs ---- */

static void read_table(char text[256]) {
    FILE *file = fopen("out/log.csv", "re");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, 255, file)] = 0;
    (void)fclose(file);
}

FIELD(ls_csv_logger_options, separator) {
    char text[256];
    ck_assert(!run_choice(make_csv, CSV(.path = "out/log.csv", .separator = ';')).refused);
    read_table(text);
    return !strncmp(text, "epoch;accuracy;loss\n", 20);
}

/* A table of its own above; run_with makes the folder anew, so the training is one of its own. */
FIELD(ls_csv_logger_options, append) {
    char text[256];
    struct trial trial = trial_default();
    ls_callback *callback = NULL;
    FILE *file = fopen("out/log.csv", "we");
    ck_assert(file && fputs("mine\n", file) >= 0 && !fclose(file));
    assert_ok(ls_csv_logger_new(CSV(.path = "out/log.csv", .append = true), &callback));
    ls_callback *const list[] = {callback, NULL};
    trial.fit.callbacks = list;
    ck_assert(!trial_run(&trial).refused);
    ls_callback_free(callback);
    read_table(text);
    return !strncmp(text, "mine\n", 5);
}

/* ---- one of the user's own ---- */

static struct {
    int calls;
    bool rate, fails;
} heard;

static ls_status hear(void *context, const ls_callback_call *call) {
    double rate;
    heard.calls += context == &heard;
    heard.rate = heard.rate || ls_callback_value(call, "learning_rate", &rate);
    return heard.fails ? ls_model_seed(call->model, 1) : LS_OK; /* which is an error in training */
}

static void let_go(void *context) {
    heard.calls += context == &heard;
}

static bool is_called(ls_callback callback) {
    memset(&heard, 0, sizeof(heard));
    callback.context = &heard;
    ck_assert(!run_with(&callback).refused);
    return heard.calls > 0;
}

FIELD(ls_callback, context) {
    return is_called(LS_CALLBACK(.name = "mine", .on_build = hear));
}

FIELD(ls_callback, on_build) {
    return ls_callback_context();
}
FIELD(ls_callback, on_train_begin) {
    return is_called(LS_CALLBACK(.name = "mine", .on_train_begin = hear));
}
FIELD(ls_callback, on_epoch_begin) {
    return is_called(LS_CALLBACK(.name = "mine", .on_epoch_begin = hear));
}
FIELD(ls_callback, on_train_batch_begin) {
    return is_called(LS_CALLBACK(.name = "mine", .on_train_batch_begin = hear));
}
FIELD(ls_callback, on_train_batch_end) {
    return is_called(LS_CALLBACK(.name = "mine", .on_train_batch_end = hear));
}
FIELD(ls_callback, on_epoch_end) {
    return is_called(LS_CALLBACK(.name = "mine", .on_epoch_end = hear));
}
FIELD(ls_callback, on_train_end) {
    return is_called(LS_CALLBACK(.name = "mine", .on_train_end = hear));
}

FIELD(ls_callback, name) {
    ls_callback nameless = LS_CALLBACK(.on_epoch_end = hear);
    return run_with(&nameless).refused;
}

FIELD(ls_callback, sets_learning_rate) {
    bool without = is_called(LS_CALLBACK(.name = "mine", .on_epoch_end = hear)) && heard.rate;
    bool with = is_called(LS_CALLBACK(.name = "mine", .on_epoch_end = hear, .sets_learning_rate = true)) && heard.rate;
    return with && !without;
}

FIELD(ls_callback, warn_only) {
    ls_callback fails = LS_CALLBACK(.name = "mine", .on_epoch_end = hear), warns = fails;
    warns.warn_only = true;
    heard.fails = true;
    bool differ = run_with(&fails).refused && !run_with(&warns).refused;
    heard.fails = false;
    return differ;
}

FIELD(ls_callback, release) {
    ls_callback callback = LS_CALLBACK(.name = "mine", .context = &heard, .release = let_go);
    heard.calls = 0;
    ls_callback_free(&callback);
    return heard.calls == 1;
}

static void enter_scratch(void) {
    make_scratch();
    ck_assert_int_eq(chdir(in_scratch("")), 0);
}

static void leave_scratch(void) {
    ck_assert_int_eq(chdir("/"), 0);
    remove_scratch();
}

TESTS("fields", .seconds = 60, .begin = enter_scratch, .end = leave_scratch)
