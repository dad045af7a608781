/* Callbacks: what those that come with the library decide is what Keras' decide (golden/callbacks.txt); how a user's
 * own are told; states that go through a checkpoint; one worker's wish to stop is everybody's. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "train/model.h"
#include "strategy/workers.h"

#define EXAMPLES 40
#define WIDTH    6
#define MOST     64

/* ---- decisions ---- */

struct row {
    double numbers[MOST], expected[MOST];
    int count;
};

static int read_numbers(const char *at, double *numbers) {
    int count = 0;
    for (char *end; count < MOST; at = end) {
        double value = strtod(at, &end);
        if (end == at) break;
        numbers[count++] = value;
    }
    return count;
}

/* The two parts behind the parameters. */
static void read_row(const char *line, struct row *row) {
    const char *first = strchr(line, ':') + 1, *second = strchr(first, ':') + 1;
    char part[2048];
    (void)snprintf(part, sizeof(part), "%.*s", (int)(second - first) - 1, first);
    row->count = read_numbers(part, row->numbers);
    ck_assert_int_gt(row->count, 0);
    ck_assert_int_gt(read_numbers(second, row->expected), 0);
}

static ls_callback_call call_for(ls_model *model, const struct row *row, int epoch, ls_callback_log *log) {
    *log = (ls_callback_log){"number", row->numbers[epoch]};
    return (ls_callback_call){.model = model, .epoch = epoch, .epochs = MOST, .logs = log, .log_count = 1};
}

/* An epoch whose end is told again changes nothing. */
static void tell(const ls_callback *callback, ls_callback_call *call) {
    assert_ok(callback->on_epoch_end(callback->context, call));
    call->repeated = true;
    assert_ok(callback->on_epoch_end(callback->context, call));
}

static ls_monitor_mode mode_of(const char *word) {
    return strcmp(word, "min") ? LS_MONITOR_MAX : LS_MONITOR_MIN;
}

static void check_stopping(ls_model *model, const char *line) {
    char mode[8], baseline[32];
    struct row row;
    ls_callback_log log;
    ls_callback *callback = NULL;
    ls_early_stopping_options options = {.size = sizeof(options), .monitor = "number"};
    ck_assert_int_eq(sscanf(line, "stopping %d %lf %7s %31s %d", &options.patience, &options.min_delta, mode, baseline,
                            &options.start_from_epoch),
                     5);
    options.mode = mode_of(mode);
    options.has_baseline = strcmp(baseline, "none") != 0;
    if (options.has_baseline) options.baseline = strtod(baseline, NULL);
    read_row(line, &row);
    assert_ok(ls_early_stopping_new(&options, &callback));
    ls_callback_call call = call_for(model, &row, 0, &log);
    assert_ok(callback->on_build(callback->context, &call));
    model->progress.stop_training = false;
    int epoch = -1;
    while (!model->progress.stop_training && ++epoch < row.count) {
        call = call_for(model, &row, epoch, &log);
        tell(callback, &call);
    }
    ck_assert_msg((model->progress.stop_training ? epoch : -1) == (int)row.expected[0], "%s: stops at %d", line, epoch);
    ls_callback_free(callback);
}

static void check_plateau(ls_model *model, const char *line) {
    char mode[8];
    struct row row;
    ls_callback_log log;
    ls_callback *callback = NULL;
    ls_reduce_on_plateau_options options = {.size = sizeof(options), .monitor = "number"};
    ck_assert_int_eq(sscanf(line, "plateau %d %lf %7s %lf %d %lf", &options.patience, &options.min_delta, mode,
                            &options.factor, &options.cooldown, &options.min_lr),
                     6);
    options.mode = mode_of(mode);
    read_row(line, &row);
    assert_ok(ls_reduce_on_plateau_new(&options, &callback));
    assert_ok(ls_model_set_learning_rate(model, 1));
    ls_callback_call call = call_for(model, &row, 0, &log);
    assert_ok(callback->on_build(callback->context, &call));
    for (int epoch = 0; epoch < row.count; epoch++) {
        float rate;
        call = call_for(model, &row, epoch, &log);
        tell(callback, &call);
        assert_ok(ls_model_learning_rate(model, &rate));
        ck_assert_msg(fabs((double)rate - row.expected[epoch]) <= 1e-6 * row.expected[epoch], "%s: %g after epoch %d",
                      line, (double)rate, epoch);
    }
    ls_callback_free(callback);
}

