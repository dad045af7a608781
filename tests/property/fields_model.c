/* Every field of layers, optimizers, schedules and metrics, for every kind: it changes what is trained, or is refused.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "property/fields.h"

/* ---- layers: behind two others, convolutions or dense, so that there is something to name as an input ---- */

static const ls_layer layers[] = {
    {.kind = LS_LAYER_DENSE, .units = 4},
    {.kind = LS_LAYER_DENSE, .units = 4, .activation = LS_LEAKY_RELU, .no_bias = true},
    {.kind = LS_LAYER_DENSE, .units = 4, .activation = LS_GELU},
    {.kind = LS_LAYER_FLATTEN},
    {.kind = LS_LAYER_ACTIVATION, .activation = LS_LEAKY_RELU},
    {.kind = LS_LAYER_CONV2D, .units = 4, .kernel_size = 2},
    {.kind = LS_LAYER_DEPTHWISE_CONV2D, .kernel_size = 2},
    {.kind = LS_LAYER_BATCH_NORMALIZATION},
    {.kind = LS_LAYER_LAYER_NORMALIZATION},
    {.kind = LS_LAYER_RMS_NORMALIZATION},
    {.kind = LS_LAYER_MAX_POOLING2D, .kernel_size = 4},
    {.kind = LS_LAYER_AVERAGE_POOLING2D, .kernel_size = 4},
    {.kind = LS_LAYER_GLOBAL_MAX_POOLING2D},
    {.kind = LS_LAYER_GLOBAL_AVERAGE_POOLING2D},
    {.kind = LS_LAYER_ADD, .others = {"second"}},
    {.kind = LS_LAYER_MULTIPLY, .others = {"second"}},
    {.kind = LS_LAYER_CONCATENATE, .others = {"second"}},
    {.kind = LS_LAYER_ZERO_PADDING2D},
    {.kind = LS_LAYER_RESCALING, .scale = 1},
    {.kind = LS_LAYER_DROPOUT},
    {.kind = LS_LAYER_ATTENTION, .heads = 2},
    {.kind = LS_LAYER_ATTENTION, .heads = 4, .kv_heads = 1, .window = 5, .rope = true},
    {.kind = LS_LAYER_POSITION_EMBEDDING},
    {.kind = LS_LAYER_LSTM, .units = 4},
    {.kind = LS_LAYER_GRU, .units = 4, .return_sequences = true},
    {.kind = LS_LAYER_CONV1D, .units = 4, .kernel_size = 2},
    {.kind = LS_LAYER_MAX_POOLING1D, .kernel_size = 5},
    {.kind = LS_LAYER_AVERAGE_POOLING1D, .kernel_size = 5},
    {.kind = LS_LAYER_GLOBAL_MAX_POOLING1D},
    {.kind = LS_LAYER_GLOBAL_AVERAGE_POOLING1D},
};

static bool takes_sequences(const ls_layer *layer) {
    return layer->kind == LS_LAYER_ATTENTION || layer->kind == LS_LAYER_POSITION_EMBEDDING ||
           (layer->kind >= LS_LAYER_LSTM && layer->kind <= LS_LAYER_GLOBAL_MAX_POOLING1D) ||
           layer->kind == LS_LAYER_GLOBAL_AVERAGE_POOLING1D;
}

