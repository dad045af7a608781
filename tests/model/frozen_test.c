/* Frozen layers and rates of their own: gradients are those of the same network where all is trained, or of one that
 * says by hand what a frozen batch normalization does; and nothing is computed below the lowest trained layer. */
#include <math.h>

#include "harness.h"
#include "model/layer.h"
#include "model/model_fixture.h"
#include "model/plan.h"

static const struct net {
    ls_layer layers[6];
    size_t count;
    ls_shape input;
    size_t first, end; /* the layers that are frozen */
} nets[] = {
    {{ls_dense(6, LS_RELU), ls_dense(5, LS_RELU), ls_dense(4)}, 3, {1, {5}}, 1, 2},
    {{ls_dense(6, LS_TANH), ls_dense(5, LS_RELU, .no_bias = true), ls_dense(4)}, 3, {1, {5}}, 1, 3},
    {{ls_dense(6, LS_RELU), ls_dense(5, LS_RELU), ls_dense(4)}, 3, {1, {5}}, 0, 2},
    {{ls_conv2d(3, 3), ls_conv2d(4, 3, .activation = LS_RELU), ls_depthwise_conv2d(3), ls_dense(4)},
     4,
     {3, {9, 8, 2}},
     1,
     3},
    {{ls_conv2d(3, 3), ls_batch_normalization(), ls_relu(), ls_conv2d(4, 3), ls_dense(4)}, 5, {3, {7, 8, 2}}, 0, 1},
    {{ls_conv2d(3, 3), ls_conv2d(3, 1), ls_batch_normalization(), ls_relu(), ls_dense(4)}, 5, {3, {7, 8, 2}}, 1, 2},
};

static struct replica run_net(const struct net *net, bool frozen) {
    ls_layer layers[6];
    memcpy(layers, net->layers, sizeof(layers));
    for (size_t i = net->first; i < net->end; i++) layers[i].frozen = frozen;
    return new_replica(layers, net->count, net->input, 6);
}

static const struct ls_network_variable *find(const struct replica *replica, const char *name) {
    for (int v = 0; v < ls_network_variable_count(replica->network); v++)
        if (!strcmp(ls_network_variable(replica->network, v)->name, name))
            return ls_network_variable(replica->network, v);
    ck_abort_msg("there is no %s", name);
}