static ls_status make_model(ls_strategy *strategy, ls_model **model) {
    ls_status st = ls_model_new(strategy, LS_LAYERS(ls_dense(5, LS_RELU), ls_dense(3)), model);
    return st ? st : ls_model_compile(*model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

TEST(decisions_are_those_of_keras) {
    char line[4096];
    int stops = 0, plateaus = 0;
    ls_strategy *strategy = NULL;
    ls_model *model = NULL;
    FILE *file = fopen(LS_GOLDEN_CALLBACKS, "re");
    ck_assert_ptr_nonnull(file);
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(make_model(strategy, &model));
    while (fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "stopping", 8)) check_stopping(model, line), stops++;
        if (!strncmp(line, "plateau", 7)) check_plateau(model, line), plateaus++;
    }
    ck_assert_int_ge(stops, 40);
    ck_assert_int_ge(plateaus, 20);
    (void)fclose(file);
    ls_model_free(model);
    ls_strategy_free(strategy);
}

/* ---- a user's own ---- */

struct toy {
    float features[EXAMPLES][WIDTH];
    int32_t labels[EXAMPLES];
};

static ls_status open_toy(struct toy *toy, ls_dataset **data) {
    for (int i = 0; i < EXAMPLES; i++) {
        toy->labels[i] = i % 3;
        for (int j = 0; j < WIDTH; j++)
            toy->features[i][j] = (float)((i * 5 + j * 3) % 7) / 7.0F + (j == i % 3 ? 1.0F : 0);
    }
    return ls_dataset_arrays(&toy->features[0][0], LS_SHAPE(WIDTH), toy->labels, EXAMPLES, 3,
                             LS_DATASET(.batch_size = 8), data);
}

/* The calls of a callback, a letter each, and a state that counts. */
struct told {
    char text[256];
    int64_t counted;  /* the state */
    int stop_after;   /* epochs; 0: never */
    int steps_left;   /* then all stop; 0: never */
    pthread_t thread; /* of the fit: it asks once a step, and another one in waits */
};

static ls_status note(void *context, const ls_callback_call *call, char letter) {
    struct told *told = context;
    size_t length = strlen(told->text);
    ck_assert_uint_lt(length, sizeof(told->text) - 1);
    told->text[length] = letter;
    ck_assert_int_le(call->step, call->steps);
    return LS_OK;
}

static ls_status on_build(void *context, const ls_callback_call *call) {
    return note(context, call, 'b');
}
static ls_status on_begin(void *context, const ls_callback_call *call) {
    return note(context, call, call->resumed ? 'R' : 'B');
}
static ls_status on_epoch_begin(void *context, const ls_callback_call *call) {
    return note(context, call, '(');
}
static ls_status on_batch_begin(void *context, const ls_callback_call *call) {
    return note(context, call, '<');
}
static ls_status on_batch_end(void *context, const ls_callback_call *call) {
    double loss;
    ck_assert(ls_callback_value(call, "loss", &loss));
    ck_assert(!ls_callback_value(call, "val_loss", &loss));
    return note(context, call, call->repeated ? '=' : '>');
}
static ls_status on_epoch_end(void *context, const ls_callback_call *call) {
    struct told *told = context;
    double loss;
    ck_assert(ls_callback_value(call, "val_loss", &loss));
    ck_assert_str_eq(call->logs[0].name, "accuracy");
    ck_assert_int_eq(call->step, call->steps);
    told->counted++;
    if (told->stop_after && call->epoch + 1 >= told->stop_after) ls_model_stop_training(call->model);
    return note(context, call, ')');
}
static ls_status on_end(void *context, const ls_callback_call *call) {
    return note(context, call, 'E');
}

/* Asks for the stop in the last of the steps. */
static ls_request ask(void *context) {
    struct told *told = context;
    if (!pthread_equal(pthread_self(), told->thread)) return LS_GO_ON;
    return told->steps_left && !--told->steps_left ? LS_STOP : LS_GO_ON;
}

static ls_callback telling(struct told *told) {
    return LS_CALLBACK(.name = "telling", .context = told, .on_build = on_build, .on_train_begin = on_begin,
                       .on_epoch_begin = on_epoch_begin, .on_train_batch_begin = on_batch_begin,
                       .on_train_batch_end = on_batch_end, .on_epoch_end = on_epoch_end, .on_train_end = on_end,
                       .state = &told->counted, .state_size = sizeof(told->counted));
}