static const struct change layer_changes[] = {
    CHANGE(ls_layer, kind, 99),
    CHANGE(ls_layer, units, 5),
    CHANGE(ls_layer, activation, LS_SIGMOID),
    CHANGE(ls_layer, kernel_initializer, LS_ONES),
    CHANGE(ls_layer, name, "another"),
    CHANGE(ls_layer, input, "first"),
    CHANGE(ls_layer, others, {"first"}),
    CHANGE(ls_layer, tied, "first"),
    CHANGE(ls_layer, kernel_size, 3),
    CHANGE(ls_layer, strides, 2),
    CHANGE(ls_layer, padding, LS_SAME),
    CHANGE(ls_layer, kernel_width, 1),
    CHANGE(ls_layer, dilation_rate, 2),
    CHANGE(ls_layer, groups, 2),
    CHANGE(ls_layer, no_bias, true),
    CHANGE(ls_layer, zeros, {1, 0, 0, 2}),
    CHANGE(ls_layer, momentum, 0.5F),
    CHANGE(ls_layer, epsilon, 0.5F),
    CHANGE(ls_layer, no_scale, true),
    CHANGE(ls_layer, no_center, true),
    CHANGE(ls_layer, synchronized, true),
    CHANGE(ls_layer, fused, true),
    CHANGE(ls_layer, rate, 0.5F),
    CHANGE(ls_layer, negative_slope, 0.7F),
    CHANGE(ls_layer, scale, 2),
    CHANGE(ls_layer, offset, 1),
    CHANGE(ls_layer, input_dim, 9),
    CHANGE(ls_layer, sparse, true),
    CHANGE(ls_layer, per_position, true),
    CHANGE(ls_layer, heads, 4),
    CHANGE(ls_layer, kv_heads, 1),
    CHANGE(ls_layer, window, 3),
    CHANGE(ls_layer, rope, true),
    CHANGE(ls_layer, rope_theta, 500000),
    CHANGE(ls_layer, return_sequences, true),
    CHANGE(ls_layer, no_causal_mask, true),
    CHANGE(ls_layer, kernel_l1, 0.1F),
    CHANGE(ls_layer, kernel_l2, 0.1F),
    CHANGE(ls_layer, stddev, 0.5F),
    CHANGE(ls_layer, frozen, true),
    CHANGE(ls_layer, rate_multiplier, 0.5F),
};

static struct digest run_layer(const ls_layer *layer, bool sequences) {
    struct trial trial = trial_default();
    const ls_layer images[] = {ls_conv2d(2, 1, .name = "first"), ls_conv2d(2, 1, .name = "second"), *layer,
                               ls_dense(3, .name = "last")};
    const ls_layer positions[] = {ls_dense(24, .per_position = true, .name = "first"),
                                  ls_dense(24, .per_position = true, .name = "second"), *layer,
                                  ls_dense(3, .name = "last")};
    memcpy(trial.layers, sequences ? positions : images, sizeof(images));
    trial.count = COUNT_OF(images);
    trial.sequences = sequences;
    return trial_run(&trial);
}

TEST_EACH(every_field_of_layers_counts, COUNT_OF(layers)) {
    bool sequences = takes_sequences(&layers[_i]);
    const struct digest base = run_layer(&layers[_i], sequences);
    ck_assert_msg(!base.refused, "%s", ls_error());
    for (size_t i = 0; i < COUNT_OF(layer_changes); i++) {
        ls_layer changed = layers[_i];
        change_field(&changed, &layer_changes[i]);
        if (!memcmp(&changed, &layers[_i], sizeof(changed))) continue; /* it is so already */
        ck_assert_msg(differs(base, run_layer(&changed, sequences)), "layer kind %d: %s is ignored",
                      (int)layers[_i].kind, layer_changes[i].field);
    }
}

/* ---- optimizers ---- */

static const ls_optimizer optimizers[] = {
    {.kind = LS_OPTIMIZER_SGD,
     .learning_rate = 0.1F,
     .momentum = 0.5F,
     .weight_decay = 0.1F,
     .schedule = {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 5, .decay_rate = 0.5F}},
    {.kind = LS_OPTIMIZER_ADAM, .learning_rate = 0.01F, .weight_decay = 0.1F},
    {.kind = LS_OPTIMIZER_ADAMW, .learning_rate = 0.01F},
    {.kind = LS_OPTIMIZER_RMSPROP, .learning_rate = 0.01F, .weight_decay = 0.1F},
    {.kind = LS_OPTIMIZER_LAMB, .learning_rate = 0.01F, .weight_decay = 0.1F},
};

static const struct change optimizer_changes[] = {
    CHANGE(ls_optimizer, kind, 99),
    CHANGE(ls_optimizer, learning_rate, 0.5F),
    CHANGE(ls_optimizer, momentum, 0.9F),
    CHANGE(ls_optimizer, nesterov, true),
    CHANGE(ls_optimizer, beta_1, 0.5F),
    CHANGE(ls_optimizer, beta_2, 0.5F),
    CHANGE(ls_optimizer, epsilon, 0.5F),
    CHANGE(ls_optimizer, torch_epsilon, true),
    CHANGE(ls_optimizer, rho, 0.5F),
    CHANGE(ls_optimizer, centered, true),
    CHANGE(ls_optimizer, weight_decay, 0.3F),
    CHANGE(ls_optimizer, exclude_from_weight_decay, "kernel"),
    CHANGE(ls_optimizer, schedule, {.kind = LS_COSINE_DECAY, .decay_steps = 4}),
    CHANGE(ls_optimizer, clipvalue, 1e-3F),
    CHANGE(ls_optimizer, clipnorm, 1e-3F),
    CHANGE(ls_optimizer, global_clipnorm, 1e-3F),
    CHANGE(ls_optimizer, gradient_accumulation_steps, 2),
    CHANGE(ls_optimizer, momentum_correction, true),
};

