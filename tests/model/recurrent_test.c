/* LSTM, GRU, Conv1D and pools over time: against Keras, differences in float32, and what their fields may be. */
#include <stdio.h>

#include "golden/golden.h"
#include "model/model_fixture.h"

#define POSITIONS 11
#define CHANNELS  4
#define ROWS      5

/* As in tests/golden/record_recurrent.py. */
static const struct {
    const char *name;
    ls_layer layers[6];
    size_t count;
} nets[] = {
    {"lstm", {ls_lstm(5, .return_sequences = true, .name = "a"), ls_lstm(6, .name = "b"), ls_dense(3)}, 3},
    {"gru", {ls_gru(5, .return_sequences = true, .name = "a"), ls_gru(6, .name = "b"), ls_dense(3)}, 3},
    {"no_bias",
     {ls_lstm(4, .no_bias = true, .return_sequences = true, .name = "a"), ls_gru(3, .no_bias = true, .name = "b"),
      ls_dense(3)},
     3},
    {"valid",
     {ls_conv1d(6, 3, .name = "a"), ls_max_pooling1d(0), ls_conv1d(4, 2, 2, .name = "b"), ls_flatten(), ls_dense(3)},
     5},
    {"same",
     {ls_conv1d(6, 4, 2, LS_SAME, .activation = LS_RELU, .name = "a"), ls_average_pooling1d(3, 2),
      ls_conv1d(6, 2, .padding = LS_SAME, .groups = 2, .name = "b"), ls_global_average_pooling1d(), ls_dense(3)},
     5},
    {"causal",
     {ls_conv1d(6, 3, .padding = LS_CAUSAL, .dilation_rate = 2, .activation = LS_TANH, .name = "a"),
      ls_max_pooling1d(2, 1, LS_SAME), ls_conv1d(5, 2, .padding = LS_CAUSAL, .no_bias = true, .name = "b"),
      ls_global_max_pooling1d(), ls_dense(3)},
     5},
    {"mixed",
     {ls_conv1d(6, 3, .padding = LS_SAME, .activation = LS_TANH, .name = "a"), ls_max_pooling1d(2),
      ls_gru(5, .return_sequences = true, .name = "b"), ls_average_pooling1d(2), ls_lstm(4, .name = "c"), ls_dense(3)},
     6},
};
#define NET_COUNT ((int)(sizeof(nets) / sizeof(nets[0])))

/* The last layer is called head there. */
static struct replica recorded_replica(const struct golden *golden, int net) {
    const struct golden_tensor *x = golden_find(golden, "%s/x", nets[net].name);
    const struct golden_tensor *labels = golden_find(golden, "%s/labels", nets[net].name);
    ls_layer layers[6];
    memcpy(layers, nets[net].layers, sizeof(layers));
    layers[nets[net].count - 1].name = "head";
    struct replica replica = new_replica(layers, nets[net].count, LS_SHAPE(POSITIONS, CHANNELS), ROWS);
    memcpy(replica.features, x->values, (size_t)x->count * sizeof(float));
    for (int64_t i = 0; i < ROWS; i++) replica.labels[i] = (int32_t)labels->values[i];
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        const struct golden_tensor *recorded = golden_find(golden, "%s/%s", nets[net].name, variable->name);
        ck_assert(ls_shape_equal(&recorded->shape, &variable->shape));
        memcpy(replica.parameters + variable->offset, recorded->values, variable->count * sizeof(float));
    }
    return replica;
}

TEST_EACH(loss_and_gradients_equal_keras, NET_COUNT) {
    struct golden *golden = golden_open("recurrent.txt");
    struct replica replica = recorded_replica(golden, _i);
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    float loss = (float)(replica.sums.loss / ROWS);
    assert_near("loss", &loss, golden_find(golden, "%s/loss", nets[_i].name)->values, 1, 2e-6);
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        const struct golden_tensor *wanted = golden_find(golden, "%s/gradient/%s", nets[_i].name, variable->name);
        assert_near(variable->name, replica.gradients + variable->offset, wanted->values, wanted->count, 1e-5);
    }
    free_replica(&replica);
    golden_close(golden);
}

/* An evaluation keeps nothing for backward. */
TEST_EACH(an_evaluation_has_the_loss_of_a_training, NET_COUNT) {
    struct golden *golden = golden_open("recurrent.txt");
    struct replica replica = recorded_replica(golden, _i);
    check_evaluation(&replica);
    free_replica(&replica);
    golden_close(golden);
}