static ls_status fit_told(ls_strategy *strategy, struct told *told, const ls_checkpoint_options *checkpoint,
                          int epochs) {
    struct toy toy;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_callback callback = telling(told);
    told->thread = pthread_self();
    ls_status st = open_toy(&toy, &data);
    if (!st) st = make_model(strategy, &model);
    if (!st)
        st = ls_model_fit(model, data,
                          LS_FIT(.epochs = epochs, .steps_per_epoch = 2, .validation_data = data, .verbose = -1,
                                 .checkpoint = checkpoint, .request = ask, .context = told,
                                 .callbacks = LS_CALLBACKS(&callback)),
                          NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

TEST(each_is_told_in_order) {
    struct told told = {.stop_after = 0};
    ls_strategy *strategy = NULL;
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(fit_told(strategy, &told, NULL, 2));
    ck_assert_str_eq(told.text, "bB(<><>)(<><>)E");
    ls_strategy_free(strategy);
}

/* The wish of rank 1 alone. */
static ls_status fit_as_worker(struct worker *worker) {
    struct told told = {.stop_after = worker->rank == 1 ? 2 : 0};
    ls_status st = fit_told(worker->strategy, &told, NULL, 9);
    if (!st) ck_assert_str_eq(told.text, "bB(<><>)(<><>)E");
    return st;
}

TEST(one_worker_stops_all) {
    struct worker_cluster cluster = {.count = 2, .devices = {1, 2}, .fn = fit_as_worker};
    run_workers_ok(&cluster);
}

/* A training that was stopped by a callback, and kept: another start has nothing to do, and the state that was. */
TEST(a_checkpoint_keeps_states) {
    char folder[] = "/tmp/lockstep-callback-XXXXXX", command[128];
    struct told first = {.stop_after = 3}, second = {.counted = 100};
    ls_strategy *strategy = NULL;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const ls_checkpoint_options *kept = LS_CHECKPOINT(.folder = folder, .keep_on_success = true);
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(fit_told(strategy, &first, kept, 9));
    ck_assert_int_eq(first.counted, 3);
    ls_strategy_free(strategy);
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(fit_told(strategy, &second, kept, 9));
    ck_assert_str_eq(second.text, "bRE");
    ck_assert_int_eq(second.counted, 3);
    ls_strategy_free(strategy);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* A step whose end may not have been written is told again, and is not the state's again. */
TEST(a_step_s_end_is_told_again) {
    char folder[] = "/tmp/lockstep-callback-XXXXXX";
    struct told first = {.steps_left = 3}, second = {.counted = 100};
    ls_strategy *strategy = NULL;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const ls_checkpoint_options *kept = LS_CHECKPOINT(.folder = folder);
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    ck_assert_int_eq(fit_told(strategy, &first, kept, 2), LS_CANCELLED);
    ck_assert_str_eq(first.text, "bB(<><>)(<>");
    (void)ls_strategy_close(strategy, LS_CANCELLED);
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(fit_told(strategy, &second, kept, 2));
    ck_assert_str_eq(second.text, "bR=(<>)E");
    ck_assert_int_eq(second.counted, 2);
    ls_strategy_free(strategy);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* ---- what is wrong ---- */

static ls_status complain(void *context, const ls_callback_call *call) {
    (void)call;
    (*(int *)context)++;
    return ls_fail(LS_PERMISSION_DENIED, "not today");
}

static ls_status fit_with(ls_callback *const *callbacks) {
    struct toy toy;
    ls_strategy *strategy = NULL;
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    assert_ok(ls_mirrored_strategy_new(NULL, &strategy));
    assert_ok(open_toy(&toy, &data));
    assert_ok(make_model(strategy, &model));
    ls_status st = ls_model_fit(model, data, LS_FIT(.epochs = 3, .verbose = -1, .callbacks = callbacks), NULL);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    return st;
}

TEST(errors_name_the_callback_and_the_place) {
    int calls = 0;
    ls_callback *stopping = NULL;
    ls_callback bad = LS_CALLBACK(.name = "mine", .context = &calls, .on_epoch_end = complain);
    ls_callback nameless = LS_CALLBACK(.on_epoch_end = complain);
    ck_assert_int_eq(fit_with(LS_CALLBACKS(&bad)), LS_PERMISSION_DENIED);
    ck_assert_str_eq(ls_error(), "at the end of epoch 1: mine: not today");
    ck_assert_int_eq(calls, 1);
    bad.warn_only = true;
    assert_ok(fit_with(LS_CALLBACKS(&bad)));
    ck_assert_int_eq(calls, 2);
    ck_assert_int_eq(fit_with(LS_CALLBACKS(&nameless)), LS_INVALID_ARGUMENT);
    assert_refused(fit_with(LS_CALLBACKS(&bad, &bad)), "twice");
    assert_ok(ls_early_stopping_new(LS_EARLY_STOPPING(.monitor = "mood"), &stopping));
    assert_refused(fit_with(LS_CALLBACKS(stopping)), "'mood' to monitor; there is accuracy, loss");
    ls_callback_free(stopping);
    ck_assert_int_eq(ls_early_stopping_new(LS_EARLY_STOPPING(.patience = -1), &stopping), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_csv_logger_new(LS_CSV_LOGGER(.append = true), &stopping), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_tensorboard_new(LS_TENSORBOARD(.folder = "x", .gradients = true), &stopping),
                     LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_reduce_on_plateau_new(LS_REDUCE_ON_PLATEAU(.factor = 2), &stopping), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_model_checkpoint_new(LS_MODEL_CHECKPOINT(.path = ""), &stopping), LS_INVALID_ARGUMENT);
}

TESTS("callback", .seconds = 120)
