/* A small training as one number. */
#include "property/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS  72
#define CLASSES 3

static float features[FEW * PIXELS];
static int32_t labels[FEW];

void change_field(void *value, const struct change *change) {
    memcpy((char *)value + change->offset, (const char *)change->value + change->offset, change->size);
}

static char scratch[] = "/tmp/lockstep-fields-XXXXXX";

void make_scratch(void) {
    ck_assert_ptr_nonnull(mkdtemp(scratch));
}

void remove_scratch(void) {
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -r '%s'", scratch);
    ck_assert_int_eq(system(command), 0);
}

const char *in_scratch(const char *name) {
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
    return path;
}

struct digest digest_bytes(struct digest so_far, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) so_far.value = (so_far.value ^ at[i]) * UINT64_C(0x100000001b3);
    return so_far;
}

struct digest digest_refusal(ls_status status) {
    struct digest refused = digest_bytes((struct digest){.refused = true}, ls_error(), strlen(ls_error()));
    ck_assert_int_ne(status, LS_OK);
    return refused;
}

bool differs(struct digest base, struct digest changed) {
    ck_assert(!base.refused);
    return changed.refused || changed.value != base.value;
}

ls_strategy *two_devices(void) {
    ls_strategy *strategy = NULL;
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy));
    return strategy;
}

static ls_status few_open(ls_shape shape, const ls_dataset_options *options, ls_dataset **data) {
    for (int i = 0; i < FEW; i++) {
        labels[i] = i * 5 % CLASSES;
        for (int j = 0; j < PIXELS; j++)
            features[i * PIXELS + j] = (float)((i * 31 + j * 17) % 23) / 23 - 0.4F + (float)(labels[i] == j % CLASSES);
    }
    return ls_dataset_arrays(features, shape, labels, FEW, CLASSES, options, data);
}

ls_status few_images_open(const ls_dataset_options *options, ls_dataset **data) {
    return few_open(LS_SHAPE(6, 6, 2), options, data);
}

ls_dataset *few_images(const ls_dataset_options *options) {
    ls_dataset *data = NULL;
    ls_status status = few_images_open(options, &data);
    assert_ok(status);
    return data;
}

static ls_shape shape_of(const struct trial *trial) {
    return trial->sequences ? LS_SHAPE(12, 6) : LS_SHAPE(6, 6, 2);
}

static ls_dataset *few_of(const struct trial *trial, const ls_dataset_options *options) {
    ls_dataset *data = NULL;
    assert_ok(few_open(shape_of(trial), options, &data));
    return data;
}

struct trial trial_default(void) {
    return (struct trial){.layers = {ls_dense(4, LS_TANH), ls_dense(3)},
                          .count = 2,
                          .optimizer = ls_sgd(0.1F),
                          .loss = LS_SPARSE_CATEGORICAL_CROSSENTROPY,
                          .compile = {.size = sizeof(ls_compile_options)},
                          .fit = {.size = sizeof(ls_fit_options), .epochs = 2, .verbose = -1}};
}

static struct digest digest_variables(struct digest so_far, const ls_model *model) {
    for (int i = 0; i < ls_model_num_variables(model); i++) {
        const char *name;
        const float *values;
        ls_shape shape;
        int64_t count = 1;
        assert_ok(ls_model_variable(model, i, &name, &shape, &values));
        for (int axis = 0; axis < shape.rank; axis++) count *= shape.dims[axis];
        so_far =
            digest_bytes(digest_bytes(so_far, name, strlen(name)), shape.dims, (size_t)shape.rank * sizeof(int64_t));
        so_far = digest_bytes(so_far, values, (size_t)count * sizeof(*values));
    }
    return so_far;
}

static struct digest digest_result(struct digest so_far, const ls_model *model, ls_result result) {
    result.samples_per_second = 0; /* not the same in each run */
    for (int i = 0; ls_model_metric_name(model, i); i++) {
        const char *name = ls_model_metric_name(model, i);
        so_far = digest_bytes(so_far, name, strlen(name));
    }
    return digest_bytes(so_far, &result, sizeof(result));
}

/* Layers' names and what is predicted, too. */
static struct digest digest_model(const struct trial *trial, ls_model *model, const ls_result *result) {
    struct digest digest = digest_result(digest_variables((struct digest){0}, model), model, *result);
    ls_dataset *data = few_of(trial, LS_DATASET(.shuffle = LS_SHUFFLE_NEVER));
    char *text = NULL;
    float *outputs = NULL;
    ls_shape shape;
    assert_ok(ls_model_summary(model, shape_of(trial), &text));
    digest = digest_bytes(digest, text, strlen(text));
    ls_memory_free(text);
    assert_ok(ls_model_predict(model, data, &outputs, &shape));
    digest = digest_bytes(digest, outputs, (size_t)(shape.dims[0] * shape.dims[1]) * sizeof(*outputs));
    ls_memory_free(outputs);
    ls_dataset_free(data);
    return digest;
}

struct digest trial_run(const struct trial *trial) {
    ls_strategy *strategy = two_devices();
    ls_dataset *data = few_of(trial, LS_DATASET(.batch_size = 8, .shuffle = LS_SHUFFLE_NEVER));
    ls_model *model = NULL;
    ls_result result;
    memset(&result, 0, sizeof(result));
    ls_status status = ls_model_new(strategy, trial->layers, trial->count, &model);
    if (!status) status = ls_model_compile_with(model, trial->optimizer, trial->loss, &trial->compile);
    if (!status) status = ls_model_fit(model, data, &trial->fit, &result);
    struct digest digest = status ? digest_refusal(status) : digest_model(trial, model, &result);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    return digest;
}
