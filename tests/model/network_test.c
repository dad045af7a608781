/* Networks: names, shapes, the layout of the blob, descriptions, errors, and initial values. */
#include "harness.h"
#include "model/network.h"
#include "model/model_fixture.h"

static struct ls_network *new_network(const ls_layer *layers, size_t count, ls_shape input) {
    struct ls_network *network = NULL;
    assert_ok(ls_network_new(layers, count, &input, &network));
    return network;
}

static void assert_variable(const struct ls_network *network, int index, const char *name, size_t offset) {
    const struct ls_network_variable *variable = ls_network_variable(network, index);
    ck_assert_ptr_nonnull(variable);
    ck_assert_str_eq(variable->name, name);
    ck_assert_uint_eq(variable->offset, offset);
    ck_assert_uint_eq(variable->count, (size_t)ls_shape_count(&variable->shape));
}

TEST(variables_have_their_place_in_the_blob) {
    struct ls_network *network = new_network(
        LS_LAYERS(ls_dense(5, LS_RELU, .kernel_initializer = LS_HE_NORMAL), ls_dense(3)), LS_SHAPE(2, 2, 3));
    ck_assert_int_eq(ls_network_variable_count(network), 4);
    assert_variable(network, 0, "dense/kernel", 0);
    assert_variable(network, 1, "dense/bias", 64); /* 12 * 5 = 60 numbers, then a gap */
    assert_variable(network, 2, "dense_1/kernel", 80);
    assert_variable(network, 3, "dense_1/bias", 96);
    ck_assert_uint_eq(ls_network_blob_count(network), 112);
    ck_assert_int_eq(ls_network_outputs(network), 3);
    const struct ls_network_variable *kernel = ls_network_variable(network, 0), *bias = ls_network_variable(network, 1);
    ck_assert(ls_shape_equal(&kernel->shape, &LS_SHAPE(12, 5)) && ls_shape_equal(&bias->shape, &LS_SHAPE(5)));
    ck_assert(kernel->initializer == LS_HE_NORMAL && kernel->fan_in == 12 && kernel->fan_out == 5);
    ck_assert_int_eq(bias->initializer, LS_ZEROS);
    ck_assert_ptr_null(ls_network_variable(network, 4));
    ck_assert_ptr_null(ls_network_variable(network, -1));
    ls_network_free(network);
    ls_network_free(NULL);
}

TEST(a_layer_without_bias_has_one_variable) {
    struct ls_network *network =
        new_network(LS_LAYERS(ls_dense(5, LS_RELU, .no_bias = true), ls_dense(3)), LS_SHAPE(4));
    ck_assert_int_eq(ls_network_variable_count(network), 3);
    assert_variable(network, 0, "dense/kernel", 0);
    assert_variable(network, 1, "dense_1/kernel", 32);
    ls_network_free(network);
}

/* Mistakes that need no shape are told before there is one. */
TEST(layers_are_checked_before_there_is_a_shape) {
    assert_ok(ls_network_check(LS_LAYERS(ls_conv2d(2, 3), ls_dense(3))));
    assert_refused(ls_network_check(LS_LAYERS(ls_dense(0))), "layer 0 (dense): units 0 must be 1 or more");
    assert_refused(ls_network_check(LS_LAYERS(ls_dense(3), ls_add("nope"))), "its input 'nope' is no layer before it");
    assert_refused(ls_network_check(LS_LAYERS(ls_dense(3, .name = "a"), ls_dense(3, .name = "a"))),
                   "name 'a' is layer 0's");
    assert_refused(ls_network_check(NULL, 0), "the network has no layers");
}

TEST(layers_are_named_as_in_keras) {
    char mine[] = "head";
    const ls_layer layers[] = {
        ls_dense(2), ls_dense(2, .name = "dense_1"), ls_dense(2), ls_dense(2, .name = mine), ls_dense(2), ls_relu()};
    static const char *const wanted[] = {"dense/kernel", "dense_1/kernel", "dense_2/kernel", "head/kernel",
                                         "dense_3/kernel"};
    struct ls_network *network = new_network(layers, COUNT_OF(layers), LS_SHAPE(2));
    memset(mine, 'x', 4); /* the network has its own copy */
    for (int i = 0; i < 5; i++) ck_assert_str_eq(ls_network_variable(network, 2 * i)->name, wanted[i]);
    ls_network_free(network);
}

