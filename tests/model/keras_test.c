/* Layers on images and networks of them against what Keras computed: losses, gradients, moving statistics, names and
 * counts of variables. Weights and inputs are functions of their names, here as in record_images.py. */
#include <stdlib.h>

#include "golden/golden.h"
#include "harness.h"
#include "model/keras_fixture.h"

static void check_loss(const struct replica *replica, const struct golden *golden, const char *name, const char *what,
                       double tolerance) {
    const struct golden_tensor *recorded = golden_find(golden, "%s/%s", name, what);
    float loss = (float)(replica->sums.loss / (double)replica->rows);
    assert_near(what, &loss, recorded->values, 1, tolerance);
}

static void check_inference(struct replica *replica, const struct golden *golden, const char *name, double tolerance) {
    struct ls_plan_config config = plan_config(replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    config.training = false;
    run_config(replica, &config);
    check_loss(replica, golden, name, "inference", tolerance);
}

/* ---- layers ---- */

static const struct {
    const char *name;
    ls_layer layers[12];
} cases[] = {
    {"valid", {ls_conv2d(5, 3, .name = "a")}},
    {"same", {ls_conv2d(5, 3, 2, LS_SAME, .name = "a")}},
    {"wide", {ls_conv2d(3, 2, .kernel_width = 3, .padding = LS_SAME, .no_bias = true, .name = "a")}},
    {"dilated", {ls_conv2d(3, 3, .padding = LS_SAME, .dilation_rate = 2, .name = "a")}},
    {"groups", {ls_conv2d(6, 3, .padding = LS_SAME, .groups = 2, .activation = LS_RELU, .name = "a")}},
    {"depthwise", {ls_depthwise_conv2d(3, 2, LS_SAME, .name = "a")}},
    {"multiplier", {ls_depthwise_conv2d(2, .units = 3, .activation = LS_TANH, .name = "a")}},
    {"norm", {ls_batch_normalization(.name = "a")}},
    {"norm_plain",
     {ls_batch_normalization(.no_center = true, .no_scale = true, .momentum = 0.9F, .epsilon = 0.01F, .name = "a")}},
    {"norm_relu", {ls_batch_normalization(.name = "a"), ls_relu()}},
    {"norm_relu6", {ls_batch_normalization(.name = "a"), ls_relu6()}},
    {"layer_norm", {ls_layer_normalization(.name = "a")}},
    {"layer_norm_plain", {ls_layer_normalization(.no_center = true, .no_scale = true, .epsilon = 0.01F, .name = "a")}},
    {"layer_norm_scale", {ls_layer_normalization(.no_center = true, .name = "a")}},
    {"layer_norm_center", {ls_flatten(), ls_layer_normalization(.no_scale = true, .name = "a")}},
    {"rms_norm", {ls_rescaling(1, 2), ls_rms_normalization(.name = "a")}},
    {"rms_norm_epsilon", {ls_rms_normalization(.epsilon = 0.1F, .name = "a")}},
    {"max", {ls_max_pooling2d(3, 2, LS_SAME)}},
    {"max_valid", {ls_max_pooling2d(2)}},
    {"average", {ls_average_pooling2d(3, 2, LS_SAME)}},
    {"global_average", {ls_global_average_pooling2d()}},
    {"global_max", {ls_global_max_pooling2d()}},
    {"leaky", {ls_activation(LS_LEAKY_RELU)}},
    {"relu6", {ls_rescaling(4, 1), ls_relu6()}},
    {"sigmoid", {ls_activation(LS_SIGMOID)}},
    {"gelu", {ls_rescaling(3), ls_activation(LS_GELU)}},
    {"gelu_tanh", {ls_rescaling(3), ls_activation(LS_GELU_TANH)}},
    {"silu", {ls_rescaling(3), ls_activation(LS_SILU)}},
    {"softmax", {ls_softmax()}},
    {"padding", {ls_zero_padding2d(0, 2, 1, 0), ls_conv2d(3, 3, .name = "a")}},
    {"add", {ls_conv2d(4, 1, .name = "a"), ls_add("front")}},
    {"multiply", {ls_conv2d(4, 1, .name = "a"), ls_multiply("front")}},
    {"multiply_three", {ls_conv2d(4, 1, .name = "a"), ls_conv2d(4, 1, .name = "b"), ls_multiply("front", "a")}},
    {"swiglu",
     {ls_rms_normalization(.name = "a"), ls_dense(5, LS_SILU, .no_bias = true, .per_position = true, .name = "b"),
      ls_dense(5, .no_bias = true, .per_position = true, .name = "c", .input = "a"), ls_multiply("b"),
      ls_dense(4, .no_bias = true, .per_position = true, .name = "d"), ls_add("front")}},
    {"concatenate", {ls_conv2d(3, 1, .name = "a"), ls_concatenate("front")}},
    {"dense", {ls_flatten(), ls_dense(6, LS_SIGMOID, .name = "a")}},
    {"dense_gelu", {ls_flatten(), ls_dense(6, LS_GELU, .name = "a")}},
    {"dense_gelu_tanh", {ls_flatten(), ls_dense(6, LS_GELU_TANH, .name = "a")}},
    {"conv_silu", {ls_conv2d(5, 3, .activation = LS_SILU, .name = "a")}},
    {"depthwise_gelu", {ls_depthwise_conv2d(3, 2, LS_SAME, .activation = LS_GELU, .name = "a")}},
    {"bottleneck",
     {ls_conv2d(4, 1, .name = "a"), ls_batch_normalization(.name = "b"), ls_relu6(),
      ls_depthwise_conv2d(3, .padding = LS_SAME, .name = "c"), ls_batch_normalization(.name = "d"), ls_relu6(),
      ls_conv2d(4, 1, .name = "e"), ls_batch_normalization(.name = "f"), ls_add("front"),
      ls_conv2d(3, 2, .name = "g")}},
    {"residual",
     {ls_conv2d(5, 1, .name = "a"), ls_batch_normalization(.name = "b"),
      ls_conv2d(5, 3, .padding = LS_SAME, .name = "c", .input = "front"), ls_batch_normalization(.name = "d"),
      ls_add("b"), ls_relu(), ls_conv2d(3, 2, .name = "e")}},
};

/* "front", the layers under test, flatten, dense. */
static size_t whole_network(const ls_layer *under_test, ls_layer *layers) {
    size_t count = 0;
    layers[count++] = (ls_layer)ls_conv2d(4, 1, .name = "front");
    for (size_t i = 0; i < 12 && under_test[i].kind; i++) layers[count++] = under_test[i];
    layers[count++] = (ls_layer)ls_flatten();
    layers[count++] = (ls_layer)ls_dense(3, .name = "dense");
    return count;
}

/* A bias before a batch normalization has no gradient but rounding: so what is asked for has a floor. */
static void check_variable(const struct golden *golden, const char *name, const struct ls_network_variable *variable,
                           const float *values, double tolerance) {
    const struct golden_tensor *recorded = golden_find(golden, "%s/%s", name, variable->name);
    double largest = 0.2;
    ck_assert_int_eq(recorded->count, (int64_t)variable->count);
    for (int64_t i = 0; i < recorded->count; i++) largest = fmax(largest, fabs((double)recorded->values[i]));
    for (int64_t i = 0; i < recorded->count; i++)
        ck_assert_msg(fabs((double)(values[i] - recorded->values[i])) <= tolerance * largest,
                      "%s: %s[%lld] is %.9g, but must be %.9g", name, variable->name, (long long)i, (double)values[i],
                      (double)recorded->values[i]);
}

/* Each case twice: as recorded, and so large that ops over images go over the batch in parts, with longer sums. */
TEST_EACH(every_layer_equals_keras, 2 * COUNT_OF(cases)) {
    bool large = _i % 2;
    const char *name = cases[_i / 2].name;
    ls_layer layers[16];
    struct golden *golden = golden_open("layers.txt");
    struct replica replica =
        repeated_replica(layers, whole_network(cases[_i / 2].layers, layers), LS_SHAPE(6, 5, 3), 4, large ? 768 : 1);
    check_inference(&replica, golden, name, 2e-6);
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    check_loss(&replica, golden, name, "loss", 2e-6);
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        float *change = replica.gradients + variable->offset, *moved = replica.parameters + variable->offset;
        for (size_t i = 0; !variable->trained && i < variable->count; i++) moved[i] += change[i];
        if (strcmp(variable->name, "dense/kernel") != 0)
            check_variable(golden, name, variable, variable->trained ? change : moved,
                           (large ? 1e-4 : 1e-5) * rounding());
    }
    free_replica(&replica);
    golden_close(golden);
}