static struct digest run_optimizer(const ls_optimizer *optimizer) {
    struct trial trial = trial_default();
    trial.optimizer = *optimizer;
    return trial_run(&trial);
}

TEST_EACH(every_field_of_optimizers_counts, COUNT_OF(optimizers)) {
    const struct digest base = run_optimizer(&optimizers[_i]);
    for (size_t i = 0; i < COUNT_OF(optimizer_changes); i++) {
        ls_optimizer changed = optimizers[_i];
        change_field(&changed, &optimizer_changes[i]);
        ck_assert_msg(differs(base, run_optimizer(&changed)), "optimizer %d: %s is ignored", (int)changed.kind,
                      optimizer_changes[i].field);
    }
}

/* ---- schedules ---- */

static const ls_rate_schedule schedules[] = {
    {.kind = LS_CONSTANT_RATE},
    {.kind = LS_CONSTANT_RATE, .warmup_steps = 3},
    {.kind = LS_EXPONENTIAL_DECAY, .decay_steps = 5, .decay_rate = 0.5F},
    {.kind = LS_COSINE_DECAY, .decay_steps = 5},
    {.kind = LS_PIECEWISE_CONSTANT_DECAY, .boundaries = {2}, .values = {0.01F}},
};

static const struct change schedule_changes[] = {
    CHANGE(ls_rate_schedule, kind, 99),           CHANGE(ls_rate_schedule, decay_steps, 3),
    CHANGE(ls_rate_schedule, decay_rate, 0.1F),   CHANGE(ls_rate_schedule, staircase, true),
    CHANGE(ls_rate_schedule, alpha, 0.5F),        CHANGE(ls_rate_schedule, boundaries, {1}),
    CHANGE(ls_rate_schedule, values, {0.5F}),     CHANGE(ls_rate_schedule, warmup_steps, 4),
    CHANGE(ls_rate_schedule, warmup_from, 0.05F),
};

static struct digest run_schedule(const ls_rate_schedule *schedule) {
    struct trial trial = trial_default();
    trial.optimizer.schedule = *schedule;
    return trial_run(&trial);
}

TEST_EACH(every_field_of_schedules_counts, COUNT_OF(schedules)) {
    const struct digest base = run_schedule(&schedules[_i]);
    for (size_t i = 0; i < COUNT_OF(schedule_changes); i++) {
        ls_rate_schedule changed = schedules[_i];
        change_field(&changed, &schedule_changes[i]);
        ck_assert_msg(differs(base, run_schedule(&changed)), "schedule %d: %s is ignored", (int)changed.kind,
                      schedule_changes[i].field);
    }
}

/* ---- metrics ---- */

static const ls_metric metrics[] = {
    {.kind = LS_METRIC_SPARSE_CATEGORICAL_ACCURACY},
    {.kind = LS_METRIC_CATEGORICAL_ACCURACY},
    {.kind = LS_METRIC_BINARY_ACCURACY},
    {.kind = LS_METRIC_TOP_K, .k = 2},
    {.kind = LS_METRIC_MEAN_LOSS},
};

static const struct change metric_changes[] = {
    CHANGE(ls_metric, kind, 99),
    CHANGE(ls_metric, k, 1),
    CHANGE(ls_metric, threshold, 0.3F),
};

static struct digest run_metric(const ls_metric *metric) {
    struct trial trial = trial_default();
    trial.compile.metrics = (const ls_metric[]){*metric, {0}};
    trial.optimizer.learning_rate = 1e-4F; /* so that not everything is right */
    return trial_run(&trial);
}