static void copy_parameters(struct replica *to, const struct replica *from) {
    for (int v = 0; v < ls_network_variable_count(to->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(to->network, v);
        memcpy(to->parameters + variable->offset, from->parameters + find(from, variable->name)->offset,
               variable->count * sizeof(float));
    }
}

/* Those that got has. */
static void compare_gradients(const struct replica *got, const struct replica *wanted) {
    ck_assert_double_le(fabs(got->sums.loss - wanted->sums.loss), 1e-5 * fabs(wanted->sums.loss));
    for (int v = 0; v < ls_network_summed_variables(got->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(got->network, v);
        assert_near(variable->name, got->gradients + variable->offset,
                    wanted->gradients + find(wanted, variable->name)->offset, (int64_t)variable->count, 1e-4);
    }
}

TEST_EACH(the_trained_variables_have_the_gradients_that_they_had, COUNT_OF(nets)) {
    struct replica whole = run_net(&nets[_i], false), part = run_net(&nets[_i], true);
    size_t summed = ls_network_summed_count(part.network);
    copy_parameters(&part, &whole);
    for (size_t i = summed; i < part.blob; i++) part.gradients[i] = 1;
    run_once(&whole, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    run_once(&part, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ck_assert_uint_lt(summed, part.blob);
    compare_gradients(&part, &whole);
    for (size_t i = summed; i < part.blob; i++) ck_assert(part.gradients[i] == 1);
    free_replica(&whole);
    free_replica(&part);
}

/* A frozen batch normalization is a convolution of one element a channel: with gamma / sqrt(variance + epsilon), and
 * beta less the mean times that. */
static void by_hand(struct replica *hand, const struct replica *frozen) {
    const float *from = frozen->parameters;
    for (size_t c = 0; c < 3; c++) {
        float gamma = from[find(frozen, "norm/gamma")->offset + c], beta = from[find(frozen, "norm/beta")->offset + c];
        float mean = from[find(frozen, "norm/moving_mean")->offset + c];
        float factor = gamma / sqrtf(from[find(frozen, "norm/moving_variance")->offset + c] + 0.001F);
        hand->parameters[find(hand, "norm/kernel")->offset + c] = factor;
        hand->parameters[find(hand, "norm/bias")->offset + c] = beta - mean * factor;
    }
    for (int v = 0; v < ls_network_summed_variables(frozen->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(frozen->network, v);
        memcpy(hand->parameters + find(hand, variable->name)->offset, from + variable->offset,
               variable->count * sizeof(float));
    }
}

TEST(a_frozen_batch_normalization_takes_its_moving_statistics) {
    ls_layer layers[] = {ls_conv2d(3, 3, .name = "first"), ls_batch_normalization(.name = "norm", .frozen = true),
                         ls_add("first"), ls_relu(), ls_dense(4, .name = "last")};
    struct replica frozen = new_replica(layers, COUNT_OF(layers), LS_SHAPE(7, 8, 2), 6);
    layers[1] = (ls_layer)ls_depthwise_conv2d(1, .name = "norm", .frozen = true);
    struct replica hand = new_replica(layers, COUNT_OF(layers), LS_SHAPE(7, 8, 2), 6);
    for (size_t c = 0; c < 3; c++) {
        frozen.parameters[find(&frozen, "norm/gamma")->offset + c] = 1.5F - (float)c;
        frozen.parameters[find(&frozen, "norm/moving_variance")->offset + c] = 0.5F + (float)c;
    }
    by_hand(&hand, &frozen);
    run_once(&frozen, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    run_once(&hand, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ck_assert_int_eq(ls_network_summed_variables(frozen.network), 4);
    compare_gradients(&frozen, &hand);
    free_replica(&frozen);
    free_replica(&hand);
}

static size_t count_backward(const ls_layer *layers, size_t count) {
    struct replica replica = new_replica(layers, count, LS_SHAPE(5), 3);
    struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = NULL;
    assert_ok(ls_plan_new(&config, &plan));
    size_t steps = plan->count - plan->turn;
    ls_plan_free(plan);
    free_replica(&replica);
    return steps;
}

TEST(nothing_goes_back_below_the_lowest_trained_layer) {
    ck_assert_uint_eq(count_backward((const ls_layer[]){ls_dense(4), ls_dense(4), ls_dense(4)}, 3), 3);
    ck_assert_uint_eq(
        count_backward((const ls_layer[]){ls_dense(4, .frozen = true), ls_dense(4, .frozen = true), ls_dense(4)}, 3),
        1);
    ck_assert_uint_eq(
        count_backward((const ls_layer[]){ls_dense(4), ls_dense(4, .frozen = true), ls_dense(4, .frozen = true)}, 3),
        3);
}

TEST(a_layer_says_its_rate) {
    const ls_layer layers[] = {ls_dense(4, .frozen = true), ls_dense(4, .rate_multiplier = 0.1F), ls_dense(3)};
    const float rates[] = {0.1F, 0.1F, 1, 1};
    struct ls_network *network = NULL;
    struct ls_blob_part *parts = NULL;
    ls_optimizer rule = ls_sgd(0.1F);
    size_t count = 0;
    assert_ok(ls_network_new(layers, 3, &LS_SHAPE(5), &network));
    assert_ok(ls_optimizer_parts(&rule, network, &parts, &count));
    ck_assert_uint_eq(count, COUNT_OF(rates));
    for (size_t i = 0; i < count; i++) ck_assert(parts[i].rate == rates[i]);
    ls_free(parts);
    ls_network_free(network);
}

static void refuse(ls_layer layer, const char *words) {
    struct ls_network *network = NULL;
    ck_assert_int_eq(ls_network_new(&layer, 1, &LS_SHAPE(5), &network), LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(ls_error(), words) != NULL, "%s", ls_error());
}

TEST(what_cannot_be_is_named) {
    refuse((ls_layer)ls_dense(4, .frozen = true), "that are not frozen");
    refuse((ls_layer)ls_dense(4, .rate_multiplier = -1), "rate_multiplier -1 must be above 0");
    refuse((ls_layer)ls_dense(4, .frozen = true, .rate_multiplier = 2), "it is frozen, so leave rate_multiplier 0");
    refuse((ls_layer){.kind = LS_LAYER_FLATTEN, .frozen = true}, "has no frozen");
}

TESTS("frozen", .seconds = 60)