/* ---- networks ---- */

/* Errors of all gradients together, relative to their whole length; the statistics' each. */
static void check_lengths(const struct replica *replica, const struct golden_tensor *recorded, double tolerance) {
    const struct ls_network_variable *sorted[512];
    int count = ls_network_variable_count(replica->network);
    double error = 0, whole = 0;
    ck_assert_int_eq(recorded->shape.dims[0], count);
    for (int v = 0; v < count; v++) sorted[v] = ls_network_variable(replica->network, v);
    qsort(sorted, (size_t)count, sizeof(sorted[0]), by_name);
    for (int v = 0; v < count; v++) {
        double lengths[2], wanted = (double)recorded->values[2 * v], along = (double)recorded->values[2 * v + 1];
        const float *blob = sorted[v]->trained ? replica->gradients : replica->parameters;
        measure(sorted[v], blob + sorted[v]->offset, lengths);
        if (sorted[v]->trained) {
            error += pow(lengths[0] - wanted, 2) + pow(lengths[1] - along, 2);
            whole += wanted * wanted;
        } else {
            ck_assert_msg(fabs(lengths[0] - wanted) + fabs(lengths[1] - along) <= 1e-4 * wanted, "%s has length %g",
                          sorted[v]->name, lengths[0]);
        }
    }
    ck_assert_msg(sqrt(error / whole) <= tolerance, "gradients differ by %g", sqrt(error / whole));
}

