/* Short trainings with each optimizer as Keras does them: losses of all steps, and the weights after the last one. */
#include <stdlib.h>

#include "golden/golden.h"
#include "harness.h"
#include "model/keras_fixture.h"
#include "model/plan_run.h"

static const struct {
    const char *name;
    ls_optimizer rule;
} rules[] = {
    {"sgd", ls_sgd(0.05F)},
    {"momentum", ls_sgd(0.02F, .momentum = 0.9F)},
    {"nesterov", ls_sgd(0.02F, .momentum = 0.9F, .nesterov = true)},
    {"adam", ls_adam(0.001F)},
    {"adamw", ls_adamw(0.001F, .weight_decay = 0.05F)},
    {"rmsprop", ls_rmsprop(0.001F, .momentum = 0.5F, .centered = true, .epsilon = 1e-4F)},
    {"lamb", ls_lamb(0.01F, .weight_decay = 0.01F)},
};

struct training {
    struct replica replica;
    struct ls_plan *plan;
    struct ls_optimizer_step step;
    struct ls_blob_part *parts;
    float *moments[LS_MAX_MOMENTS];
    struct ls_op update, penalty;
    double penalty_value;
};

static void begin(struct training *t, struct replica replica, ls_optimizer rule) {
    struct ls_optimizer_blobs blobs = {ls_network_trainable_count(replica.network), replica.parameters,
                                       replica.gradients};
    *t = (struct training){.replica = replica, .step = {.rule = rule, .iteration = 1}};
    struct ls_plan_config config = plan_config(&t->replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    assert_ok(ls_plan_new(&config, &t->plan));
    assert_ok(ls_optimizer_resolve(&t->step.rule));
    assert_ok(ls_optimizer_parts(&t->step.rule, replica.network, &t->parts, &blobs.part_count));
    blobs.parts = t->parts;
    for (int i = 0; i < ls_optimizer_moments(&t->step.rule); i++)
        blobs.moments[i] = t->moments[i] = new_floats((int64_t)replica.blob);
    assert_ok(ls_optimizer_build(replica.device, &t->step, &blobs, &t->update));
    t->penalty = (struct ls_op){
        .kind = LS_OP_PENALTY, .value = &t->penalty_value, .variables = t->parts, .variable_count = blobs.part_count};
    t->penalty.tensors[LS_ARG_PARAMETERS] = t->update.tensors[LS_ARG_PARAMETERS];
    assert_ok(replica.device->ops->build(replica.device, &t->penalty));
}

static float train(struct training *t) {
    size_t trainable = ls_network_trainable_count(t->replica.network);
    assert_ok(ls_plan_run(t->plan, NULL, NULL));
    assert_ok(t->penalty.run(&t->penalty));
    assert_ok(t->update.run(&t->update));
    for (size_t i = trainable; i < t->replica.blob; i++) t->replica.parameters[i] += t->replica.gradients[i];
    t->step.iteration++;
    return (float)(t->replica.sums.loss / (double)t->replica.rows + t->penalty_value);
}

static void end(struct training *t) {
    t->replica.device->ops->discard(t->replica.device, &t->update);
    t->replica.device->ops->discard(t->replica.device, &t->penalty);
    ls_plan_free(t->plan);
    ls_free(t->parts);
    for (int i = 0; i < LS_MAX_MOMENTS; i++) ls_free(t->moments[i]);
    free_replica(&t->replica);
}

static int variable_by_name(const void *a, const void *b) {
    const struct ls_network_variable *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

/* The errors of all weights together, relative to their whole length. */
static double weights_error(const struct replica *replica, const struct golden_tensor *recorded) {
    const struct ls_network_variable *sorted[512];
    double error = 0, whole = 0;
    int count = 0;
    while (count < ls_network_variable_count(replica->network) && ls_network_variable(replica->network, count)->trained)
        sorted[count] = ls_network_variable(replica->network, count), count++;
    ck_assert_int_eq(recorded->shape.dims[0], count);
    qsort(sorted, (size_t)count, sizeof(sorted[0]), variable_by_name);
    for (int v = 0; v < count; v++) {
        double lengths[2], wanted = (double)recorded->values[2 * v], along = (double)recorded->values[2 * v + 1];
        measure(sorted[v], replica->parameters + sorted[v]->offset, lengths);
        error += pow(lengths[0] - wanted, 2) + pow(lengths[1] - along, 2);
        whole += wanted * wanted;
    }
    return sqrt(error / whole);
}

/* The largest distance of two ways of rounding after so many steps. Batch normalizations over few elements make it much
 * larger. */
struct tolerance {
    double losses, weights;
};

static void check(struct training *t, const char *name, struct tolerance tolerance) {
    struct golden *golden = golden_open("trainings.txt");
    const struct golden_tensor *losses = golden_find(golden, "%s/losses", name);
    for (int64_t i = 0; i < losses->count; i++) {
        float loss = train(t);
        ck_assert_msg(fabs((double)(loss - losses->values[i])) <= tolerance.losses * (double)losses->values[i],
                      "%s, step %lld: loss %.9g, but must be %.9g", name, (long long)i + 1, (double)loss,
                      (double)losses->values[i]);
    }
    double error = weights_error(&t->replica, golden_find(golden, "%s/final", name));
    ck_assert_msg(error <= tolerance.weights, "%s: weights differ by %g", name, error);
    golden_close(golden);
}

static struct replica new_mlp(float l1, float l2) {
    const ls_layer layers[] = {ls_flatten(), ls_dense(9, LS_RELU, .kernel_l1 = l1, .kernel_l2 = l2),
                               ls_dense(7, LS_RELU), ls_dense(5, .kernel_l1 = l1, .kernel_l2 = l2)};
    return keras_replica(layers, COUNT_OF(layers), LS_SHAPE(3, 4), 16);
}

TEST_EACH(an_mlp_trains_as_in_keras, COUNT_OF(rules)) {
    struct training t;
    char name[64];
    (void)snprintf(name, sizeof(name), "mlp/%s", rules[_i].name);
    begin(&t, new_mlp(0, 0), rules[_i].rule);
    check(&t, name, (struct tolerance){1e-5, 1e-5});
    end(&t);
}

TEST_EACH(lenet_trains_as_in_keras, COUNT_OF(rules)) {
    struct training t;
    char name[64];
    (void)snprintf(name, sizeof(name), "lenet/%s", rules[_i].name);
    begin(&t, new_application("lenet", 0, LS_SHAPE(28, 28, 1), 16), rules[_i].rule);
    check(&t, name, (struct tolerance){1e-5, 1e-5});
    end(&t);
}

/* The furthest that Keras' own losses in float32 are off those in float64. */
static double find_distance(const struct golden_tensor *exact, const struct golden_tensor *rounded) {
    double off = 0;
    for (int64_t i = 0; i < exact->count; i++)
        off = fmax(off, fabs((double)rounded->values[i] - (double)exact->values[i]));
    return off;
}

/* Against losses in float64. An activation within rounding of 0 or 6 makes a mask of ReLU6 fall one way or the other,
 * at some step, and batch normalizations make that larger from then on. Keras' own losses in float32 tell the size: two
 * such programs are off by as much, though not at the same steps. So none may be off by more than four times that, or
 * by a fiftieth of the loss that the training takes away, if Keras has met no such mask. Before the first update all
 * losses are one. */
TEST_EACH(mobilenet_v2_trains_as_near_as_keras_to_itself, COUNT_OF(rules)) {
    const char *name = rules[_i].name;
    struct golden *golden = golden_open("mobilenet.txt");
    const struct golden_tensor *exact = golden_find(golden, "%s/exact", name);
    double most = 4 * find_distance(exact, golden_find(golden, "%s/float32", name));
    double moved = (double)(exact->values[0] - exact->values[exact->count - 1]);
    struct training t;
    ls_optimizer rule = rules[_i].rule;
    rule.learning_rate *= golden_find(golden, "%s/share", name)->values[0];
    most = fmax(most, 0.02 * moved);
    begin(&t, new_application("mobilenet_v2", 0.35F, LS_SHAPE(32, 32, 3), 32), rule);
    for (int64_t i = 0; i < exact->count; i++) {
        double loss = (double)train(&t), wanted = (double)exact->values[i],
               within = i ? most : 2e-6 * wanted * rounding();
        ck_assert_msg(fabs(loss - wanted) <= within, "%s, step %lld: loss %.9g, but must be %.9g, within %.2g", name,
                      (long long)i + 1, loss, wanted, within);
    }
    ck_assert_double_lt(most, 0.1 * moved);
    double error = weights_error(&t.replica, golden_find(golden, "%s/final", name));
    ck_assert_double_le(error, fmax(4 * (double)golden_find(golden, "%s/distance", name)->values[0], 2e-6));
    end(&t);
    golden_close(golden);
}

TEST(a_regularized_network_trains_as_in_keras) {
    struct training t;
    begin(&t, new_mlp(0.01F, 0.02F), (ls_optimizer)ls_sgd(0.1F));
    check(&t, "regularized", (struct tolerance){1e-5, 1e-5});
    end(&t);
}

/* Masks of ReLU6 and batch normalizations make rounding larger from step to step: after 20 steps Keras' own losses in
 * float32 are 3e-3 away from those in float64. */
TEST_EACH(mobilenet_v2_follows_keras_in_float64, 2) {
    static const struct {
        const char *name;
        ls_optimizer rule;
    } cases[] = {{"sgd", ls_sgd(1e-5F)}, {"adam", ls_adam(1e-5F)}};
    struct golden *golden = golden_open("exact.txt");
    const struct golden_tensor *recorded = golden_find(golden, "mobilenet_v2/%s", cases[_i].name);
    struct training t;
    float losses[20];
    begin(&t, new_application("mobilenet_v2", 0.35F, LS_SHAPE(64, 64, 3), 8), cases[_i].rule);
    for (int i = 0; i < 20; i++) losses[i] = train(&t);
    assert_near("first loss", losses, recorded->values, 1, 2e-6 * rounding()); /* Keras in float32: 1.3e-6 */
    assert_near("first losses", losses, recorded->values, 4, 3e-5 * rounding());
    assert_near("losses", losses, recorded->values, 20, 5e-3);
    end(&t);
    golden_close(golden);
}

TESTS("training", .seconds = 60)
