/* Embedding and the mean over its rows: against Keras, and against a double loop for random shapes. */
#include <stdio.h>

#include "golden/golden.h"
#include "model/model_fixture.h"

static struct replica replica_of(int ids, int width, bool mean, int64_t count, int64_t rows) {
    const ls_layer layers[] = {ls_embedding(ids, width, .name = "embedding"),
                               mean ? (ls_layer)ls_global_average_pooling1d() : (ls_layer)ls_flatten(),
                               ls_dense(3, .name = "dense")};
    struct replica replica = new_replica(layers, COUNT_OF(layers), LS_SHAPE(count), rows);
    for (int64_t i = 0; i < rows * count; i++)
        replica.features[i] = (float)(ls_random_bits(9, (uint64_t)rows, (uint64_t)i) % (uint64_t)ids);
    return replica;
}

TEST_EACH(losses_and_gradients_equal_keras, 2) {
    struct golden *golden = golden_open("embedding.txt");
    const char *name = _i ? "flat" : "mean";
    const struct golden_tensor *ids = golden_find(golden, "ids"), *labels = golden_find(golden, "labels");
    int64_t rows = ids->shape.dims[0];
    struct replica replica = replica_of(9, 4, !_i, ids->shape.dims[1], rows);
    memcpy(replica.features, ids->values, (size_t)ids->count * sizeof(float));
    for (int64_t i = 0; i < rows; i++) replica.labels[i] = (int32_t)labels->values[i];
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        memcpy(replica.parameters + variable->offset, golden_find(golden, "%s/%s", name, variable->name)->values,
               variable->count * sizeof(float));
    }
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    float loss = (float)(replica.sums.loss / (double)rows);
    assert_near("loss", &loss, golden_find(golden, "%s/loss", name)->values, 1, 1e-6);
    for (int v = 0; v < ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica.network, v);
        const struct golden_tensor *wanted = golden_find(golden, "%s/gradient/%s", name, variable->name);
        ck_assert_int_eq(wanted->count, (int64_t)variable->count);
        assert_near(variable->name, replica.gradients + variable->offset, wanted->values, wanted->count, 1e-6);
    }
    free_replica(&replica);
    golden_close(golden);
}

/* The dense layer's kernel is (count width, 3), and its gradient's rows tell those of the embedding. */
TEST_EACH(gradients_of_one_id_are_added_in_their_order, 20) {
    int64_t count = 1 + (int64_t)(ls_random_bits(3, 1, (uint64_t)_i) % 7);
    int64_t rows = 1 + (int64_t)(ls_random_bits(3, 2, (uint64_t)_i) % 40);
    int ids = 1 + (int)(ls_random_bits(3, 3, (uint64_t)_i) % 20),
        width = 1 + (int)(ls_random_bits(3, 4, (uint64_t)_i) % 9);
    struct ls_device *device = open_cpu();
    float *x = new_floats(rows * count), *dy = new_floats(rows * count * width);
    LS_CLEANUP(ls_free_pointer) int32_t *integers = ls_alloc_array((size_t)(rows * count), sizeof(*integers));
    float *w = new_floats(ids * width), *y = new_floats(rows * count * width), *dw = new_floats(ids * width);
    for (int64_t i = 0; i < rows * count; i++) x[i] = (float)(ls_random_bits(3, 5, (uint64_t)i) % (uint64_t)ids);
    for (int64_t i = 0; i < rows * count; i++) integers[i] = (int32_t)x[i];
    for (int64_t i = 0; i < rows * count * width; i++) dy[i] = (float)ls_random_normal(3, 6, (uint64_t)i);
    for (int64_t i = 0; i < ids * width; i++) w[i] = (float)ls_random_normal(3, 7, (uint64_t)i), dw[i] = 77;
    bool adds = _i / 2 % 2;
    struct ls_op op = {.kind = LS_OP_EMBEDDING_FORWARD, .adds = adds};
    op.tensors[LS_ARG_X] =
        (struct ls_tensor){_i % 2 ? (void *)integers : x, _i % 2 ? LS_INT32 : LS_FLOAT32, LS_SHAPE(rows, count), 0};
    op.tensors[LS_ARG_W] = (struct ls_tensor){w, LS_FLOAT32, LS_SHAPE(ids, width), 0};
    op.tensors[LS_ARG_Y] = (struct ls_tensor){y, LS_FLOAT32, LS_SHAPE(rows, count, width), 0};
    op.tensors[LS_ARG_DY] = (struct ls_tensor){dy, LS_FLOAT32, LS_SHAPE(rows, count, width), 0};
    op.tensors[LS_ARG_DW] = (struct ls_tensor){dw, LS_FLOAT32, LS_SHAPE(ids, width), 0};
    for (int backward = 0; backward < 2; backward++) {
        op.kind = backward ? LS_OP_EMBEDDING_BACKWARD : LS_OP_EMBEDDING_FORWARD;
        assert_ok(device->ops->build(device, &op));
        assert_ok(op.run(&op));
    }
    for (int64_t i = 0; i < rows * count; i++)
        ck_assert(!memcmp(y + i * width, w + (int64_t)x[i] * width, (size_t)width * sizeof(float)));
    for (int id = 0; id < ids; id++)
        for (int k = 0; k < width; k++) {
            float sum = adds ? 77 : 0;
            for (int64_t i = 0; i < rows * count; i++)
                if (x[i] == (float)id) sum += dy[i * width + k];
            ck_assert(dw[id * width + k] == sum);
        }
    ls_free(x), ls_free(w), ls_free(y), ls_free(dy), ls_free(dw);
    ls_device_close(device);
}