static const struct {
    const char *name;
    float alpha;
    int64_t size, rows;
    double inference_tolerance, loss_tolerance; /* what batch normalizations over few elements make of rounding */
} networks[] = {{"mobilenet_v2", 0.35F, 33, 4, 1e-6, 1e-6}, {"resnet50", 0, 64, 8, 2e-6, 1e-5}};

static void check_counts(const struct ls_network *network, const struct golden_tensor *recorded) {
    int64_t all = 0, moved = 0;
    for (int v = 0; v < ls_network_variable_count(network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(network, v);
        all += (int64_t)variable->count;
        moved += variable->trained ? 0 : (int64_t)variable->count;
    }
    ck_assert_int_eq(all, (int64_t)recorded->values[0]);
    ck_assert_int_eq(moved, (int64_t)recorded->values[1]);
}

TEST_EACH(every_network_equals_keras, COUNT_OF(networks)) {
    const char *name = networks[_i].name;
    int64_t size = networks[_i].size;
    struct golden *golden = golden_open("networks.txt"), *exact = golden_open("exact.txt");
    struct replica replica = new_application(name, networks[_i].alpha, LS_SHAPE(size, size, 3), networks[_i].rows);
    check_counts(replica.network, golden_find(golden, "%s/counts", name));
    check_inference(&replica, exact, name, networks[_i].inference_tolerance * rounding());
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    bool other = getenv("LOCKSTEP_TEST_DEVICE"); /* which rounds otherwise than the CPU: as one without AVX-512 */
    double tolerance = networks[_i].loss_tolerance * (other ? 4 : rounding());
    check_loss(&replica, exact, name, "loss", other ? fmax(tolerance, 1e-5) : tolerance);
    size_t trainable = ls_network_trainable_count(replica.network);
    for (size_t i = trainable; i < replica.blob; i++) replica.parameters[i] += replica.gradients[i];
    check_lengths(&replica, golden_find(golden, "%s/gradients", name), 5e-2);
    free_replica(&replica);
    golden_close(golden);
    golden_close(exact);
}

TEST(mobilenet_v2_has_the_variables_of_keras) {
    struct golden *golden = golden_open("networks.txt");
    struct ls_network *network = NULL;
    ls_layer *layers = NULL;
    size_t count = 0;
    assert_ok(ls_application("mobilenet_v2", LS_APPLICATION(.classes = 2), &layers, &count));
    assert_ok(ls_network_new(layers, count, &LS_SHAPE(224, 224, 3), &network));
    check_counts(network, golden_find(golden, "mobilenet_v2/full"));
    ls_network_free(network);
    ls_free(layers);
    golden_close(golden);
}

TESTS("keras", .seconds = 60)