/* In float32: a larger step, and a wider limit, than the oracle's own test of the ops has. */
static void check_differences(struct replica *replica, const struct ls_network_variable *variable) {
    const float step = 1.0F / 128;
    float *gradients = new_floats((int64_t)variable->count);
    (void)loss_of(replica);
    memcpy(gradients, replica->gradients + variable->offset, variable->count * sizeof(float));
    for (size_t i = 0; i < variable->count; i += 1 + variable->count / 8) {
        float *value = replica->parameters + variable->offset + i, held = *value;
        *value = held + step;
        double above = loss_of(replica);
        *value = held - step;
        double slope = (above - loss_of(replica)) / (2 * (double)step);
        *value = held;
        ck_assert_msg(fabs(slope - (double)gradients[i]) <= 1e-3, "%s[%zu]: slope %.6g, gradient %.6g", variable->name,
                      i, slope, (double)gradients[i]);
    }
    ls_free(gradients);
}

/* One position, one unit, one row, and a gradient that goes on to a layer before. */
TEST_EACH(gradients_agree_with_finite_differences, 6) {
    static const struct {
        ls_layer layer;
        int64_t positions, rows;
    } rows[] = {{ls_lstm(4), 1, 3},
                {ls_gru(4), 1, 3},
                {ls_lstm(1), 6, 1},
                {ls_gru(1), 6, 1},
                {ls_lstm(9, .return_sequences = true), 5, 9},
                {ls_gru(9, .return_sequences = true), 5, 9}};
    const ls_layer layers[] = {ls_dense(3, LS_TANH, .per_position = true), rows[_i].layer, ls_dense(3)};
    struct replica replica = new_replica(layers, COUNT_OF(layers), LS_SHAPE(rows[_i].positions, 2), rows[_i].rows);
    for (int v = 0; v < ls_network_variable_count(replica.network); v++)
        check_differences(&replica, ls_network_variable(replica.network, v));
    free_replica(&replica);
}

/* Without kinks, which differences may straddle. All but the last layer give sequences. */
static ls_layer draw_layer(uint64_t seed, uint64_t stream, bool last) {
    uint64_t bits[5];
    for (uint64_t i = 0; i < 5; i++) bits[i] = ls_random_bits(seed, stream, i);
    int units = 1 + (int)(bits[1] % 6);
    bool no_bias = bits[2] % 3 == 0;
    ls_initializer initializer = bits[3] % 3 ? LS_GLOROT_UNIFORM : LS_ORTHOGONAL;
    switch (bits[0] % 4) {
    case 0:
        return (ls_layer)ls_lstm(units, .no_bias = no_bias, .return_sequences = !last,
                                 .kernel_initializer = initializer);
    case 1:
        return (ls_layer)ls_gru(units, .no_bias = no_bias, .return_sequences = !last,
                                .kernel_initializer = initializer);
    case 2:
        return last ? (ls_layer)ls_global_average_pooling1d()
                    : (ls_layer)ls_average_pooling1d(1 + (int)(bits[1] % 3), 1 + (int)(bits[2] % 2),
                                                     bits[3] % 2 ? LS_SAME : LS_VALID);
    default:
        return (ls_layer)ls_conv1d(2 * units, 1 + (int)(bits[2] / 3 % 3), .no_bias = no_bias,
                                   .padding = bits[3] / 3 % 2 ? LS_CAUSAL : LS_SAME, .groups = 1 + (int)(bits[4] % 2),
                                   .dilation_rate = 1 + (int)(bits[4] / 2 % 2), .activation = LS_TANH,
                                   .kernel_initializer = initializer);
    }
}

/* A layer of two channels, with which groups of two are possible, stands before each drawn one. */
TEST(gradients_of_drawn_networks_agree_with_differences) {
    uint64_t seed = first_seed();
    for (uint64_t i = 0; i < 15; i++) {
        ls_layer layers[7];
        size_t count = 0, drawn = 1 + ls_random_bits(seed, 1, i) % 3;
        for (size_t k = 0; k < drawn; k++) {
            layers[count++] = (ls_layer)ls_dense(2, LS_TANH, .per_position = true);
            layers[count++] = draw_layer(seed, 2 + 3 * i + k, k + 1 == drawn);
        }
        layers[count++] = (ls_layer)ls_dense(3);
        struct replica replica = new_replica(layers, count, LS_SHAPE(9, 3), 1 + (int64_t)(i % 4));
        for (int v = 0; v < ls_network_variable_count(replica.network); v++)
            check_differences(&replica, ls_network_variable(replica.network, v));
        free_replica(&replica);
    }
}

