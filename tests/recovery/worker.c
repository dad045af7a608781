/* One worker of a small training that a test hurts (watch.h). At its end it prints one JSON object: rank, pid, steps,
 * weights_sha256, val_accuracy, a number made of all outputs of predict, and how often it was told of an epoch's end.
 *
 * usage: worker [--epochs N] [--batch N] [--limit N] [--units N] [--checkpoint FOLDER] [--checkpoint-steps N]
 *               [--pause MILLISECONDS] [--share N] [--evaluations N] [--predictions N] [--refuse map|epoch] [--stop
 * STEP] [--stop-file FILE] [--save STEP] [--numbers] [--words] [--text] [--two]
 *        worker serve
 *
 * With --two a second model is trained for an epoch after each fit of the first, and both have their part in digest and
 * outputs. */
#include <getopt.h>
#include <lockstep/lockstep.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

struct worker {
    int epochs, units, told, accumulate;
    int64_t batch, limit, share; /* share: of a replica, in place of batch */
    int pause;                   /* milliseconds between the strategy and all else, as if data were read */
    ls_checkpoint_options checkpoint;
    int stop, asked;                    /* asks that all stop before step number stop, 0: never */
    pthread_t thread;                   /* of the fit: it asks once a step, and another one in waits */
    int save;                           /* rank 0 asks for a checkpoint, once, in that step; 0: it does not */
    const char *stop_file;              /* asks for the stop when there is such a file; NULL: it does not */
    int fits, evaluations, predictions; /* how often; evaluations and predictions come after the last fit */
    bool synchronized;                  /* its batch normalization */
    bool half;                          /* in float16, with steps so large that gradients overflow now and then */
    bool words;                         /* an embedding, by SGD; there is no digest: servers have its rows */
    bool text;                          /* a gpt with dropout, some of whose labels do not count */
    bool numbers;                       /* a regression of weighted examples, with Huber's loss */
    bool pipeline;                      /* a shuffle buffer, random stages, threads that read ahead */
    const char *refuse;                 /* which function of the user's returns UNAVAILABLE: "map" or "epoch" */
    ls_strategy *strategy;
    ls_dataset *data, *validation, *shown; /* shown: to predict */
    ls_model *model, *second;              /* second: NULL without --two */
    bool two;
    int local;     /* workers meet every so many steps; 0: in each */
    int fragments; /* of which one meets at a time; 0: all do */
    ls_result fitted, evaluated;
    uint64_t outputs; /* FNV-1a of all outputs so far */
    char digest[65], second_digest[65];
};

/* ---- The training ----------------------------------------------------------------------------------------------- */

/* A learning rate that depends on the one before: set twice for an epoch, it would be another. */
static ls_status count_epoch(void *context, int epoch, const ls_result *result) {
    struct worker *worker = context;
    float rate;
    (void)epoch;
    (void)result;
    worker->told++;
    if (worker->refuse && !strcmp(worker->refuse, "epoch") && !epoch) return LS_UNAVAILABLE;
    ls_status status = ls_model_learning_rate(worker->model, &rate);
    return status ? status : ls_model_set_learning_rate(worker->model, 0.75F * rate);
}

/* Of a store far away, say. */
static ls_status read_far(void *context, const ls_map_call *call) {
    (void)context;
    size_t count = 1;
    for (int i = 0; i < call->shape.rank; i++) count *= (size_t)call->shape.dims[i];
    memcpy(call->output, call->input, count * sizeof(float));
    return call->example == 5 ? LS_UNAVAILABLE : LS_OK;
}

enum { NUMBERS = 512, WIDTH = 12, OUTPUTS = 10 };

