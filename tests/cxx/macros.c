/* Every macro of the public headers in one program, which is C11 and C++17 at once: what it says must not depend on
 * which it was compiled as. cxx.py compiles and runs it. */
#include <lockstep/lockstep.h>
#include <stdio.h>

/* A model with each kind of layer, and with fields of each type. */
static ls_status make_model(ls_strategy *strategy, ls_model **model) {
    int filters = 4;
    return ls_model_new(
        strategy,
        LS_LAYERS(ls_rescaling(2, -1), ls_rescaling(0.5F), ls_conv2d(filters, 3, .padding = LS_SAME, .name = "stem"),
                  ls_batch_normalization(.frozen = true), ls_relu(),
                  ls_conv2d(4, 3, 1, LS_SAME, .no_bias = true, .kernel_l2 = 0.01F),
                  ls_batch_normalization(.momentum = 0.9F, .no_scale = true), ls_add("stem"), ls_relu6(),
                  ls_zero_padding2d(0, 2, 1, 1), ls_depthwise_conv2d(3, 2, .name = "depthwise"), ls_leaky_relu(0.2F),
                  ls_max_pooling2d(2), ls_average_pooling2d(2, 1, LS_SAME, .name = "pool"), ls_dropout(0.25F),
                  ls_activation(LS_TANH, .name = "tanh"), ls_layer_normalization(.epsilon = 1e-5F, .no_center = true),
                  ls_multiply("tanh"), ls_rms_normalization(), ls_activation(LS_SILU), ls_concatenate("pool"),
                  ls_flatten(), ls_dense(16, LS_RELU, .kernel_initializer = LS_HE_NORMAL, .rate_multiplier = 0.5F),
                  ls_dense(8, .no_bias = true, .name = "narrow"), ls_dense(10)),
        model);
}

static ls_status say_model(ls_model *model) {
    char *text = NULL, hex[65];
    ls_status st = ls_model_summary(model, LS_SHAPE(28, 28, 1), &text);
    if (!st) st = ls_model_weights_sha256(model, hex);
    if (!st) (void)printf("%sweights %s\n", text, hex);
    for (int i = 0; !st && ls_model_metric_name(model, i); i++)
        (void)printf("metric %s\n", ls_model_metric_name(model, i));
    ls_memory_free(text);
    return st;
}

static ls_status on_epoch_end(void *context, const ls_callback_call *call) {
    (void)context;
    return printf("epoch %d of %d\n", call->epoch + 1, call->epochs) < 0 ? LS_UNKNOWN : LS_OK;
}

static ls_status compile_and_fit(ls_model *model, ls_dataset *digits) {
    ls_callback mine = LS_CALLBACK(.name = "mine", .on_epoch_end = on_epoch_end), *stop = NULL, *plateau = NULL;
    ls_result result;
    ls_status st = ls_model_compile_with(
        model, ls_sgd(0.1F, .momentum = 0.5F, .schedule = {.kind = LS_COSINE_DECAY, .decay_steps = 9}, .clipvalue = 1),
        LS_SPARSE_CATEGORICAL_CROSSENTROPY,
        LS_COMPILE(.label_smoothing = 0.1F,
                   .metrics = LS_METRICS(ls_top_k(3), ls_mean_loss(), ls_sparse_categorical_accuracy())));
    if (!st) st = ls_early_stopping_new(LS_EARLY_STOPPING(.monitor = "loss", .patience = 1), &stop);
    if (!st) st = ls_terminate_on_nan_new(&plateau);
    if (!st)
        st = ls_model_fit(model, digits,
                          LS_FIT(.epochs = 2, .verbose = -1, .callbacks = LS_CALLBACKS(&mine, stop, plateau)), &result);
    if (!st) (void)printf("steps %lld, loss %a\n", (long long)result.steps, result.loss);
    ls_callback_free(stop);
    ls_callback_free(plateau);
    return st;
}