TEST_EACH(what_cannot_be_is_refused, 14) {
    static const struct {
        ls_layer layer;
        ls_shape input;
        const char *text;
    } rows[] = {
        {ls_lstm(0), {2, {4, 6}}, "layer 0 (lstm): units 0 must be 1 or more"},
        {ls_gru(-3), {2, {4, 6}}, "layer 0 (gru): units -3 must be 1 or more"},
        {ls_lstm(3), {1, {6}}, "layer 0 (lstm): it takes (positions, channels), and gets 1 axes"},
        {ls_gru(3), {3, {4, 4, 2}}, "layer 0 (gru): it takes (positions, channels), and gets 3 axes"},
        {ls_lstm(3, .activation = LS_RELU), {2, {4, 6}}, "this kind of layer has no activation"},
        {ls_dense(3, .return_sequences = true), {2, {4, 6}}, "this kind of layer has no return_sequences"},
        {ls_gru(3, .kernel_initializer = (ls_initializer)99), {2, {4, 6}}, "kernel_initializer 99 is no"},
        {ls_conv1d(3, 0), {2, {4, 6}}, "layer 0 (conv1d): kernel_size 0 must be 1 or more"},
        {ls_conv1d(3, 5), {2, {4, 6}}, "its window of 5 by 1 does not fit into an image of 4 by 1"},
        {ls_conv1d(3, 2, .kernel_width = 2), {2, {4, 6}}, "this kind of layer has no kernel_width"},
        {ls_conv1d(3, 2), {3, {4, 4, 2}}, "layer 0 (conv1d): it takes (n, channels), and gets 3 axes"},
        {ls_conv2d(3, 2, .padding = LS_CAUSAL), {3, {4, 4, 2}}, "LS_CAUSAL padding is for conv1d"},
        {ls_max_pooling1d(2, .padding = LS_CAUSAL), {2, {4, 6}}, "LS_CAUSAL padding is for conv1d"},
        {ls_embedding(9, 4, .sparse = true, .kernel_initializer = LS_ORTHOGONAL),
         {1, {6}},
         "LS_ORTHOGONAL makes a whole"},
    };
    struct ls_network *made = NULL;
    assert_refused(ls_network_new(&rows[_i].layer, 1, &rows[_i].input, &made), rows[_i].text);
    ck_assert_ptr_null(made);
}

/* ---- initial values ---- */

static double product_of(const float *a, const float *b, int64_t count, int64_t step) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)a[i * step] * (double)b[i * step];
    return sum;
}

/* Rows of (7, 28), and columns of (12, 3), a kernel of four axes. */
TEST_EACH(orthogonal_kernels_are_orthogonal, 2) {
    const ls_layer layers[] = {_i ? (ls_layer)ls_conv2d(3, 2, .kernel_initializer = LS_ORTHOGONAL)
                                  : (ls_layer)ls_lstm(7)};
    struct replica replica = new_replica(layers, 1, _i ? LS_SHAPE(4, 4, 3) : LS_SHAPE(4, 3), 1);
    const struct ls_network_variable *kernel = ls_network_variable(replica.network, !_i);
    const float *values = replica.parameters + kernel->offset;
    int64_t count = _i ? 3 : 7, length = _i ? 12 : 28, pitch = _i ? 1 : 28, step = _i ? 3 : 1;
    ck_assert_int_eq(kernel->initializer, LS_ORTHOGONAL);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < count; k++) {
            double is = product_of(values + i * pitch, values + k * pitch, length, step);
            ck_assert_double_le(fabs(is - (double)(i == k)), 1e-6);
        }
    free_replica(&replica);
}

/* Keras' unit_forget_bias. */
TEST(an_open_forget_gate_is_where_an_lstm_begins) {
    const ls_layer layers[] = {ls_lstm(5), ls_dense(2)};
    struct ls_network *network = NULL;
    float *blob;
    assert_ok(ls_network_new(layers, 2, &LS_SHAPE(4, 3), &network));
    blob = new_floats((int64_t)ls_network_blob_count(network));
    ls_network_initialize(network, 1, blob);
    const struct ls_network_variable *bias = ls_network_variable(network, 2);
    ck_assert_str_eq(bias->name, "lstm/bias");
    for (size_t i = 0; i < bias->count; i++) ck_assert(blob[bias->offset + i] == (float)(i >= 5 && i < 10));
    ls_free(blob);
    ls_network_free(network);
}

TEST(a_frozen_layer_passes_its_gradient_on) {
    const ls_layer layers[] = {ls_dense(3, .per_position = true), ls_gru(4, .frozen = true), ls_dense(3)};
    struct replica replica = new_replica(layers, COUNT_OF(layers), LS_SHAPE(4, 2), 2);
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        if (variable->trained) check_differences(&replica, variable);
        ck_assert_int_eq(variable->trained, strncmp(variable->name, "gru", 3) != 0);
    }
    free_replica(&replica);
}

TESTS("model/recurrent", .seconds = 60)