/* Targets that follow from the features, and weights: count of them, from memory that all datasets share. */
static ls_status open_numbers(int64_t count, const ls_dataset_options *options, ls_dataset **data) {
    static float features[NUMBERS][WIDTH], targets[NUMBERS][OUTPUTS], weights[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) {
        for (int j = 0; j < WIDTH; j++) features[i][j] = (float)((i * 7 + j * 5) % 23) / 23;
        for (int j = 0; j < OUTPUTS; j++) targets[i][j] = 3 * features[i][j] - features[i][j + 2];
        weights[i] = (float)(i % 4) / 2;
    }
    return ls_dataset_from_arrays(LS_ARRAYS(.count = count, .features = &features[0][0], .shape = LS_SHAPE(WIDTH),
                                            .targets = &targets[0][0], .target_shape = LS_SHAPE(OUTPUTS),
                                            .sample_weights = weights),
                                  options, data);
}

enum { IDS = 23, CONTEXT = 8 };

/* Rules of one id to the next; of 5 positions one has no label. */
static ls_status open_text(int64_t count, const ls_dataset_options *options, ls_dataset **data) {
    static int32_t ids[NUMBERS][CONTEXT];
    static float next[NUMBERS][CONTEXT];
    for (int i = 0; i < NUMBERS; i++)
        for (int t = 0; t < CONTEXT; t++) {
            ids[i][t] = (i * 5 + t * (i % 7)) % IDS;
            next[i][t] = (i * 3 + t) % 5 ? (float)((i * 5 + (t + 1) * (i % 7)) % IDS) : -1;
        }
    return ls_dataset_from_arrays(LS_ARRAYS(.count = count, .ids = &ids[0][0], .shape = LS_SHAPE(CONTEXT),
                                            .targets = &next[0][0], .target_shape = LS_SHAPE(CONTEXT)),
                                  options, data);
}

static ls_status open_data(struct worker *worker) {
    const ls_dataset_options plain = {.size = sizeof(plain), .batch_size = worker->batch, .limit = worker->limit};
    ls_dataset_options piped = plain;
    piped.shuffle_buffer = 50;
    piped.maps = LS_MAPS(ls_random_flip(), ls_random_crop(28, 28, 3), ls_random_brightness(0.2F));
    piped.workers = 2;
    piped.prefetch = 4;
    const ls_dataset_options *options = worker->pipeline ? &piped : &plain;
    ls_dataset_options far = *options;
    far.maps = LS_MAPS(ls_map_function(read_far, NULL));
    if (worker->numbers) return open_numbers(worker->limit, options, &worker->data);
    if (worker->text) return open_text(worker->limit, options, &worker->data);
    if (worker->words) return ls_dataset_words(&plain, &worker->data);
    bool refuses = worker->refuse && !strcmp(worker->refuse, "map");
    return ls_dataset_digits(refuses ? &far : options, &worker->data);
}

static ls_status open_other(const struct worker *worker, const ls_dataset_options *options, ls_dataset **data) {
    if (worker->numbers) return open_numbers(100, options, data);
    if (worker->text) return open_text(20, options, data);
    return worker->words ? ls_dataset_words(options, data) : ls_dataset_digits(options, data);
}

/* RECOVERY_STORE: on so many parameter servers are its variables. RECOVERY_DELAY: gradients are so many steps old.
 * RECOVERY_TABLES: "sparse", or "hybrid": servers keep tables alone. RECOVERY_ASYNC: it trains asynchronously, and a
 * worker may be so many batches ahead; 0: any number. RECOVERY_SHARD: so many workers have each moment.
 * RECOVERY_DIVIDE: and they divide gradients. RECOVERY_STAGES: so many workers have the layers of a replica. */