TEST_EACH(what_is_no_id_is_named, 5) {
    static const struct {
        float id;
        const char *text;
    } rows[] = {{9, "row 2 has id 9 at place 3, but the table has 9 rows: ids are 0 to 8"},
                {-1, "row 2 has id -1 at place 3"},
                {1.5F, "row 2 has id 1.5 at place 3"},
                {NAN, "row 2 has id"},
                {3e9F, "row 2 has id 3000000000"}};
    struct replica replica = replica_of(9, 4, true, 5, 4);
    replica.features[2 * 5 + 3] = rows[_i].id;
    assert_refused(ls_network_check_ids(replica.network, replica.features, 4), rows[_i].text);
    ck_assert_ptr_nonnull(strstr(ls_error(), "layer 'embedding'"));
    const struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = NULL;
    assert_ok(ls_plan_new(&config, &plan));
    assert_refused(ls_plan_run(plan, NULL, NULL), rows[_i].text);
    ls_plan_free(plan);
    free_replica(&replica);
}

TEST_EACH(what_cannot_be_is_refused, 7) {
    static const struct {
        ls_layer layers[2];
        size_t count;
        ls_shape input;
        const char *text;
    } rows[] = {
        {{ls_embedding(0, 3)}, 1, {1, {4}}, "layer 0 (embedding): input_dim 0 must be 1 or more"},
        {{ls_embedding(5, 0)}, 1, {1, {4}}, "output_dim 0 must be 1 or more"},
        {{ls_embedding(5, 3)}, 1, {2, {4, 2}}, "it takes the model's input, of one axis"},
        {{ls_dense(5), ls_embedding(5, 3)}, 2, {1, {4}}, "layer 1 (embedding): it takes the model's input"},
        {{ls_embedding(5, 3, .kernel_size = 2)}, 1, {1, {4}}, "this kind of layer has no kernel_size"},
        {{ls_dense(5, .input_dim = 2)}, 1, {1, {4}}, "this kind of layer has no input_dim"},
        {{ls_global_average_pooling1d()}, 1, {3, {4, 4, 2}}, "it takes (n, channels), and gets 3 axes"},
    };
    struct ls_network *network = NULL;
    assert_refused(ls_network_new(rows[_i].layers, rows[_i].count, &rows[_i].input, &network), rows[_i].text);
    ck_assert_ptr_null(network);
}

TEST(integers_are_for_embedding_layers) {
    const ls_layer large[] = {ls_embedding((1 << 24) + 1, 1), ls_flatten(), ls_dense(2)};
    const ls_layer mixed[] = {ls_embedding(5, 3, .name = "words"), ls_flatten(),
                              ls_dense(2, .input = "input", .name = "beside"), ls_concatenate("flatten")};
    const ls_shape input = LS_SHAPE(4);
    struct ls_network *network = NULL;
    assert_ok(ls_network_new(large, COUNT_OF(large), &input, &network));
    assert_refused(ls_network_take_integers(network, false),
                   "layer 'embedding': input_dim 16777217 is more than 16777216");
    assert_ok(ls_network_take_integers(network, true));
    ls_network_free(network);
    assert_ok(ls_network_new(mixed, COUNT_OF(mixed), &input, &network));
    assert_ok(ls_network_take_integers(network, false));
    assert_refused(ls_network_take_integers(network, true),
                   "layer 'beside' takes the model's input, which is integers");
    ls_network_free(network);
}

/* Beyond what float32 tells apart, too. */
TEST_EACH(an_integer_that_is_no_id_is_named, 3) {
    static const int32_t bad[] = {-1, (1 << 24) + 3, INT32_MAX};
    const ls_layer layers[] = {ls_embedding((1 << 24) + 3, 1), ls_flatten(), ls_dense(2)};
    const ls_shape input = LS_SHAPE(2);
    int32_t ids[] = {0, (1 << 24) + 1, (1 << 24) + 2, 7};
    char text[64];
    struct ls_network *network = NULL;
    assert_ok(ls_network_new(layers, COUNT_OF(layers), &input, &network));
    assert_ok(ls_network_take_integers(network, true));
    assert_ok(ls_network_check_ids(network, ids, 2));
    ids[3] = bad[_i];
    (void)snprintf(text, sizeof(text), "row 1 has id %d at place 1", bad[_i]);
    assert_refused(ls_network_check_ids(network, ids, 2), text);
    ls_network_free(network);
}

TEST(a_table_begins_uniform) {
    const ls_layer layers[] = {ls_embedding(500, 8), ls_flatten(), ls_dense(2)};
    struct replica replica = new_replica(layers, COUNT_OF(layers), LS_SHAPE(3), 1);
    const struct ls_network_variable *table = ls_network_variable(replica.network, 0);
    float least = 1, most = -1;
    ck_assert_str_eq(table->name, "embedding/embeddings");
    ck_assert_uint_eq(table->count, 4000);
    for (size_t i = 0; i < table->count; i++) {
        least = fminf(least, replica.parameters[table->offset + i]);
        most = fmaxf(most, replica.parameters[table->offset + i]);
    }
    ck_assert(least >= -0.05F && least < -0.049F && most < 0.05F && most > 0.049F);
    free_replica(&replica);
}

TESTS("model/embedding")
