/* Attention and embeddings of positions: against torch, and with what their fields may be. */
#include "golden/golden.h"
#include "model/model_fixture.h"

static const struct {
    const char *name;
    struct ls_attention asked;
} cases[] = {
    {"plain", {2, 2, true}},           {"grouped", {4, 2, true}},         {"rope", {2, 2, true, 0, true}},
    {"window", {2, 1, true, 5, true}}, {"whole", {2, 1, false, 0, true}}, {"blocks", {2, 1, true, 0, true}},
};

static struct ls_tensor recorded_tensor(const struct golden *golden, const char *which, const char *name) {
    const struct golden_tensor *recorded = golden_find(golden, "%s/%s", which, name);
    return (struct ls_tensor){recorded->values, LS_FLOAT32, recorded->shape};
}

static void run_attention(struct ls_device *device, struct ls_op op, enum ls_op_kind kind) {
    op.kind = kind;
    assert_ok(device->ops->build(device, &op));
    op.workspace = ls_alloc_aligned(op.workspace_size);
    ck_assert_ptr_nonnull(op.workspace);
    assert_ok(op.run(&op));
    ls_free(op.workspace);
    device->ops->discard(device, &op);
}

TEST_EACH(attention_and_its_gradient_equal_torch, (int)COUNT_OF(cases)) {
    const char *name = cases[_i].name;
    struct golden *golden = golden_open("attention.txt"), *wanted = golden_open("attention.txt");
    struct ls_device *device = open_cpu();
    struct ls_op op = {.attention = cases[_i].asked};
    op.tensors[LS_ARG_X] = recorded_tensor(golden, name, "x"),
    op.tensors[LS_ARG_Y] = recorded_tensor(golden, name, "y");
    op.tensors[LS_ARG_DX] = recorded_tensor(golden, name, "dx");
    op.tensors[LS_ARG_DY] = recorded_tensor(golden, name, "dy");
    const ls_shape shape = op.tensors[LS_ARG_Y].shape;
    float *saved = new_floats(shape.dims[0] * shape.dims[1] * op.attention.heads);
    op.tensors[LS_ARG_SAVED] =
        (struct ls_tensor){saved, LS_FLOAT32, LS_SHAPE(shape.dims[0], op.attention.heads, shape.dims[1])};
    memset(op.tensors[LS_ARG_Y].data, 0xFF, (size_t)ls_shape_count(&shape) * sizeof(float));
    memset(op.tensors[LS_ARG_DX].data, 0xFF, (size_t)ls_shape_count(&op.tensors[LS_ARG_DX].shape) * sizeof(float));
    run_attention(device, op, LS_OP_ATTENTION_FORWARD);
    run_attention(device, op, LS_OP_ATTENTION_BACKWARD);
    const struct golden_tensor *y = golden_find(wanted, "%s/y", name), *dx = golden_find(wanted, "%s/dx", name);
    assert_near("y", op.tensors[LS_ARG_Y].data, y->values, y->count, 2e-6);
    assert_near("dx", op.tensors[LS_ARG_DX].data, dx->values, dx->count, 2e-6);
    ls_free(saved);
    ls_device_close(device);
    golden_close(golden), golden_close(wanted);
}

static const ls_layer network[] = {
    ls_position_embedding(),
    ls_dense(16, .per_position = true, .name = "qkv"),
    ls_attention(4, .kv_heads = 2, .window = 4, .rope = true),
    ls_dense(4, LS_RELU, .per_position = true, .name = "output"),
    ls_dense(3, .name = "head"),
};

static void load_variables(struct replica *replica, const struct golden *golden) {
    for (int v = 0; v < ls_network_variable_count(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        const struct golden_tensor *recorded = golden_find(golden, "network/%s", variable->name);
        ck_assert(ls_shape_equal(&recorded->shape, &variable->shape));
        memcpy(replica->parameters + variable->offset, recorded->values, variable->count * sizeof(float));
    }
}

static struct replica recorded_replica(const struct golden *golden) {
    const struct golden_tensor *x = golden_find(golden, "network/x"), *labels = golden_find(golden, "network/labels");
    struct replica replica = new_replica(network, COUNT_OF(network), LS_SHAPE(7, 6), 5);
    memcpy(replica.features, x->values, (size_t)x->count * sizeof(float));
    for (int64_t i = 0; i < 5; i++) replica.labels[i] = (int32_t)labels->values[i];
    load_variables(&replica, golden);
    return replica;
}

TEST(a_network_with_attention_equals_torch) {
    struct golden *golden = golden_open("attention.txt");
    struct replica replica = recorded_replica(golden);
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    float loss = (float)(replica.sums.loss / 5);
    assert_near("loss", &loss, golden_find(golden, "network/loss")->values, 1, 1e-6);
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        const struct golden_tensor *wanted = golden_find(golden, "network/gradient/%s", variable->name);
        assert_near(variable->name, replica.gradients + variable->offset, wanted->values, wanted->count, 5e-6);
    }
    free_replica(&replica);
    golden_close(golden);
}

