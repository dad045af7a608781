/* Gradients of every layer and loss, in three steps: the double oracle's agree with finite differences of its loss; the
 * device's agree with the oracle's; and both with what TensorFlow recorded. */
#include <stdio.h>

#include "golden/golden.h"
#include "harness.h"
#include "model/model_fixture.h"
#include "model/plan_run.h"
#include "model/reference_network.h"

#define FLOOR      0.01
#define DIFFERENCE 1e-5 /* step of central differences; their error is its square */

static const struct net {
    ls_layer layers[6];
    size_t count;
    ls_shape input;
    int64_t rows;
} nets[] = {
    {{ls_dense(3)}, 1, {1, {4}}, 5},
    {{ls_dense(1)}, 1, {1, {1}}, 1},
    {{ls_dense(6, LS_RELU), ls_dense(4)}, 2, {1, {5}}, 7},
    {{ls_dense(6, LS_RELU), ls_dense(7, LS_RELU), ls_dense(4)}, 3, {3, {2, 3, 2}}, 6},
    {{ls_flatten(), ls_dense(5), ls_relu(), ls_dense(3)}, 4, {2, {3, 3}}, 4},
    {{ls_dense(6, LS_RELU, .no_bias = true), ls_dense(5), ls_dense(4, .no_bias = true)}, 3, {1, {5}}, 7},
    {{ls_relu(), ls_dense(5), ls_relu()}, 3, {1, {6}}, 9},
    {{ls_dense(6, LS_GELU), ls_dense(5, LS_SILU), ls_dense(4, LS_GELU_TANH)}, 3, {1, {5}}, 7},
    {{ls_dense(6, LS_GELU_TANH, .no_bias = true), ls_dense(5, LS_GELU), ls_dense(3)}, 3, {2, {2, 3}}, 6},
    {{ls_dense(6), ls_activation(LS_GELU), ls_dense(5), ls_activation(LS_SILU), ls_dense(3)}, 5, {1, {4}}, 1},
    {{ls_dense(4), ls_activation(LS_GELU_TANH), ls_dense(4), ls_activation(LS_TANH), ls_dense(3)}, 5, {1, {4}}, 3},
    {{ls_layer_normalization(), ls_dense(4, LS_GELU), ls_layer_normalization(), ls_dense(3)}, 4, {2, {3, 5}}, 6},
    {{ls_rms_normalization(), ls_dense(4, LS_SILU), ls_rms_normalization(), ls_dense(3)}, 4, {2, {3, 5}}, 6},
    {{ls_dense(7), ls_layer_normalization(.no_scale = true, .epsilon = 0.1F), ls_dense(6),
      ls_layer_normalization(.no_center = true), ls_dense(5), ls_rms_normalization(.no_scale = true)},
     6,
     {1, {3}},
     1},
    {{ls_layer_normalization(), ls_rms_normalization(), ls_layer_normalization(.no_scale = true, .no_center = true),
      ls_dense(3)},
     4,
     {1, {300}},
     130},
    {{ls_dense(1), ls_layer_normalization(), ls_dense(2), ls_rms_normalization(), ls_dense(3)}, 5, {1, {4}}, 5},
    {{ls_dense(5, LS_RELU), ls_flatten(), {.kind = LS_LAYER_ACTIVATION}, ls_dense(3), ls_flatten()}, 5, {1, {2}}, 8},
};
static const ls_loss losses[] = {LS_SPARSE_CATEGORICAL_CROSSENTROPY, LS_CATEGORICAL_CROSSENTROPY};

struct oracle {
    struct reference_network run;
    double *features, *parameters, *gradients;
};

static double *as_doubles(const float *floats, size_t count) {
    double *doubles = ls_alloc_array(count, sizeof(double));
    ck_assert_ptr_nonnull(doubles);
    for (size_t i = 0; i < count; i++) doubles[i] = (double)floats[i];
    return doubles;
}

static struct oracle new_oracle(const struct replica *replica, const struct net *net, ls_loss loss) {
    struct oracle oracle = {
        .features = as_doubles(replica->features, (size_t)(replica->rows * ls_shape_count(&replica->input))),
        .parameters = as_doubles(replica->parameters, replica->blob),
        .gradients = as_doubles(replica->gradients, replica->blob)};
    oracle.run = (struct reference_network){.network = replica->network,
                                            .layers = net->layers,
                                            .count = net->count,
                                            .input = net->input,
                                            .loss = loss,
                                            .rows = replica->rows,
                                            .scale = (double)replica->scale,
                                            .features = oracle.features,
                                            .labels = replica->labels};
    return oracle;
}

static void free_oracle(struct oracle *oracle) {
    ls_free(oracle->features);
    ls_free(oracle->parameters);
    ls_free(oracle->gradients);
}