static ls_status open_strategy(struct worker *worker) {
    const char *copies = getenv("RECOVERY_STORE");
    if (worker->local)
        return ls_local_sgd_strategy_new(NULL,
                                         LS_LOCAL_SGD(.sync_every = worker->local, .outer_learning_rate = 0.7F,
                                                      .outer_momentum = 0.9F, .fragments = worker->fragments,
                                                      .fragment_delay = worker->fragments > 1,
                                                      .fragment_alpha = worker->fragments > 1 ? 0.25F : 0),
                                         &worker->strategy);
    const char *shards = getenv("RECOVERY_SHARD"), *stages = getenv("RECOVERY_STAGES");
    if (stages) return ls_multi_worker_mirrored_strategy_new(LS_STRATEGY(.stages = atoi(stages)), &worker->strategy);
    if (shards)
        return ls_multi_worker_mirrored_strategy_new(
            LS_STRATEGY(.shard = getenv("RECOVERY_DIVIDE") ? LS_SHARDING_GRADIENTS : LS_SHARDING_OPTIMIZER,
                        .shard_copies = atoi(shards)),
            &worker->strategy);
    if (!copies) return ls_multi_worker_mirrored_strategy_new(NULL, &worker->strategy);
    const char *tables = getenv("RECOVERY_TABLES"), *delay = getenv("RECOVERY_DELAY"),
               *ahead = getenv("RECOVERY_ASYNC");
    ls_consistency consistency = delay ? LS_DELAYED : LS_SYNC;
    return ls_parameter_server_strategy_new(
        NULL,
        LS_PARAMETER_SERVER(.replicas = atoi(copies), .consistency = ahead ? LS_ASYNC : consistency,
                            .sparse = tables ? LS_SPARSE_ALWAYS : LS_SPARSE_BY_RULE,
                            .hybrid = tables && !strcmp(tables, "hybrid"), .delay = delay ? atoi(delay) : 0,
                            .staleness = ahead ? atoi(ahead) : 0),
        &worker->strategy);
}

static ls_status make_model(struct worker *worker) {
    ls_layer *layers = NULL;
    size_t count = 0;
    if (worker->words)
        return ls_model_new(worker->strategy,
                            LS_LAYERS(ls_embedding(10000, 8, .sparse = true), ls_global_average_pooling1d(),
                                      ls_dense(worker->units, LS_RELU), ls_dense(4)),
                            &worker->model);
    if (!worker->text)
        return ls_model_new(worker->strategy,
                            LS_LAYERS(ls_dense(worker->units),
                                      ls_batch_normalization(.synchronized = worker->synchronized), ls_relu(),
                                      ls_dropout(0.1F), ls_dense(10)),
                            &worker->model);
    ls_status status = ls_application(
        "gpt", LS_APPLICATION(.classes = IDS, .layers = 2, .heads = 2, .width = 16, .dropout = 0.1F), &layers, &count);
    if (!status) status = ls_model_new(worker->strategy, layers, count, &worker->model);
    ls_memory_free(layers);
    return status;
}