static void say_class_weight(const ls_class_weight *classes) {
    (void)printf("class weight %d %g %d\n", classes[1].label, (double)classes[1].weight, classes[2].label);
}

/* The sum of two numbers, with weights; then two classes of unlike weight. */
static ls_status fit_numbers(ls_strategy *strategy) {
    static const float x[4][2] = {{0, 1}, {1, 0}, {1, 1}, {2, 1}}, y[4] = {1, 1, 2, 3}, weights[4] = {1, 2, 1, 0};
    ls_dataset *data = NULL;
    ls_model *model = NULL;
    ls_result result;
    ls_status st = ls_dataset_from_arrays(
        LS_ARRAYS(.count = 4, .features = &x[0][0], .shape = LS_SHAPE(2), .targets = y, .sample_weights = weights),
        LS_DATASET(.batch_size = 2), &data);
    if (!st) st = ls_model_new(strategy, LS_LAYERS(ls_dense(1)), &model);
    if (!st)
        st = ls_model_compile_with(model, ls_sgd(0.1F), LS_HUBER,
                                   LS_COMPILE(.metrics = LS_METRICS(ls_mean_absolute_error()), .huber_delta = 0.5F,
                                              .weighted_metrics = LS_METRICS(ls_mean_squared_error())));
    if (!st) st = ls_model_fit(model, data, LS_FIT(.epochs = 2, .verbose = -1), &result);
    if (!st) (void)printf("numbers %a %a %a\n", result.loss, result.metrics[0], result.metrics[1]);
    say_class_weight(LS_CLASS_WEIGHT({0, 1}, {1, 2.5F}));
    ls_model_free(model);
    ls_dataset_free(data);
    return st;
}

static ls_status copy_label(void *context, const ls_map_call *call) {
    for (int i = 0; i < 28 * 28; i++) call->output[i] = call->input[i] * *(const float *)context;
    return LS_OK;
}

/* Macros that only have to compile, and to have the values of C. */
static ls_status say_values(void) {
    const ls_optimizer optimizers[] = {ls_sgd(0.5F), ls_adam(0.25F), ls_adamw(0.5F, .weight_decay = 0.125F),
                                       ls_rmsprop(1, 0.5F), ls_lamb(2)};
    const ls_metric metrics[] = {ls_perplexity(), ls_binary_accuracy(), ls_binary_accuracy(.threshold = 0.5F),
                                 ls_categorical_accuracy()};
    const ls_layer layers[] = {ls_softmax(), ls_global_max_pooling2d(), ls_global_average_pooling2d(),
                               ls_global_max_pooling1d()};
    for (int i = 0; i < 5; i++)
        (void)printf("optimizer %d %g %g %g\n", (int)optimizers[i].kind, (double)optimizers[i].learning_rate,
                     (double)optimizers[i].momentum, (double)optimizers[i].weight_decay);
    for (int i = 0; i < 4; i++)
        (void)printf("metric %d %g, layer %d %d\n", (int)metrics[i].kind, (double)metrics[i].threshold,
                     (int)layers[i].kind, (int)layers[i].activation);
    ls_callback *callbacks[4] = {NULL, NULL, NULL, NULL};
    ls_layer *lenet = NULL;
    size_t count = 0;
    ls_status st = ls_reduce_on_plateau_new(LS_REDUCE_ON_PLATEAU(.factor = 0.5), &callbacks[0]);
    if (!st) st = ls_csv_logger_new(LS_CSV_LOGGER(.path = "never.csv"), &callbacks[1]);
    if (!st) st = ls_model_checkpoint_new(LS_MODEL_CHECKPOINT(.path = "never.npz"), &callbacks[2]);
    if (!st) st = ls_tensorboard_new(LS_TENSORBOARD(.folder = "never"), &callbacks[3]);
    if (!st) st = ls_application("lenet", LS_APPLICATION(.classes = 3), &lenet, &count);
    (void)printf("status %d, lenet has %zu layers\n", (int)st, count);
    ls_memory_free(lenet);
    for (int i = 0; i < 4; i++) ls_callback_free(callbacks[i]);
    return st;
}