static double slope(const struct oracle *oracle, size_t i) {
    double held = oracle->parameters[i];
    oracle->parameters[i] = held + DIFFERENCE;
    double above = reference_network_run(&oracle->run, oracle->parameters, NULL);
    oracle->parameters[i] = held - DIFFERENCE;
    double below = reference_network_run(&oracle->run, oracle->parameters, NULL);
    oracle->parameters[i] = held;
    return (above - below) / (2 * DIFFERENCE);
}

static void check_differences(const struct oracle *oracle, const struct ls_network_variable *variable) {
    for (size_t i = variable->offset; i < variable->offset + variable->count; i++) {
        double difference = slope(oracle, i);
        ck_assert_msg(fabs(difference - oracle->gradients[i]) <= 1e-8, "%s[%zu]: slope %.12g, gradient %.12g",
                      variable->name, i - variable->offset, difference, oracle->gradients[i]);
    }
}

/* Each variable by itself, so that small gradients are not hidden by large ones; below FLOOR rounding decides. */
static void check_variable(const struct replica *replica, const struct oracle *oracle, int index) {
    const struct ls_network_variable *variable = ls_network_variable(replica->network, index);
    float *wanted = new_floats((int64_t)variable->count);
    double largest = FLOOR;
    for (size_t i = 0; i < variable->count; i++) {
        wanted[i] = (float)oracle->gradients[variable->offset + i];
        largest = fmax(largest, fabs((double)wanted[i]));
    }
    for (size_t i = 0; i < variable->count; i++) {
        double is = (double)replica->gradients[variable->offset + i];
        ck_assert_msg(fabs(is - (double)wanted[i]) <= 1e-5 * largest, "%s[%zu] is %.9g, but must be %.9g",
                      variable->name, i, is, (double)wanted[i]);
    }
    ls_free(wanted);
}

static void check_net(const struct net *net, ls_loss loss) {
    struct replica replica = new_replica(net->layers, net->count, net->input, net->rows);
    struct oracle oracle = new_oracle(&replica, net, loss);
    double wanted = reference_network_run(&oracle.run, oracle.parameters, oracle.gradients);
    run_once(&replica, loss);
    ck_assert_double_le(fabs(replica.sums.loss * (double)replica.scale - wanted), 1e-6 * fabs(wanted));
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        check_differences(&oracle, ls_network_variable(replica.network, v));
        check_variable(&replica, &oracle, v);
    }
    free_oracle(&oracle);
    free_replica(&replica);
}

TEST_EACH(gradients_agree_with_finite_differences, (int)(2 * COUNT_OF(nets))) {
    check_net(&nets[_i / 2], losses[_i % 2]);
}

/* Without kinks, which differences may straddle, and with epsilons that float32 can do with. */
static ls_layer draw_layer(uint64_t seed, uint64_t stream, bool *dense) {
    static const ls_activation smooth[] = {LS_LINEAR, LS_SIGMOID, LS_TANH, LS_GELU, LS_GELU_TANH, LS_SILU};
    uint64_t bits = ls_random_bits(seed, stream, 0);
    ls_activation activation = smooth[bits / 8 % COUNT_OF(smooth)];
    bool first = bits / 64 % 2, second = bits / 128 % 2;
    *dense = bits % 8 < 4;
    if (*dense) return (ls_layer)ls_dense(1 + (int)(bits / 256 % 9), activation, .no_bias = first);
    if (bits % 8 < 6) return (ls_layer)ls_activation(activation);
    if (bits % 8 < 7) return (ls_layer)ls_rms_normalization(.epsilon = 0.5F, .no_scale = first);
    return (ls_layer)ls_layer_normalization(.epsilon = 0.5F, .no_scale = first, .no_center = second);
}

TEST(gradients_of_drawn_networks_agree_with_differences) {
    uint64_t seed = first_seed();
    for (uint64_t round = 0; round < 40; round++) {
        uint64_t bits = ls_random_bits(seed, 1, round);
        bool dense;
        struct net net = {.count = 2 + bits % 4, .input = LS_SHAPE(1 + (int64_t)(bits / 8 % 12))};
        net.rows = 1 + (int64_t)(bits / 256 % 20);
        for (size_t i = 0; i < net.count; i++) net.layers[i] = draw_layer(seed, 2 + round * 8 + i, &dense);
        net.layers[net.count++] = (ls_layer)ls_dense(3);
        check_net(&net, losses[round % 2]);
    }
}

static const ls_layer mlp[] = {ls_flatten(), ls_dense(9, LS_RELU), ls_dense(7, LS_RELU), ls_dense(5)};

static void load_batch(struct replica *replica, const struct golden *golden) {
    const struct golden_tensor *x = golden_find(golden, "x"), *labels = golden_find(golden, "labels");
    memcpy(replica->features, x->values, (size_t)x->count * sizeof(float));
    for (int64_t i = 0; i < replica->rows; i++) replica->labels[i] = (int32_t)labels->values[i];
}

