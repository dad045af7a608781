/* A model as a file: drawn networks are saved, opened and saved again, to the same predictions and the same bytes; a
 * file that was changed is opened, or refused with its name. */
#define _GNU_SOURCE
#include <lockstep/saving.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/shape.h"
#include "data/files.h"
#include "harness.h"
#include "model/drawn_network.h"
#include "strategy/workers.h"

enum { EXAMPLES = 5, NETWORKS = SANITIZED ? 40 : 100, CHANGES = 500 };

static char folder[40], paths[2][64];
static float features[EXAMPLES * 6 * 5 * 4];
static const int32_t labels[EXAMPLES] = {0, 1, 2, 0, 1};

static void make_folder(void) {
    for (int i = 0; i < (int)COUNT_OF(features); i++) features[i] = (float)(i * 7 % 4);
    (void)snprintf(folder, sizeof(folder), "/tmp/lockstep-open-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < 2; i++) (void)snprintf(paths[i], sizeof(paths[i]), "%s/%d.safetensors", folder, i);
}

static void remove_folder(void) {
    for (int i = 0; i < 2; i++) (void)unlink(paths[i]);
    ck_assert_int_eq(rmdir(folder), 0);
}

static ls_dataset *new_data(const ls_shape *shape) {
    ls_dataset *data = NULL;
    assert_ok(ls_dataset_arrays(features, *shape, labels, EXAMPLES, 3,
                                LS_DATASET(.batch_size = 3, .shuffle = LS_SHUFFLE_NEVER), &data));
    return data;
}

static void assert_same_files(void) {
    uint8_t *bytes[2];
    size_t sizes[2];
    for (int i = 0; i < 2; i++) assert_ok(ls_file_read(paths[i], &bytes[i], &sizes[i]));
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_mem_eq(bytes[0], bytes[1], sizes[0]);
    for (int i = 0; i < 2; i++) ls_free(bytes[i]);
}

/* Saved once it is there; its predictions, freed with ls_memory_free. */
static float *predict(ls_model *model, ls_dataset *data, const char *path) {
    float *outputs = NULL;
    ls_shape shape;
    assert_ok(ls_model_predict(model, data, &outputs, &shape));
    ck_assert_int_eq(ls_shape_count(&shape), EXAMPLES * 3);
    assert_ok(ls_model_save(model, path));
    return outputs;
}

static void save_and_open(ls_strategy *strategy, uint64_t seed, struct drawn_seen *seen) {
    struct drawn_network drawn;
    ls_model *model = NULL, *opened = NULL;
    char note[40];
    draw_network(seed, &drawn, seen);
    ls_dataset *data = new_data(&drawn.input);
    (void)snprintf(note, sizeof(note), "a \"note\" of %llu", (unsigned long long)seed);
    assert_ok(ls_model_new(strategy, drawn.layers, drawn.count, &model));
    assert_ok(ls_model_seed(model, seed));
    assert_ok(ls_model_note(model, note));
    assert_ok(ls_model_compile(model, ls_sgd(1e-4F), LS_CATEGORICAL_CROSSENTROPY));
    if (seed % 2) assert_ok(ls_model_fit(model, data, LS_FIT(.epochs = 1, .verbose = -1), NULL));
    float *before = predict(model, data, paths[0]);
    assert_ok(ls_model_open(strategy, paths[0], &opened));
    float *after = predict(opened, data, paths[1]);
    ck_assert_mem_eq(before, after, sizeof(float) * EXAMPLES * 3);
    assert_same_files();
    ls_memory_free(before);
    ls_memory_free(after);
    ls_model_free(model);
    ls_model_free(opened);
    ls_dataset_free(data);
}

TEST(drawn_models_are_opened_as_they_were_saved) {
    ls_strategy *strategy = NULL;
    struct drawn_seen seen = {{0}};
    make_folder();
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    for (uint64_t seed = 0; seed < NETWORKS; seed++) save_and_open(strategy, seed, &seen);
    ls_strategy_free(strategy);
    remove_folder();
}

/* ---- training goes on ---- */

struct job {
    bool opens; /* else the layers are given, and the file is of weights */
    char digests[MAX_WORKERS][65];
};

static ls_status make_model(ls_strategy *strategy, ls_model **model) {
    ls_status status =
        ls_model_new(strategy,
                     LS_LAYERS(ls_conv2d(4, 3, 1, LS_SAME), ls_batch_normalization(), ls_relu(), ls_flatten(),
                               ls_dense(8, LS_GELU, .name = "a"), ls_dense(8, .input = "a"), ls_add("a"), ls_dense(3)),
                     model);
    return status ? status : ls_model_seed(*model, 7);
}

static ls_status compile_and_fit(ls_model *model, ls_dataset *data) {
    ls_status status = ls_model_compile(model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    return status ? status : ls_model_fit(model, data, LS_FIT(.epochs = 3, .verbose = -1), NULL);
}

static ls_status train_on(struct worker *worker) {
    struct job *job = worker->context;
    ls_model *model = NULL;
    ls_dataset *data = new_data(&LS_SHAPE(6, 5, 4));
    ls_status status =
        job->opens ? ls_model_open(worker->strategy, paths[0], &model) : make_model(worker->strategy, &model);
    if (!status) status = ls_model_seed(model, 7);
    if (!status && !job->opens) status = ls_model_load_weights(model, paths[0], NULL);
    if (!status) status = compile_and_fit(model, data);
    if (!status) status = ls_model_weights_sha256(model, job->digests[worker->rank]);
    ls_model_free(model);
    ls_dataset_free(data);
    return status;
}

static void save_one(ls_strategy *strategy) {
    ls_model *model = NULL;
    ls_dataset *data = new_data(&LS_SHAPE(6, 5, 4));
    assert_ok(make_model(strategy, &model));
    assert_refused(ls_model_save(model, "model.npz"), "'model.npz': a model is saved in a file whose name ends with");
    assert_fails(ls_model_save(model, paths[0]), LS_FAILED_PRECONDITION, "no weights yet");
    assert_ok(compile_and_fit(model, data));
    assert_ok(ls_model_save(model, paths[0]));
    ls_model_free(model);
    ls_dataset_free(data);
}

/* On any number of workers it is trained to the bits of a model of the same layers that loads the weights. */
TEST(an_opened_model_is_trained_as_the_one_that_was_saved) {
    ls_strategy *strategy = NULL;
    make_folder();
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    save_one(strategy);
    for (int workers = 1; workers <= 3; workers++) {
        struct job jobs[2] = {{.opens = false}, {.opens = true}};
        for (int k = 0; k < 2; k++) {
            struct worker_cluster cluster = {
                .count = workers, .devices = {1, 1, 1}, .fn = train_on, .context = &jobs[k]};
            run_workers_ok(&cluster);
        }
        for (int i = 0; i < workers; i++) ck_assert_str_eq(jobs[0].digests[i], jobs[1].digests[i]);
    }
    ls_strategy_free(strategy);
    remove_folder();
}

/* ---- what is no model ---- */

/* The text in the file becomes another one as long. */
static void replace(uint8_t *bytes, size_t size, const char *text, const char *by) {
    uint8_t *at = memmem(bytes, size, text, strlen(text));
    ck_assert_ptr_nonnull(at);
    ck_assert_uint_eq(strlen(text), strlen(by));
    memcpy(at, by, strlen(by));
}

/* Its bytes are paths[1]'s. */
static ls_status open_bytes(ls_strategy *strategy, const uint8_t *bytes, size_t size) {
    ls_model *model = NULL;
    assert_ok(ls_file_write(paths[1], bytes, size));
    ls_status status = ls_model_open(strategy, paths[1], &model);
    ck_assert_int_eq(status == LS_OK, model != NULL);
    ck_assert_msg(!status || strstr(ls_error(), paths[1]), "%s", ls_error());
    ls_model_free(model);
    return status;
}

TEST(what_is_unknown_in_a_file_is_named) {
    static const struct {
        const char *text, *by, *says;
        ls_status status;
    } changes[] = {
        {"\\\"units\\\": 8", "\\\"color\\\": 8", "layer 4: field 'color' is unknown", LS_INVALID_ARGUMENT},
        {"\\\"flatten\\\"", "\\\"flotten\\\"", "layer 3 ('flatten'): its kind is unknown", LS_INVALID_ARGUMENT},
        {"\\\"gelu\\\"", "\\\"golu\\\"", "layer 4: field 'activation' has a value", LS_INVALID_ARGUMENT},
        {"\\\"units\\\": 8", "\\\"units\\\": -", "no JSON object", LS_DATA_LOSS},
        {"\\\"units\\\": 8", "\\\"heads\\\": 8", "layer 4 (dense): this kind of layer has no heads",
         LS_INVALID_ARGUMENT},
        {"\\\"layers\\\"", "\\\"loyers\\\"", "does not say the layers of its model", LS_INVALID_ARGUMENT},
        {"\"about\"", "\"aboot\"", "does not say the layers of its model", LS_INVALID_ARGUMENT},
    };
    ls_strategy *strategy = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    make_folder();
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    save_one(strategy);
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        assert_ok(ls_file_read(paths[0], &bytes, &size));
        replace(bytes, size, changes[i].text, changes[i].by);
        assert_fails(open_bytes(strategy, bytes, size), changes[i].status, changes[i].says);
        ls_free(bytes);
    }
    assert_fails(ls_model_open(strategy, "/nowhere.safetensors", &(ls_model *){NULL}), LS_NOT_FOUND, "/nowhere");
    ls_strategy_free(strategy);
    remove_folder();
}

/* Bytes that are others, and files that end sooner. */
TEST(a_changed_file_is_opened_or_refused_by_its_name) {
    ls_strategy *strategy = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int refused = 0;
    make_folder();
    assert_ok(ls_one_device_strategy_new("cpu:0", &strategy));
    save_one(strategy);
    assert_ok(ls_file_read(paths[0], &bytes, &size));
    size_t header = 8 + bytes[0] + 256 * (size_t)bytes[1];
    for (uint64_t i = 0; i < CHANGES; i++) {
        size_t at = ls_random_bits(i, 0, 0) % (i % 4 ? header : size);
        uint8_t held = bytes[at];
        bytes[at] = (uint8_t)ls_random_bits(i, 0, 1);
        ls_status status = open_bytes(strategy, bytes, i % 8 == 7 ? at : size);
        ck_assert_msg(!status || status == LS_DATA_LOSS || status == LS_INVALID_ARGUMENT, "%s", ls_error());
        refused += status != LS_OK;
        bytes[at] = held;
    }
    ck_assert_int_gt(refused, CHANGES / 2);
    ls_free(bytes);
    ls_strategy_free(strategy);
    remove_folder();
}

TESTS("a model as a file", .seconds = 120)