/* Of images with colours, which digits have none of. */
static void say_colours(void) {
    const ls_map maps[] = {ls_random_hue(.factor = {0, 0.25F}), ls_random_saturation(.factor = {0.25F, 0.5F}),
                           ls_mix_up(0.2F)};
    for (int i = 0; i < 3; i++)
        (void)printf("colours %d %.2f %.2f %.2f\n", (int)maps[i].kind, (double)maps[i].factor[0],
                     (double)maps[i].factor[1], (double)maps[i].amount);
}

/* Refusals that show the options arrived. */
static void say_refusals(ls_model *model, ls_dataset *digits) {
    if (ls_model_load_weights(model, "missing.npz", LS_LOAD(.skip_mismatch = true))) (void)printf("%s\n", ls_error());
    if (ls_dataset_write(digits, LS_FORMAT_NPZ, "missing/folder", LS_WRITE(.shards = 2)))
        (void)printf("%s\n", ls_error());
    if (ls_model_fit(model, digits, LS_FIT(.checkpoint = LS_CHECKPOINT(.folder = "missing/folder", .every_steps = 5)),
                     NULL))
        (void)printf("%s\n", ls_error());
}

static ls_status work(ls_strategy *strategy) {
    static float half = 0.5F;
    ls_dataset *digits = NULL;
    ls_model *model = NULL;
    ls_variable *variable = NULL;
    ls_status st = ls_dataset_digits(
        LS_DATASET(.batch_size = 16, .limit = 48,
                   .maps = LS_MAPS(ls_random_flip(), ls_random_crop(28, 28, 2), ls_central_crop(28, 28),
                                   ls_random_brightness(0.1F), ls_random_contrast(0.1F), ls_rescale(1, 0),
                                   ls_random_rotation(.factor = {-0.1F, 0.1F}), ls_random_zoom(.factor = {-0.1F, 0.1F}),
                                   ls_random_translation(.height_factor = {0, 0.1F}, .fill_mode = LS_FILL_MODE_WRAP),
                                   ls_random_erasing(.factor = {0.5F, 1}, .scale = {0.1F, 0.2F}),
                                   ls_normalise(.mean = {0.5F}, .deviation = {0.25F}),
                                   ls_map_function(copy_label, .context = &half, .shape = LS_SHAPE(28, 28, 1)))),
        &digits);
    if (!st) st = ls_variable_new(strategy, "seen", LS_VARIABLE(.dtype = LS_INT64, .shape = LS_SHAPE(2, 3)), &variable);
    if (!st) st = say_values();
    if (!st) st = make_model(strategy, &model);
    if (!st) st = compile_and_fit(model, digits);
    if (!st) st = say_model(model);
    if (!st) say_refusals(model, digits);
    say_colours();
    ls_model_free(model);
    ls_dataset_free(digits);
    return st;
}

static ls_status move(ls_communicator *communicator, float *values) {
    const size_t counts[1] = {2};
    size_t received[1] = {0};
    float copy[2] = {0};
    void *made = NULL;
    ls_status st = ls_broadcast(communicator, LS_BROADCAST("words", values, 2, LS_FLOAT32, 0));
    if (!st) st = ls_all_gather(communicator, LS_ALL_GATHER("parts", values, copy, counts));
    if (!st) st = ls_reduce_scatter(communicator, LS_REDUCE_SCATTER("shards", copy, copy, counts, .op = LS_MAX));
    if (!st) st = ls_send(communicator, LS_SEND("own", copy, 2));
    if (!st) st = ls_receive(communicator, LS_RECEIVE("own", values, 2, .from = 0));
    if (!st) st = ls_all_to_all(communicator, LS_ALL_TO_ALL("tokens", values, counts, &made, received, LS_FLOAT32));
    if (!st) (void)printf("moved %g %g, %zu\n", (double)values[0], (double)((float *)made)[1], received[0]);
    ls_memory_free(made);
    return st;
}