static ls_status open_all(struct worker *worker) {
    ls_status status = open_strategy(worker);
    if (!status && worker->share) worker->batch = worker->share * ls_num_replicas_in_sync(worker->strategy);
    (void)usleep((useconds_t)worker->pause * 1000);
    if (!status) status = open_data(worker);
    if (!status)
        status = open_other(worker, LS_DATASET(.batch_size = worker->batch, .limit = 100, .split = LS_TEST),
                            &worker->validation);
    if (!status)
        status = open_other(
            worker,
            LS_DATASET(.batch_size = worker->batch, .limit = 100, .split = LS_TEST, .shuffle = LS_SHUFFLE_NEVER),
            &worker->shown);
    if (!status) status = make_model(worker);
    if (status) return status;
    if (worker->words) return ls_model_compile(worker->model, ls_sgd(0.05F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    return ls_model_compile_with(worker->model,
                                 ls_adam(worker->half ? 10 : 0.001f, .gradient_accumulation_steps = worker->accumulate),
                                 worker->numbers ? LS_HUBER : LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                 LS_COMPILE(.precision = worker->half ? LS_MIXED_FLOAT16 : LS_PRECISION_FLOAT32));
}

/* Of another kind than the first. */
static ls_status open_second(struct worker *worker) {
    ls_status status =
        ls_model_new(worker->strategy, LS_LAYERS(ls_dense(worker->units / 2, LS_RELU), ls_dense(10)), &worker->second);
    return status
               ? status
               : ls_model_compile(worker->second, ls_sgd(0.02F, .momentum = 0.9F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
}

static ls_request ask_to_stop(void *context) {
    struct worker *worker = context;
    bool steps = worker->stop && pthread_equal(pthread_self(), worker->thread);
    if (steps && ++worker->asked >= worker->stop) return LS_STOP;
    if (worker->stop_file && !access(worker->stop_file, F_OK)) return LS_STOP;
    if (!worker->save || ls_worker_rank(worker->strategy) || watch_sums() < worker->save - 1) return LS_GO_ON;
    worker->save = 0;
    return LS_SAVE;
}

static ls_status fit(struct worker *worker) {
    const ls_fit_options *options =
        LS_FIT(.epochs = worker->epochs, .validation_data = worker->validation, .verbose = -1, .on_epoch = count_epoch,
               .request = ask_to_stop, .context = worker,
               .checkpoint = worker->checkpoint.folder ? &worker->checkpoint : NULL);
    worker->thread = pthread_self();
    return ls_model_fit(worker->model, worker->data, options, &worker->fitted);
}

static ls_status predict(struct worker *worker, ls_model *model) {
    float *outputs = NULL;
    ls_shape shape;
    ls_status status = ls_model_predict(model, worker->shown, &outputs, &shape);
    if (status) return status;
    const unsigned char *bytes = (const unsigned char *)outputs;
    size_t size = sizeof(float);
    for (int i = 0; i < shape.rank; i++) size *= (size_t)shape.dims[i];
    for (size_t i = 0; i < size; i++) worker->outputs = (worker->outputs ^ bytes[i]) * UINT64_C(0x100000001b3);
    ls_memory_free(outputs);
    return LS_OK;
}

static ls_status train_second(struct worker *worker) {
    ls_result result;
    ls_status status = ls_model_fit(worker->second, worker->data, LS_FIT(.epochs = 1, .verbose = -1), &result);
    return status ? status : predict(worker, worker->second);
}

static ls_status train(struct worker *worker) {
    ls_status status = open_all(worker);
    if (!status && worker->two) status = open_second(worker);
    for (int i = 0; !status && i < worker->fits; i++) {
        status = fit(worker);
        if (!status) status = predict(worker, worker->model);
        if (!status && worker->two) status = train_second(worker);
    }
    for (int i = 0; !status && i < worker->predictions; i++) status = predict(worker, worker->model);
    for (int i = 0; !status && i < worker->evaluations; i++)
        status = ls_model_evaluate(worker->model, worker->validation, &worker->evaluated);
    if (!status && worker->two) status = ls_model_weights_sha256(worker->second, worker->second_digest);
    return status || worker->words ? status : ls_model_weights_sha256(worker->model, worker->digest);
}

static int finish(struct worker *worker, ls_status status) {
    int rank = worker->strategy ? ls_worker_rank(worker->strategy) : -1;
    ls_model_free(worker->model);
    ls_model_free(worker->second);
    ls_dataset_free(worker->data);
    ls_dataset_free(worker->validation);
    ls_dataset_free(worker->shown);
    status = ls_strategy_close(worker->strategy, status);
    if (!status)
        (void)printf(
            "{\"rank\": %d, \"pid\": %d, \"steps\": %lld, \"weights_sha256\": \"%s%s\", \"val_accuracy\": %.17g, "
            "\"outputs\": \"%016llx\", \"told\": %d, \"skipped_steps\": %lld, \"loss_scale\": %g, "
            "\"pushes\": %lld}\n",
            rank, (int)getpid(), (long long)worker->fitted.steps, worker->digest, worker->second_digest,
            worker->numbers ? worker->evaluated.loss : worker->evaluated.accuracy, (unsigned long long)worker->outputs,
            worker->told, (long long)worker->fitted.skipped_steps, worker->fitted.loss_scale,
            (long long)(worker->fitted.pushes_applied + worker->fitted.pushes_dropped));
    return ls_exit(status);
}

static bool read_options(struct worker *worker, int count, char **arguments) {
    static const struct option options[] = {{"epochs", required_argument, NULL, 'e'},
                                            {"fits", required_argument, NULL, 'f'},
                                            {"evaluations", required_argument, NULL, 'E'},
                                            {"predictions", required_argument, NULL, 'P'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"units", required_argument, NULL, 'u'},
                                            {"checkpoint", required_argument, NULL, 'c'},
                                            {"checkpoint-steps", required_argument, NULL, 's'},
                                            {"accumulate", required_argument, NULL, 'a'},
                                            {"half", no_argument, NULL, 'h'},
                                            {"synchronized", no_argument, NULL, 'y'},
                                            {"refuse", required_argument, NULL, 'x'},
                                            {"stop", required_argument, NULL, 't'},
                                            {"stop-file", required_argument, NULL, 'T'},
                                            {"save", required_argument, NULL, 'v'},
                                            {"pipeline", no_argument, NULL, 'p'},
                                            {"numbers", no_argument, NULL, 'n'},
                                            {"words", no_argument, NULL, 'W'},
                                            {"text", no_argument, NULL, 'X'},
                                            {"two", no_argument, NULL, '2'},
                                            {"local", required_argument, NULL, 'm'},
                                            {"fragments", required_argument, NULL, 'g'},
                                            {"pause", required_argument, NULL, 'w'},
                                            {"share", required_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(count, arguments, "", options, NULL)) != -1) {
        if (option == '?') return false;
        if (option == '2') worker->two = true;
        if (option == 'a') worker->accumulate = atoi(optarg);
        if (option == 'c') worker->checkpoint.folder = optarg;
        if (option == 'e') worker->epochs = atoi(optarg);
        if (option == 'E') worker->evaluations = atoi(optarg);
        if (option == 'P') worker->predictions = atoi(optarg);
        if (option == 'f') worker->fits = atoi(optarg);
        if (option == 'b') worker->batch = atoll(optarg);
        if (option == 'h') worker->half = true;
        if (option == 'l') worker->limit = atoll(optarg);
        if (option == 'u') worker->units = atoi(optarg);
        if (option == 't') worker->stop = atoi(optarg);
        if (option == 'T') worker->stop_file = optarg;
        if (option == 'v') worker->save = atoi(optarg);
        if (option == 'p') worker->pipeline = true;
        if (option == 'm') worker->local = atoi(optarg);
        if (option == 'g') worker->fragments = atoi(optarg);
        if (option == 'n') worker->numbers = true;
        if (option == 'r') worker->share = atoll(optarg);
        if (option == 'W') worker->words = true;
        if (option == 'X') worker->text = true;
        if (option == 'w') worker->pause = atoi(optarg);
        if (option == 'x') worker->refuse = optarg;
        if (option == 'y') worker->synchronized = true;
        if (option == 's') worker->checkpoint.every_steps = atoll(optarg);
    }
    return true;
}

/* As lockstep serve. */
static int serve(void) {
    ls_server *server = NULL;
    ls_status status = ls_server_new(NULL, NULL, -1, NULL, &server);
    if (!status) status = ls_server_join(server);
    ls_server_free(server);
    return ls_exit(status);
}

int main(int count, char **arguments) {
    struct worker worker = {.epochs = 2,
                            .fits = 1,
                            .evaluations = 1,
                            .units = 48,
                            .batch = 32,
                            .limit = 256,
                            .outputs = UINT64_C(0xcbf29ce484222325),
                            .checkpoint = {.size = sizeof(ls_checkpoint_options)}};
    if (!read_options(&worker, count, arguments) || watch_read()) return 2;
    if (optind < count && !strcmp(arguments[optind], "serve")) return serve();
    return finish(&worker, train(&worker));
}