static char *describe(const ls_layer *layers, size_t count, ls_shape input) {
    struct ls_network *network = new_network(layers, count, input);
    char *text = NULL;
    assert_ok(ls_network_describe(network, &text));
    ls_network_free(network);
    return text;
}

TEST(a_description_has_every_layer_and_variable) {
    char *text = describe(LS_LAYERS(ls_flatten(), ls_dense(5, LS_RELU), ls_relu(), ls_dense(3)), LS_SHAPE(2, 2));
    ck_assert_str_eq(text, "input (2, 2); flatten flatten(linear) -> (4); dense dense(relu) -> (5); "
                           "dense/kernel float32 (4, 5) glorot_uniform; dense/bias float32 (5) zeros; "
                           "re_lu re_lu(relu) -> (5); dense_1 dense(linear) -> (3); "
                           "dense_1/kernel float32 (5, 3) glorot_uniform; dense_1/bias float32 (3) zeros");
    ls_free(text);
}

/* One text exactly when the networks are equal: each of these differs from every other. */
TEST(a_description_has_the_fields_of_image_layers) {
    char *text = describe(LS_LAYERS(ls_conv2d(2, 3, 2, LS_SAME, .no_bias = true, .name = "a"),
                                    ls_batch_normalization(.momentum = 0.5F), ls_add("a"), ls_dense(2)),
                          LS_SHAPE(4, 4, 1));
    ck_assert_str_eq(text,
                     "input (4, 4, 1); a conv2d(linear kernel_size=3 strides=2 padding=1 no_bias=1) -> (2, 2, 2); "
                     "a/kernel float32 (3, 3, 1, 2) glorot_uniform; "
                     "batch_normalization batch_normalization(linear momentum=0.5) -> (2, 2, 2); "
                     "batch_normalization/gamma float32 (2) ones; batch_normalization/beta float32 (2) zeros; "
                     "batch_normalization/moving_mean float32 (2) zeros; "
                     "batch_normalization/moving_variance float32 (2) ones; "
                     "add add(linear) of batch_normalization + a -> (2, 2, 2); "
                     "dense dense(linear) -> (2); dense/kernel float32 (8, 2) glorot_uniform; "
                     "dense/bias float32 (2) zeros");
    ls_free(text);
}

TEST(a_description_has_the_fields_of_positions) {
    char *text = describe(LS_LAYERS(ls_layer_normalization(.epsilon = 0.5F, .no_center = true),
                                    ls_dense(2, LS_SILU, .per_position = true), ls_rms_normalization(),
                                    ls_activation(LS_GELU_TANH), ls_multiply("dense"), ls_activation(LS_GELU)),
                          LS_SHAPE(4, 3));
    ck_assert_str_eq(text,
                     "input (4, 3); layer_normalization layer_normalization(linear epsilon=0.5 no_center=1) -> "
                     "(4, 3); layer_normalization/gamma float32 (3) ones; "
                     "dense dense(silu per_position=1) -> (4, 2); dense/kernel float32 (3, 2) glorot_uniform; "
                     "dense/bias float32 (2) zeros; rms_normalization rms_normalization(linear) -> (4, 2); "
                     "rms_normalization/scale float32 (2) ones; "
                     "activation activation(gelu_tanh) -> (4, 2); multiply multiply(linear) of activation + dense "
                     "-> (4, 2); activation_1 activation(gelu) -> (4, 2)");
    ls_free(text);
}