TEST_EACH(every_field_of_metrics_counts, COUNT_OF(metrics)) {
    const struct digest base = run_metric(&metrics[_i]);
    for (size_t i = 0; i < COUNT_OF(metric_changes); i++) {
        ls_metric changed = metrics[_i];
        change_field(&changed, &metric_changes[i]);
        ck_assert_msg(differs(base, run_metric(&changed)), "metric %d: %s is ignored", (int)changed.kind,
                      metric_changes[i].field);
    }
}

/* ---- compile ---- */

static const ls_metric one_metric[] = {{.kind = LS_METRIC_MEAN_LOSS}, {0}};
static const struct change compile_changes[] = {
    CHANGE(ls_compile_options, from_probabilities, true),
    CHANGE(ls_compile_options, label_smoothing, 0.3F),
    CHANGE(ls_compile_options, metrics, one_metric),
    CHANGE(ls_compile_options, precision, LS_MIXED_FLOAT16),
    CHANGE(ls_compile_options, weighted_metrics, one_metric),
    CHANGE(ls_compile_options, huber_delta, 0.1F), /* refused: the loss has none */
};

TEST_EACH(every_field_of_compile_options_counts, COUNT_OF(compile_changes)) {
    struct trial trial = trial_default();
    const struct digest base = trial_run(&trial);
    change_field(&trial.compile, &compile_changes[_i]);
    ck_assert_msg(differs(base, trial_run(&trial)), "%s is ignored", compile_changes[_i].field);
}

/* Else everything would seem to have an effect. */
TEST(the_same_trial_gives_the_same_digest) {
    const struct trial trial = trial_default();
    ck_assert(!differs(trial_run(&trial), trial_run(&trial)));
}

/* ---- applications and weights ---- */

static int64_t parameters_of(const char *name, const ls_application_options *options) {
    ls_strategy *strategy = two_devices();
    ls_layer *made = NULL;
    ls_model *model = NULL;
    char *text = NULL;
    size_t count;
    assert_ok(ls_application(name, options, &made, &count));
    assert_ok(ls_model_new(strategy, made, count, &model));
    assert_ok(ls_model_summary(model, LS_SHAPE(32, 32, 3), &text));
    int64_t sum = (int64_t)digest_bytes((struct digest){0}, text, strlen(text)).value;
    ls_memory_free(text);
    ls_model_free(model);
    ls_memory_free(made);
    ls_strategy_free(strategy);
    return sum;
}

FIELD(ls_application_options, classes) {
    return parameters_of("lenet", LS_APPLICATION(.classes = 3)) != parameters_of("lenet", LS_APPLICATION(.classes = 4));
}

FIELD(ls_application_options, alpha) {
    return parameters_of("mobilenet_v2", LS_APPLICATION(.classes = 3)) !=
           parameters_of("mobilenet_v2", LS_APPLICATION(.classes = 3, .alpha = 0.35F));
}

static ls_model *new_model(ls_strategy *strategy, int outputs) {
    ls_model *model = NULL;
    assert_ok(ls_model_new(strategy, LS_LAYERS(ls_dense(2), ls_dense(outputs)), &model));
    assert_ok(ls_model_compile(model, ls_sgd(0.1F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    return model;
}

/* A model with more outputs than the file's. */
static ls_status load_larger(ls_strategy *strategy, ls_dataset *data, const char *path, bool skip) {
    ls_model *model = new_model(strategy, 4);
    ls_status status = ls_model_load_weights(model, path, LS_LOAD(.skip_mismatch = skip));
    if (!status) status = ls_model_evaluate(model, data, NULL);
    ls_model_free(model);
    return status;
}

FIELD(ls_load_options, skip_mismatch) {
    ls_strategy *strategy = two_devices();
    ls_dataset *data = few_images(NULL);
    ls_model *model = new_model(strategy, 3);
    char path[] = "/tmp/lockstep-fields-XXXXXX.npz";
    int file = mkstemps(path, 4);
    ck_assert_int_ge(file, 0);
    (void)close(file);
    assert_ok(ls_model_evaluate(model, data, NULL));
    assert_ok(ls_model_save_weights(model, path));
    ls_status refused = load_larger(strategy, data, path, false), skipped = load_larger(strategy, data, path, true);
    ls_model_free(model);
    ls_dataset_free(data);
    ls_strategy_free(strategy);
    (void)unlink(path);
    ck_assert_msg(!skipped, "%s", ls_error());
    return refused == LS_INVALID_ARGUMENT;
}

TESTS("fields", .seconds = 60)