static void load_parameters(struct replica *replica, const struct golden *golden, const char *prefix) {
    for (int v = 0; v < ls_network_variable_count(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        const struct golden_tensor *recorded = golden_find(golden, "%s%s", prefix, variable->name);
        ck_assert(ls_shape_equal(&recorded->shape, &variable->shape));
        memcpy(replica->parameters + variable->offset, recorded->values, variable->count * sizeof(float));
    }
}

static void check_recorded(const struct replica *replica, const struct golden *golden, const char *prefix,
                           const float *blob) {
    for (int v = 0; v < ls_network_variable_count(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        const struct golden_tensor *recorded = golden_find(golden, "%s%s", prefix, variable->name);
        assert_near(variable->name, blob + variable->offset, recorded->values, recorded->count, 1e-5);
    }
}

TEST_EACH(gradients_of_an_mlp_equal_tensorflow, 2) {
    static const char *const names[] = {"sparse", "categorical"};
    char prefix[32];
    struct golden *golden = golden_open("mlp.txt");
    struct replica replica = new_replica(mlp, COUNT_OF(mlp), LS_SHAPE(3, 4), 6);
    load_batch(&replica, golden);
    load_parameters(&replica, golden, "");
    run_once(&replica, losses[_i]);
    float loss = (float)(replica.sums.loss / 6);
    assert_near("loss", &loss, golden_find(golden, "%s/loss", names[_i])->values, 1, 1e-6);
    (void)snprintf(prefix, sizeof(prefix), "%s/", names[_i]);
    check_recorded(&replica, golden, prefix, replica.gradients);
    free_replica(&replica);
    golden_close(golden);
}

TEST(a_training_equals_tensorflow) {
    struct golden *golden = golden_open("training.txt");
    struct replica replica = new_replica(mlp, COUNT_OF(mlp), LS_SHAPE(3, 4), 16);
    struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = NULL;
    struct ls_optimizer_step step = {ls_sgd(0.1F, .momentum = 0.9F), 1};
    float *moments[2] = {new_floats((int64_t)replica.blob), NULL}, losses_seen[20];
    struct ls_op update;
    load_batch(&replica, golden);
    load_parameters(&replica, golden, "initial/");
    assert_ok(ls_plan_new(&config, &plan));
    const struct ls_optimizer_blobs blobs = {.count = replica.blob,
                                             .parameters = replica.parameters,
                                             .gradients = replica.gradients,
                                             .moments = {moments[0]}};
    assert_ok(ls_optimizer_build(replica.device, &step, &blobs, &update));
    for (int i = 0; i < 20; i++, step.iteration++) {
        assert_ok(ls_plan_run(plan, NULL, NULL));
        assert_ok(update.run(&update));
        losses_seen[i] = (float)(replica.sums.loss / 16);
    }
    assert_near("losses", losses_seen, golden_find(golden, "losses")->values, 20, 1e-5);
    check_recorded(&replica, golden, "final/", replica.parameters);
    replica.device->ops->discard(replica.device, &update);
    ls_plan_free(plan);
    ls_free(moments[0]);
    free_replica(&replica);
    golden_close(golden);
}

static struct ls_tensor recorded_tensor(const struct golden *golden, const char *activation, const char *name) {
    const struct golden_tensor *recorded = golden_find(golden, "%s/%s", activation, name);
    return (struct ls_tensor){recorded->values, LS_FLOAT32, recorded->shape};
}

static void run_dense(struct ls_device *device, enum ls_op_kind kind, struct ls_op *op) {
    op->kind = kind;
    assert_ok(device->ops->build(device, op));
    assert_ok(op->run(op));
    device->ops->discard(device, op);
}

TEST_EACH(a_dense_layer_equals_tensorflow, 2) {
    static const char *const activations[] = {"linear", "relu"};
    static const char *const names[] = {"x", "w", "b", "y", "dy", "dx", "dw", "db"}; /* LS_ARG_X ... LS_ARG_DB */
    struct golden *golden = golden_open("dense.txt"), *wanted = golden_open("dense.txt");
    struct ls_device *device = open_cpu();
    struct ls_op op = {.activation = _i ? LS_RELU : LS_LINEAR};
    static const int made[] = {LS_ARG_Y, LS_ARG_DX, LS_ARG_DW, LS_ARG_DB};
    for (size_t i = 0; i < COUNT_OF(names); i++) op.tensors[i] = recorded_tensor(golden, activations[_i], names[i]);
    for (size_t i = 0; i < COUNT_OF(made); i++)
        memset(op.tensors[made[i]].data, 0xFF, (size_t)ls_shape_count(&op.tensors[made[i]].shape) * sizeof(float));
    run_dense(device, LS_OP_DENSE_FORWARD, &op);
    run_dense(device, LS_OP_DENSE_BACKWARD, &op);
    for (size_t i = 0; i < COUNT_OF(made); i++) {
        const struct golden_tensor *recorded = golden_find(wanted, "%s/%s", activations[_i], names[made[i]]);
        assert_near(recorded->name, op.tensors[made[i]].data, recorded->values, recorded->count, 1e-5);
    }
    ls_device_close(device);
    golden_close(golden);
    golden_close(wanted);
}

TESTS("gradient", .seconds = 60)