/* Trained variables come first. Variables that are only moved come after all of them. */
TEST(statistics_come_last) {
    struct ls_network *network = new_network(
        LS_LAYERS(ls_batch_normalization(), ls_dense(20), ls_batch_normalization(.no_scale = true)), LS_SHAPE(3));
    static const char *const names[] = {"batch_normalization/gamma",
                                        "batch_normalization/beta",
                                        "dense/kernel",
                                        "dense/bias",
                                        "batch_normalization_1/beta",
                                        "batch_normalization/moving_mean",
                                        "batch_normalization/moving_variance",
                                        "batch_normalization_1/moving_mean",
                                        "batch_normalization_1/moving_variance"};
    static const size_t offsets[] = {0, 16, 32, 96, 128, 160, 176, 192, 224};
    ck_assert_int_eq(ls_network_variable_count(network), 9);
    for (int i = 0; i < 9; i++) {
        assert_variable(network, i, names[i], offsets[i]);
        ck_assert_int_eq(ls_network_variable(network, i)->trained, i < 5);
    }
    ck_assert_uint_eq(ls_network_trainable_count(network), 160);
    ck_assert_uint_eq(ls_network_blob_count(network), 256);
    ls_network_free(network);
}

TEST(unlike_networks_have_unlike_descriptions) {
    char *texts[] = {
        describe(LS_LAYERS(ls_dense(3)), LS_SHAPE(4)),
        describe(LS_LAYERS(ls_dense(3)), LS_SHAPE(2, 2)),
        describe(LS_LAYERS(ls_dense(4)), LS_SHAPE(4)),
        describe(LS_LAYERS(ls_dense(3, LS_RELU)), LS_SHAPE(4)),
        describe(LS_LAYERS(ls_dense(3), ls_relu()), LS_SHAPE(4)),
        describe(LS_LAYERS(ls_dense(3, .name = "last")), LS_SHAPE(4)),
        describe(LS_LAYERS(ls_dense(3, .kernel_initializer = LS_HE_UNIFORM)), LS_SHAPE(4)),
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        for (size_t j = 0; j < i; j++) ck_assert_str_ne(texts[i], texts[j]);
    for (size_t i = 0; i < COUNT_OF(texts); i++) ls_free(texts[i]);
}

/* Many layers with long names do not overrun the text, nor make naming slow. */
TEST(two_thousand_layers_are_described) {
    static ls_layer layers[2000];
    char name[64], *text = NULL;
    memset(name, 'n', sizeof(name) - 1);
    name[63] = 0;
    for (size_t i = 0; i < COUNT_OF(layers); i++) layers[i] = (ls_layer)ls_dense(1, LS_RELU);
    layers[1999].name = name;
    struct ls_network *network = new_network(layers, COUNT_OF(layers), LS_SHAPE(1));
    assert_ok(ls_network_describe(network, &text));
    ck_assert_ptr_nonnull(strstr(text, "; dense_1998/bias float32 (1) zeros; nnn"));
    ck_assert_str_eq(text + strlen(text) - 26, "nnn/bias float32 (1) zeros");
    ls_free(text);
    ls_network_free(network);
}

static const struct {
    ls_layer layers[3];
    size_t count;
    ls_shape input;
    const char *message;
} bad[] = {

    {{{0}}, 0, {1, {4}}, "the network has no layers"},
    {{{.kind = (ls_layer_kind)99}}, 1, {1, {4}}, "layer 0: kind 99 is no ls_layer_kind"},
    {{ls_dense(3), {0}}, 2, {1, {4}}, "layer 1: kind 0 is no ls_layer_kind"},
    {{ls_dense(3), ls_dense(0)}, 2, {1, {4}}, "layer 1 (dense): units 0 must be 1 or more"},
    {{ls_dense(-3)}, 1, {1, {4}}, "layer 0 (dense): units -3"},
    {{ls_dense(3, (ls_activation)55)}, 1, {1, {4}}, "layer 0: activation 55 is no ls_activation"},
    {{ls_dense(3), {.kind = LS_LAYER_ACTIVATION, .activation = (ls_activation)-1}},
     2,
     {1, {4}},
     "layer 1: activation -1"},
    {{ls_dense(3, .kernel_initializer = (ls_initializer)77)}, 1, {1, {4}}, "layer 0 (dense): kernel_initializer 77"},
    {{ls_dense(3, .kernel_initializer = LS_RANDOM_NORMAL, .stddev = -1)}, 1, {1, {4}}, "stddev -1 must be above 0"},
    {{ls_dense(3, .stddev = 1)}, 1, {1, {4}}, "stddev is for LS_RANDOM_NORMAL, and its initializer is glorot_uniform"},
    {{ls_dense(3, .name = "")}, 1, {1, {4}}, "layer 0: name is empty"},
    {{ls_dense(3, .name = "a/b")}, 1, {1, {4}}, "layer 0: name 'a/b' must consist of"},
    {{ls_dense(3, .name = "a; b")}, 1, {1, {4}}, "layer 0: name 'a; b' must consist of"},
    {{ls_dense(3, .name = "a234567890123456789012345678901234567890123456789012345678901234")},
     1,
     {1, {4}},
     "must be shorter than 64 bytes"},
    {{ls_dense(3, .name = "same"), ls_relu(), ls_dense(3, .name = "same")},
     3,
     {1, {4}},
     "layer 2: name 'same' is layer 0's already"},
    {{ls_dense(3)}, 1, {1, {0}}, "the input of a network has shape (0); every extent must be 1 or more"},
    {{ls_dense(3)}, 1, {2, {4, -1}}, "the input of a network has shape (4, -1)"},
    {{ls_dense(3)}, 1, {-1, {0}}, "the input of a network has rank -1"},
    {{ls_dense(3)}, 1, {8, {1, 1, 1, 1, 1, 1, 1, 1}}, "the input of a network has rank 8"},
    {{ls_dense(2147483647), ls_dense(2147483647)}, 2, {1, {4}}, "layer 'dense_1': its kernel and the variables"},
    {{ls_dense(3, .name = "a"), ls_dense(3, .input = "b"), ls_dense(3)},
     3,
     {1, {4}},
     "layer 'dense': its input 'b' is no"},
    {{ls_dense(3, .input = "dense")}, 1, {1, {4}}, "its input 'dense' is no layer before it"},
    {{ls_dense(3), ls_dense(3, .input = "input")}, 2, {1, {4}}, "layer 'dense': no layer takes its output"},
    {{ls_dense(3), ls_dense(3, .others = {"dense"})},
     2,
     {1, {4}},
     "layer 1 (dense): this kind of layer has no others; leave the field out"},
    {{ls_dense(3), ls_activation(LS_RELU, .units = 3)},
     2,
     {1, {4}},
     "layer 1 (re_lu): this kind of layer has no units"},
    {{ls_dense(3, LS_RELU, .negative_slope = 0.1F)},
     1,
     {1, {4}},
     "negative_slope is for LS_LEAKY_RELU, and this is relu"},
    {{ls_max_pooling2d(2, .dilation_rate = 2)}, 1, {3, {4, 4, 1}}, "this kind of layer has no dilation_rate"},
    {{ls_dense(3), ls_dense(4), ls_add("dense")}, 3, {1, {4}}, "layer 2 (add): its inputs have shapes (4) and (3)"},
    {{ls_dense(3), ls_add()}, 2, {1, {4}}, "layer 1 (add): name at least one more input, as in ls_add(\"conv2d\")"},
    {{ls_conv2d(2, 3)}, 1, {1, {4}}, "layer 0 (conv2d): its input has 1 axes, but must be an image"},
    {{ls_conv2d(2, 5)}, 1, {3, {4, 6, 1}}, "its window of 5 by 5 does not fit into an image of 4 by 6"},
    {{ls_conv2d(0, 3)}, 1, {3, {4, 4, 1}}, "layer 0 (conv2d): filters 0 must be 1 or more"},
    {{ls_conv2d(2, 0)}, 1, {3, {4, 4, 1}}, "layer 0 (conv2d): kernel_size 0 must be 1 or more"},
    {{ls_conv2d(2, 3, -1)}, 1, {3, {4, 4, 1}}, "layer 0 (conv2d): strides -1 must be 1 or more"},
    {{ls_conv2d(2, 3, 1, (ls_padding)9)}, 1, {3, {4, 4, 1}}, "padding 9 is no ls_padding"},
    {{ls_max_pooling2d(2, -1)}, 1, {3, {4, 4, 1}}, "layer 0 (max_pooling2d): strides -1 must be 1 or more"},
    {{ls_average_pooling2d(2, 1, (ls_padding)9)}, 1, {3, {4, 4, 1}}, "padding 9 is no ls_padding"},
    {{ls_conv2d(2, 3, .groups = 2)}, 1, {3, {4, 4, 3}}, "2 groups do not divide 3 channels and 2 filters"},
    {{ls_batch_normalization(.momentum = 1)}, 1, {1, {4}}, "momentum 1 must be at least 0 and below 1"},
    {{ls_batch_normalization(.epsilon = -1)}, 1, {1, {4}}, "epsilon -1 must be above 0"},
    {{ls_dropout(1)}, 1, {1, {4}}, "layer 0 (dropout): rate 1 must be at least 0 and below 1"},
    {{ls_layer_normalization(.epsilon = -1)}, 1, {1, {4}}, "layer 0 (layer_normalization): epsilon -1 must be above 0"},
    {{ls_rms_normalization(.epsilon = INFINITY)}, 1, {1, {4}}, "layer 0 (rms_normalization): epsilon inf must be"},
    {{ls_rms_normalization(.no_center = true)},
     1,
     {1, {4}},
     "layer 0 (rms_normalization): this kind of layer has no no_center; leave the field out"},
    {{ls_layer_normalization(.momentum = 0.5F)}, 1, {1, {4}}, "this kind of layer has no momentum"},
    {{ls_dense(3), ls_dense(4), ls_multiply("dense")},
     3,
     {1, {4}},
     "layer 2 (multiply): its inputs have shapes (4) and (3)"},
    {{ls_dense(3), ls_multiply()},
     2,
     {1, {4}},
     "layer 1 (multiply): name at least one more input, as in ls_multiply(\"conv2d\")"},
    {{ls_dense(3, (ls_activation)(LS_SILU + 1))}, 1, {1, {4}}, "layer 0: activation 10 is no ls_activation"},
    {{ls_zero_padding2d(0, -1)}, 1, {3, {4, 4, 3}}, "layer 0 (zero_padding2d): -1 zeros are not possible"},
    {{ls_flatten()}, 1, {1, {4}}, "the network has nothing to train"},
};

TEST_EACH(bad_layers_are_refused, COUNT_OF(bad)) {
    struct ls_network *network = NULL;
    assert_refused(ls_network_new(bad[_i].layers, bad[_i].count, &bad[_i].input, &network), bad[_i].message);
    ck_assert_ptr_null(network);
}

TEST(missing_layers_and_shapes_are_named) {
    struct ls_network *network = NULL;
    const ls_layer layer = ls_dense(3);
    assert_refused(ls_network_new(NULL, 1, &LS_SHAPE(3), &network), "no layers");
    assert_refused(ls_network_new(&layer, 1, NULL, &network), "the shape of the network's input is missing");
}

TEST(a_scalar_input_has_one_number) {
    struct ls_network *network = new_network(LS_LAYERS(ls_dense(2)), (ls_shape){0});
    ck_assert(ls_shape_equal(&ls_network_variable(network, 0)->shape, &LS_SHAPE(1, 2)));
    ls_network_free(network);
}

/* Limits and deviations of keras.initializers for 300 inputs and 200 outputs. */
static const struct {
    ls_initializer initializer;
    double limit, deviation;
} initializers[] = {
    {LS_GLOROT_UNIFORM, 0.10954451150103323, 0.0632455532033676}, /* sqrt(6 / 500), / sqrt(3) */
    {LS_HE_UNIFORM, 0.1414213562373095, 0.08164965809277261},     /* sqrt(6 / 300), / sqrt(3) */
    {LS_GLOROT_NORMAL, 2 * 0.0632455532033676 / 0.87962566103423978, 0.0632455532033676},
    {LS_HE_NORMAL, 2 * 0.08164965809277261 / 0.87962566103423978, 0.08164965809277261},
};

TEST_EACH(initial_values_have_the_limits_of_keras, COUNT_OF(initializers)) {
    struct ls_network *network =
        new_network(LS_LAYERS(ls_dense(200, .kernel_initializer = initializers[_i].initializer)), LS_SHAPE(300));
    float *blob = new_floats((int64_t)ls_network_blob_count(network));
    double sum = 0, squares = 0, largest = 0, limit = initializers[_i].limit;
    ls_network_initialize(network, 3, blob);
    for (int i = 0; i < 60000; i++) {
        sum += (double)blob[i];
        squares += (double)blob[i] * (double)blob[i];
        largest = fmax(largest, fabs((double)blob[i]));
    }
    double deviation = sqrt(squares / 60000);
    ck_assert_msg(largest <= limit * (1 + 1e-6) && largest > 0.99 * limit, "largest %g, limit %g", largest, limit);
    ck_assert_msg(fabs(deviation / initializers[_i].deviation - 1) < 0.01, "deviation %g", deviation);
    ck_assert_double_le(fabs(sum / 60000), 4 * deviation / sqrt(60000));
    for (int i = 60000; i < 60200; i++) ck_assert(blob[i] == 0); /* the bias */
    ls_free(blob);
    ls_network_free(network);
}

/* keras.initializers.RandomNormal and torch.nn.init.normal_. */
TEST_EACH(a_normal_is_not_cut, 2) {
    const float stddev = _i ? 0.02F : 0;
    const double wanted = _i ? 0.02 : 0.05;
    struct ls_network *network =
        new_network(LS_LAYERS(ls_dense(200, .kernel_initializer = LS_RANDOM_NORMAL, .stddev = stddev)), LS_SHAPE(300));
    float *blob = new_floats((int64_t)ls_network_blob_count(network));
    double squares = 0;
    int far = 0;
    ls_network_initialize(network, 3, blob);
    for (int i = 0; i < 60000; i++) {
        squares += (double)blob[i] * (double)blob[i];
        far += fabs((double)blob[i]) > 2 * wanted;
    }
    ck_assert_double_le(fabs(sqrt(squares / 60000) / wanted - 1), 0.01);
    ck_assert_msg(far > 2500 && far < 2960, "%d of 60000 are further than two deviations, and 2730 should be", far);
    ls_free(blob);
    ls_network_free(network);
}

static float *initial(const ls_layer *layers, size_t count, uint64_t seed, struct ls_network **network) {
    *network = new_network(layers, count, LS_SHAPE(7));
    float *blob = new_floats((int64_t)ls_network_blob_count(*network));
    memset(blob, 0x7F, ls_network_blob_count(*network) * sizeof(float));
    ls_network_initialize(*network, seed, blob);
    return blob;
}

/* A function of seed, name and element: not of the other layers, nor of where in the blob a variable lies. */
TEST(initial_values_follow_names) {
    struct ls_network *small, *large, *again;
    float *a = initial(LS_LAYERS(ls_dense(5, .name = "x")), 9, &small);
    float *b = initial(LS_LAYERS(ls_dense(7, .name = "w"), ls_dense(5, .name = "x")), 9, &large);
    float *c = initial(LS_LAYERS(ls_dense(5, .name = "x")), 10, &again);
    ck_assert_int_eq(memcmp(a, b + ls_network_variable(large, 2)->offset, 35 * sizeof(float)), 0);
    ck_assert_int_ne(memcmp(a, b, 35 * sizeof(float)), 0);
    ck_assert_int_ne(memcmp(a, c, 35 * sizeof(float)), 0);
    for (size_t i = 35; i < ls_network_blob_count(small); i++) ck_assert(a[i] == 0); /* gaps too */
    ls_free(a), ls_free(b), ls_free(c);
    ls_network_free(small), ls_network_free(large), ls_network_free(again);
}

TESTS("network", .seconds = 60)