/* An evaluation keeps no logarithms, and has the loss of a training. */
TEST(an_evaluation_has_the_loss_of_a_training) {
    struct golden *golden = golden_open("attention.txt");
    struct replica replica = recorded_replica(golden);
    check_evaluation(&replica);
    free_replica(&replica);
    golden_close(golden);
}

/* In float32: a larger step, and a wider limit, than the oracle's own test has. */
TEST(gradients_agree_with_finite_differences) {
    const float step = 1.0F / 128;
    struct golden *golden = golden_open("attention.txt");
    struct replica replica = recorded_replica(golden);
    const struct ls_network_variable *table = ls_network_variable(replica.network, 0);
    float *gradients = new_floats((int64_t)table->count);
    (void)loss_of(&replica);
    memcpy(gradients, replica.gradients + table->offset, table->count * sizeof(float));
    for (size_t i = 0; i < table->count; i += 5) {
        float *value = replica.parameters + table->offset + i, held = *value;
        *value = held + step;
        double above = loss_of(&replica);
        *value = held - step;
        double slope = (above - loss_of(&replica)) / (2 * (double)step);
        *value = held;
        ck_assert_msg(fabs(slope - (double)gradients[i]) <= 1e-3, "%s[%zu]: slope %.6g, gradient %.6g", table->name, i,
                      slope, (double)gradients[i]);
    }
    ls_free(gradients);
    free_replica(&replica);
    golden_close(golden);
}

TEST_EACH(what_cannot_be_is_refused, 13) {
    static const struct {
        ls_layer layer;
        ls_shape input;
        const char *text;
    } rows[] = {
        {ls_attention(0), {2, {4, 6}}, "layer 0 (attention): heads 0 must be 1 or more"},
        {ls_attention(-2), {2, {4, 6}}, "heads -2 must be 1 or more"},
        {ls_attention(3, .kv_heads = 2), {2, {4, 7}}, "kv_heads 2 must divide heads 3, or be 0 for as many"},
        {ls_attention(2, .kv_heads = -1), {2, {4, 6}}, "kv_heads -1 must divide heads 2"},
        {ls_attention(2, .window = -1), {2, {4, 6}}, "window -1 must be 1 or more, or 0 for none"},
        {ls_attention(2, .window = 3, .no_causal_mask = true), {2, {4, 6}}, "window 3 is of a causal mask"},
        {ls_attention(2), {1, {6}}, "it takes (positions, channels), and gets 1 axes"},
        {ls_attention(2), {2, {4, 8}}, "its input has 8 channels, which heads 2 and twice kv_heads 2 do not divide"},
        {ls_attention(2, .rope = true), {2, {4, 6}}, "rope turns pairs, and a head has 1 channels"},
        {ls_attention(2, .rope_theta = 500000),
         {2, {4, 12}},
         "rope_theta 500000 is of rope; set it, or leave this out"},
        {ls_attention(2, .rope = true, .rope_theta = 0.5F),
         {2, {4, 12}},
         "rope_theta 0.5 must be 1 to 1e+12, or 0 for"},
        {ls_attention(2, .rope = true, .rope_theta = NAN), {2, {4, 12}}, "rope_theta nan must be 1"},
        {ls_attention(2, .units = 4), {2, {4, 6}}, "this kind of layer has no units"},
        {ls_position_embedding(), {3, {4, 4, 2}}, "layer 0 (position_embedding): it takes (positions, channels)"},
        {ls_position_embedding(.kernel_initializer = (ls_initializer)99), {2, {4, 6}}, "kernel_initializer 99"},
        {ls_position_embedding(.heads = 2), {2, {4, 6}}, "this kind of layer has no heads"},
    };
    struct ls_network *made = NULL;
    assert_refused(ls_network_new(&rows[_i].layer, 1, &rows[_i].input, &made), rows[_i].text);
    ck_assert_ptr_null(made);
}

TEST(a_frozen_table_has_no_gradient) {
    const ls_layer layers[] = {ls_position_embedding(.frozen = true), ls_dense(3)};
    struct replica replica = new_replica(layers, COUNT_OF(layers), LS_SHAPE(4, 2), 2);
    ck_assert(!ls_network_variable(replica.network, ls_network_variable_count(replica.network) - 1)->trained);
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ck_assert(replica.sums.loss > 0);
    free_replica(&replica);
}

TESTS("model/attention", .seconds = 60)