static ls_status add_up(void) {
    ls_communicator *communicator = NULL;
    float sum[2] = {1, -3};
    ls_status st = ls_communicator_new(LS_STRATEGY(.tf_config = "{}"), &communicator);
    if (!st)
        st = ls_all_reduce(communicator,
                           LS_ALL_REDUCE("sum", sum, sum, 2, LS_FLOAT32, LS_PRODUCT, .prescale = 0.5, .postscale = 3));
    if (!st) (void)printf("scaled %g %g\n", (double)sum[0], (double)sum[1]);
    if (!st) st = move(communicator, sum);
    ls_gradients *gradients = NULL;
    void *const arrays[1] = {sum};
    const size_t counts[1] = {2};
    const ls_dtype dtypes[1] = {LS_FLOAT32};
    if (!st) st = ls_communicator_negotiate(communicator);
    if (!st)
        st = ls_gradients_new(communicator, LS_GRADIENTS(arrays, counts, dtypes, 1, .passes = 1, .predivide = 2),
                              &gradients);
    if (!st) st = ls_gradients_ready(gradients, 0);
    if (!st) st = ls_gradients_wait(gradients);
    if (!st) (void)printf("gradients %g %g\n", (double)sum[0], (double)sum[1]);
    ls_gradients_free(gradients);
    return ls_communicator_close(communicator, st);
}

static ls_status meet_now_and_then(void) {
    ls_strategy *strategy = NULL;
    ls_model *words = NULL;
    char *text = NULL;
    ls_status st = ls_local_sgd_strategy_new(
        LS_STRATEGY(.tf_config = "{}"),
        LS_LOCAL_SGD(.sync_every = 4, .outer_learning_rate = 0.7F, .outer_momentum = 0.9F, .fragments = 2), &strategy);
    if (!st)
        st = ls_model_new(
            strategy,
            LS_LAYERS(ls_embedding(50, 6, .name = "table", .sparse = true, .frozen = true),
                      ls_conv1d(8, 3, 1, LS_CAUSAL, .dilation_rate = 2), ls_lstm(6, .return_sequences = true),
                      ls_max_pooling1d(2, 1, LS_SAME), ls_average_pooling1d(1),
                      ls_gru(6, .kernel_initializer = LS_ORTHOGONAL, .return_sequences = true),
                      ls_position_embedding(.kernel_initializer = LS_ZEROS), ls_dense(24, .per_position = true),
                      ls_attention(4, .kv_heads = 1, .rope = true), ls_position_embedding(),
                      ls_dense(12, .per_position = true), ls_attention(2), ls_dense(6, LS_RELU, .per_position = true),
                      ls_tied_dense("table"), ls_global_average_pooling1d(), ls_dense(2)),
            &words);
    if (!st) st = ls_model_summary(words, LS_SHAPE(7), &text);
    if (!st) (void)printf("%s\n", text);
    ls_memory_free(text);
    ls_model_free(words);
    return ls_strategy_close(strategy, st);
}

static ls_status store_centrally(void) {
    ls_strategy *strategy = NULL;
    ls_status st = ls_central_storage_strategy_new(LS_STRATEGY(.devices = "2"),
                                                   LS_CENTRAL_STORAGE(.parameter_device = "CPU:0"), &strategy);
    if (!st) (void)printf("central %d\n", ls_num_replicas_in_sync(strategy));
    return st ? st : ls_strategy_close(strategy, st);
}

int main(void) {
    ls_strategy *strategy = NULL;
    ls_status st = ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &strategy);
    if (st) return ls_exit(st);
    st = work(strategy);
    if (!st) st = fit_numbers(strategy);
    if (!st) st = add_up();
    if (!st) st = store_centrally();
    if (!st) st = meet_now_and_then();
    return ls_exit(ls_strategy_close(strategy, st));
}
