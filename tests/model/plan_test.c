/* Plans: when gradients are ready, what is overwritten and what is left alone, equal bits, one-hot as good as sparse,
 * evaluation, two replicas at once, and errors. */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "harness.h"
#include "model/plan.h"
#include "model/model_fixture.h"
#include "model/plan_run.h"

static const ls_layer mlp[] = {ls_flatten(), ls_relu(), ls_dense(6, LS_RELU), ls_dense(7), ls_relu(), ls_dense(4)};

static struct replica new_mlp(int64_t rows) {
    return new_replica(mlp, COUNT_OF(mlp), LS_SHAPE(3, 5), rows);
}

static struct ls_plan *new_plan(const struct ls_plan_config *config) {
    struct ls_plan *plan = NULL;
    assert_ok(ls_plan_new(config, &plan));
    return plan;
}

struct seen {
    const struct replica *replica;
    size_t offsets[8];
    int count;
};

static bool all_numbers(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i])) return false;
    return true;
}

static bool all_zeros(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (values[i] != 0) return false;
    return true;
}

/* All that is said to be ready has been written over the NaN that was there; what is before has not, but for biases
 * that a batch normalization takes away: their gradients are 0. */
static void see(void *context, size_t offset) {
    struct seen *seen = context;
    ck_assert_int_lt(seen->count, 8);
    seen->offsets[seen->count++] = offset;
    for (int v = 0; v < ls_network_variable_count(seen->replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(seen->replica->network, v);
        const float *gradient = seen->replica->gradients + variable->offset;
        bool written = all_numbers(gradient, variable->count), folded = all_zeros(gradient, variable->count);
        ck_assert_int_eq(written && !(folded && variable->offset < offset), variable->offset >= offset);
    }
}

static void spoil_gradients(struct replica *replica) {
    for (int v = 0; v < ls_network_variable_count(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        for (size_t i = 0; i < variable->count; i++) replica->gradients[variable->offset + i] = NAN;
    }
}

/* With and without layers before the first dense. */
TEST_EACH(gradients_are_ready_from_the_last_layer_on, 2) {
    struct replica replica = new_replica(mlp + 2 * _i, COUNT_OF(mlp) - 2 * (size_t)_i, LS_SHAPE(3, 5), 5);
    struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = new_plan(&config);
    struct seen seen = {.replica = &replica};
    spoil_gradients(&replica);
    assert_ok(ls_plan_run(plan, see, &seen));
    ck_assert_int_eq(seen.count, 4);
    ck_assert_uint_eq(seen.offsets[0], replica.blob); /* forward is done, nothing is ready */
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(seen.offsets[i + 1], ls_network_variable(replica.network, 2 * (2 - i))->offset);
    ck_assert_uint_eq(seen.offsets[3], 0);
    ls_plan_free(plan);
    free_replica(&replica);
}

TEST(gaps_stay_zero) {
    struct replica replica = new_mlp(5);
    size_t at = 0;
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    for (int v = 0; v <= ls_network_variable_count(replica.network); v++) {
        const struct ls_network_variable *next = ls_network_variable(replica.network, v);
        for (; at < (next ? next->offset : replica.blob); at++)
            ck_assert(replica.gradients[at] == 0 && replica.parameters[at] == 0);
        if (next) at = next->offset + next->count;
    }
    free_replica(&replica);
}

/* Running again, and a second plan, give the same bits: nothing is added to, nothing is left over. */
TEST(another_run_gives_the_same_bits) {
    struct replica first = new_mlp(9), second = new_mlp(9);
    struct ls_plan_config config = plan_config(&first, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = new_plan(&config);
    for (int i = 0; i < 3; i++) assert_ok(ls_plan_run(plan, NULL, NULL));
    run_once(&second, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ck_assert_int_eq(memcmp(first.gradients, second.gradients, first.blob * sizeof(float)), 0);
    ck_assert(first.sums.loss == second.sums.loss && first.sums.correct == second.sums.correct);
    ck_assert_int_eq(first.sums.rows, 9);
    ls_plan_free(plan);
    free_replica(&first);
    free_replica(&second);
}

TEST(one_hot_labels_give_the_bits_of_sparse_ones) {
    struct replica sparse = new_mlp(6), dense = new_mlp(6);
    run_once(&sparse, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    run_once(&dense, LS_CATEGORICAL_CROSSENTROPY);
    ck_assert_int_eq(memcmp(sparse.gradients, dense.gradients, sparse.blob * sizeof(float)), 0);
    ck_assert(sparse.sums.loss == dense.sums.loss && sparse.sums.correct == dense.sums.correct);
    free_replica(&sparse);
    free_replica(&dense);
}

/* Evaluation needs no gradients and no scale, calls nobody, and sees the same loss. */
TEST_EACH(evaluation_sees_the_same_loss, 2) {
    struct replica replica = new_mlp(6);
    struct seen seen = {.replica = &replica};
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_loss_sums trained = replica.sums;
    struct ls_plan_config config =
        plan_config(&replica, _i ? LS_CATEGORICAL_CROSSENTROPY : LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    config.training = false;
    config.gradients = NULL;
    config.loss_scale = NULL;
    replica.sums = (struct ls_loss_sums){0};
    struct ls_plan *plan = new_plan(&config);
    assert_ok(ls_plan_run(plan, see, &seen));
    ck_assert_int_eq(seen.count, 0);
    ck_assert(replica.sums.loss == trained.loss && replica.sums.correct == trained.correct && replica.sums.rows == 6);
    ls_plan_free(plan);
    free_replica(&replica);
}

/* The scale of an uneven batch is read at each run: the parts' gradients add up to the whole's. */
TEST(gradients_of_parts_add_up) {
    struct replica whole = new_mlp(5), first = new_mlp(5), second = new_mlp(5);
    first.rows = 3, second.rows = 2;
    memmove(second.features, second.features + 3 * 15, 2 * 15 * sizeof(float));
    memmove(second.labels, second.labels + 3, 2 * sizeof(int32_t));
    run_once(&whole, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    run_once(&first, LS_SPARSE_CATEGORICAL_CROSSENTROPY); /* scale is 1/5 in all three */
    run_once(&second, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    for (size_t i = 0; i < whole.blob; i++) first.gradients[i] += second.gradients[i];
    assert_near("sum", first.gradients, whole.gradients, (int64_t)whole.blob, 1e-6);
    ck_assert_double_le(fabs(first.sums.loss + second.sums.loss - whole.sums.loss), 1e-6 * whole.sums.loss);
    free_replica(&whole);
    free_replica(&first);
    free_replica(&second);
}

/* The features are the user's: a ReLU in front must not write them. */
TEST(features_are_not_written) {
    struct replica replica = new_mlp(4), untouched = new_mlp(4);
    run_once(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ck_assert_int_eq(memcmp(replica.features, untouched.features, 4 * 15 * sizeof(float)), 0);
    free_replica(&replica);
    free_replica(&untouched);
}

static void *train(void *argument) {
    struct replica *replica = argument;
    struct ls_plan_config config = plan_config(replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_optimizer_step step = {ls_sgd(0.1F), 1};
    struct ls_op update;
    assert_ok(replica->device->ops->enter(replica->device, &(struct ls_thread_state){0}));
    struct ls_plan *plan = new_plan(&config);
    const struct ls_optimizer_blobs blobs = {
        .count = replica->blob, .parameters = replica->parameters, .gradients = replica->gradients};
    assert_ok(ls_optimizer_build(replica->device, &step, &blobs, &update));
    for (; step.iteration <= 50; step.iteration++) {
        assert_ok(ls_plan_run(plan, NULL, NULL));
        assert_ok(update.run(&update));
    }
    replica->device->ops->discard(replica->device, &update);
    ls_plan_free(plan);
    return NULL;
}

TEST(two_threads_train_alike) {
    struct replica replicas[2] = {new_mlp(17), new_mlp(17)};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, train, &replicas[i]), 0);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(memcmp(replicas[0].parameters, replicas[1].parameters, replicas[0].blob * sizeof(float)), 0);
    for (int i = 0; i < 2; i++) free_replica(&replicas[i]);
}

#define STACK (8 << 20) /* bytes, as much as a stack may have used */

static struct {
    const char *base;
    volatile sig_atomic_t on, off; /* frames of the handler on the stack, and elsewhere */
} frames;

static void note_frame(int number) {
    const char *frame = __builtin_frame_address(0);
    (void)number;
    if (frame < frames.base && frames.base - frame < STACK)
        frames.on++;
    else
        frames.off++;
}

/* A handler's frame comes to where the stack pointer is, whatever oneDNN has it point to. */
TEST(a_signal_handler_finds_its_stack) {
    static const ls_layer wide[] = {ls_dense(128, LS_RELU), ls_dense(10)};
    struct replica replica = new_replica(wide, COUNT_OF(wide), LS_SHAPE(784), 24);
    struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = new_plan(&config);
    const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    frames.base = __builtin_frame_address(0);
    ck_assert_ptr_ne(signal(SIGALRM, note_frame), SIG_ERR);
    ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int i = 0; i < 200000 && frames.on < 100 && !frames.off; i++) assert_ok(ls_plan_run(plan, NULL, NULL));
    ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    ck_assert_int_ge(frames.on, 100);
    ck_assert_int_eq(frames.off, 0);
    ls_plan_free(plan);
    free_replica(&replica);
}

TEST_EACH(a_bad_label_is_named, 2) {
    struct replica replica = new_mlp(5);
    struct ls_plan_config config =
        plan_config(&replica, _i ? LS_CATEGORICAL_CROSSENTROPY : LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = new_plan(&config);
    struct seen seen = {.replica = &replica};
    replica.labels[3] = 4;
    assert_refused(ls_plan_run(plan, see, &seen), "row 3 has label 4, but the model has 4 classes: 0 to 3");
    ck_assert_int_eq(seen.count, 0);
    replica.labels[3] = 2; /* the plan is as good as before */
    assert_ok(ls_plan_run(plan, NULL, NULL));
    ls_plan_free(plan);
    free_replica(&replica);
}

static const ls_layer image[] = {ls_conv2d(5, 3, .name = "stem"),
                                 ls_batch_normalization(),
                                 ls_relu6(),
                                 ls_conv2d(5, 3, .padding = LS_SAME),
                                 ls_batch_normalization(),
                                 ls_dropout(0.5F),
                                 ls_add("stem"),
                                 ls_relu(),
                                 ls_dense(3)};

/* Statistics are ready with the loss: the first call has where they begin. */
TEST(statistics_are_ready_first) {
    struct replica replica = new_replica(image, COUNT_OF(image), LS_SHAPE(6, 6, 2), 3);
    struct ls_optimizer_step step = {.iteration = 1};
    struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    config.step = &step;
    struct ls_plan *plan = new_plan(&config);
    struct seen seen = {.replica = &replica};
    spoil_gradients(&replica);
    assert_ok(ls_plan_run(plan, see, &seen));
    ck_assert_uint_eq(seen.offsets[0], ls_network_trainable_count(replica.network));
    ck_assert_uint_lt(seen.offsets[0], replica.blob);
    ck_assert_int_eq(seen.count, 6);
    ck_assert_uint_eq(seen.offsets[5], 0);
    ls_plan_free(plan);
    free_replica(&replica);
}

/* Forward, then backward, have the bits of a run, and tell of gradients as it does. */
TEST(forward_and_backward_run_each_alone) {
    struct replica whole = new_replica(image, COUNT_OF(image), LS_SHAPE(6, 6, 2), 3);
    struct replica halves = new_replica(image, COUNT_OF(image), LS_SHAPE(6, 6, 2), 3);
    struct ls_optimizer_step step = {.iteration = 1};
    struct ls_plan_config config = plan_config(&halves, LS_SPARSE_CATEGORICAL_CROSSENTROPY), one;
    one = plan_config(&whole, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    one.step = config.step = &step;
    run_plan(&one);
    struct ls_plan *plan = new_plan(&config);
    struct seen seen = {.replica = &halves};
    spoil_gradients(&halves);
    assert_ok(ls_plan_run_forward(plan));
    ck_assert(halves.sums.loss == whole.sums.loss && !all_numbers(halves.gradients, halves.blob));
    assert_ok(ls_plan_run_backward(plan, see, &seen));
    ck_assert_int_eq(seen.count, 5);
    ck_assert_uint_eq(seen.offsets[4], 0);
    for (int v = 0; v < ls_network_variable_count(halves.network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(halves.network, v);
        ck_assert_int_eq(memcmp(halves.gradients + variable->offset, whole.gradients + variable->offset,
                                variable->count * sizeof(float)),
                         0);
    }
    ls_plan_free(plan);
    free_replica(&whole);
    free_replica(&halves);
}

/* A caller's own gradient of the outputs takes the loss's place. */
TEST(a_plan_without_a_loss_takes_the_outputs_gradient) {
    struct replica with = new_replica(image, COUNT_OF(image), LS_SHAPE(6, 6, 2), 3);
    struct replica without = new_replica(image, COUNT_OF(image), LS_SHAPE(6, 6, 2), 3);
    struct ls_optimizer_step step = {.iteration = 1};
    struct ls_plan_config config = plan_config(&with, LS_SPARSE_CATEGORICAL_CROSSENTROPY), bare;
    bare = plan_config(&without, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    bare.labels = NULL;
    bare.sums = NULL;
    config.step = bare.step = &step;
    struct ls_plan *judged = new_plan(&config), *plan = new_plan(&bare);
    assert_ok(ls_plan_run_forward(judged));
    assert_ok(ls_plan_run_forward(plan));
    ck_assert_ptr_eq(ls_plan_outputs(judged), ls_plan_output_gradient(judged)); /* a gradient in place of outputs */
    memcpy(ls_plan_output_gradient(plan), ls_plan_output_gradient(judged), 3 * 3 * sizeof(float));
    assert_ok(ls_plan_run_backward(judged, NULL, NULL));
    assert_ok(ls_plan_run_backward(plan, NULL, NULL));
    ck_assert_int_eq(memcmp(with.gradients, without.gradients, with.blob * sizeof(float)), 0);
    ls_plan_free(judged);
    ls_plan_free(plan);
    free_replica(&with);
    free_replica(&without);
}

/* Dense layers and convolutions by one pixel work at each position by itself, and so does the loss: as many rows have
 * the same loss, gradients and metrics. */
TEST_EACH(positions_are_judged_each_by_itself, 4) {
    static const ls_layer pixels[] = {ls_conv2d(6, 1), ls_relu(), ls_conv2d(4, 1)},
                          each[] = {ls_dense(6, LS_RELU, .per_position = true), ls_dense(4, .per_position = true)},
                          flat[] = {ls_dense(6, LS_RELU), ls_dense(4)};
    bool convolves = _i / 2;
    struct replica positions = new_replica(convolves ? pixels : each, convolves ? 3 : 2, LS_SHAPE(2, 3, 5), 3);
    struct replica rows = new_replica(flat, 2, LS_SHAPE(5), 18);
    ls_loss loss = _i % 2 ? LS_CATEGORICAL_CROSSENTROPY : LS_SPARSE_CATEGORICAL_CROSSENTROPY;
    struct ls_plan_config config = plan_config(&positions, loss), want = plan_config(&rows, loss);
    config.objective.metrics[0] = want.objective.metrics[0] = (ls_metric)ls_sparse_categorical_accuracy();
    config.objective.metric_count = want.objective.metric_count = 1;
    config.objective.weighted_from = want.objective.weighted_from = 1;
    memcpy(positions.parameters, rows.parameters, rows.blob * sizeof(float));
    memcpy(positions.features, rows.features, 18 * 5 * sizeof(float));
    config.labels = rows.labels;
    run_plan(&want);
    run_plan(&config);
    ck_assert_double_le(fabs(positions.sums.loss - rows.sums.loss / 6), 1e-6 * rows.sums.loss);
    ck_assert_double_le(fabs(positions.sums.metrics[0] - rows.sums.metrics[0] / 6), 1e-9);
    ck_assert(positions.sums.rows == 3 && positions.sums.correct == rows.sums.correct);
    assert_near("gradients", positions.gradients, rows.gradients, (int64_t)rows.blob, 1e-5);
    free_replica(&positions);
    free_replica(&rows);
}

/* A bias that batch normalization takes away is as good as one that is added: the same loss, gradients and changes of
 * the statistics, but for roundings. An identity between keeps the second network from leaving it out. */
TEST_EACH(a_folded_bias_changes_nothing, 2) {
    const ls_layer folded[] = {_i ? ls_depthwise_conv2d(3, .name = "c") : ls_conv2d(5, 3, .name = "c"),
                               ls_batch_normalization(.momentum = 0.9F), ls_relu(), ls_dense(3)};
    const ls_layer plain[] = {folded[0], ls_rescaling(1), folded[1], ls_relu(), ls_dense(3)};
    struct replica a = new_replica(folded, COUNT_OF(folded), LS_SHAPE(6, 6, 2), 4);
    struct replica b = new_replica(plain, COUNT_OF(plain), LS_SHAPE(6, 6, 2), 4);
    struct ls_plan_config with = plan_config(&b, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan_config without = plan_config(&a, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    spoil_gradients(&a);
    run_plan(&without);
    run_plan(&with);
    ck_assert_uint_eq(a.blob, b.blob);
    ck_assert_double_eq_tol(a.sums.loss, b.sums.loss, 1e-5);
    for (size_t i = 0; i < a.blob; i++) ck_assert_float_eq_tol(a.gradients[i], b.gradients[i], 2e-6F);
    const struct ls_network_variable *bias = ls_network_variable(a.network, 1);
    ck_assert(all_zeros(a.gradients + bias->offset, bias->count));
    free_replica(&a);
    free_replica(&b);
}

/* Plans that share an arena give the bits that plans of their own give, in any order, wherever the arena has moved. */
TEST(a_shared_arena_changes_no_bit) {
    struct replica alone = new_replica(image, COUNT_OF(image), LS_SHAPE(6, 6, 2), 9);
    struct replica shared = new_replica(image, COUNT_OF(image), LS_SHAPE(6, 6, 2), 9);
    struct ls_optimizer_step step = {.iteration = 4};
    struct ls_arena arena = {.device = shared.device};
    struct ls_plan *plans[2], *own;
    struct ls_plan_config config = plan_config(&alone, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    config.step = &step;
    own = new_plan(&config);
    assert_ok(ls_plan_run(own, NULL, NULL));
    config = plan_config(&shared, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    config.step = &step;
    config.arena = &arena;
    config.rows = 2;
    plans[0] = new_plan(&config);
    config.rows = 9;
    plans[1] = new_plan(&config); /* larger: the arena moves */
    ck_assert_uint_ge(arena.size, ls_plan_memory(plans[1]));
    for (int i = 0; i < 4; i++) assert_ok(ls_plan_run(plans[i % 2], NULL, NULL));
    ck_assert_int_eq(memcmp(alone.gradients, shared.gradients, alone.blob * sizeof(float)), 0);
    ls_plan_free(own), ls_plan_free(plans[0]), ls_plan_free(plans[1]);
    ls_arena_release(&arena);
    free_replica(&alone);
    free_replica(&shared);
}

/* The plan for a device without host memory, run on one that has it. */
static struct ls_plan *new_far_plan(const struct replica *replica, const struct ls_plan_config *config) {
    replica->device->host_memory = false;
    struct ls_plan *plan = new_plan(config);
    replica->device->host_memory = true;
    return plan;
}

/* Memory by lifetimes: beside what convolutions give, nothing large outlives the layer after it. */
TEST(memory_is_shared_by_lifetimes) {
    ls_layer *layers = NULL;
    size_t count = 0;
    assert_ok(ls_application("mobilenet_v2", LS_APPLICATION(.classes = 2), &layers, &count));
    struct replica replica = new_replica(layers, count, LS_SHAPE(224, 224, 3), 2);
    struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = new_plan(&config);
    ck_assert_uint_le(ls_plan_memory(plan), 2 * 32000000); /* bytes a row */
    ls_plan_free(plan);
    plan = new_far_plan(&replica, &config);
    ck_assert_uint_le(ls_plan_memory(plan), 2 * 32000000);
    ls_plan_free(plan);
    config.training = false;
    plan = new_plan(&config);
    ck_assert_uint_le(ls_plan_memory(plan), 2 * 11000000); /* twice the largest image and a little */
    ls_plan_free(plan);
    ls_free(layers);
    free_replica(&replica);
}

TEST(both_gradients_of_a_depthwise_convolution_are_one_op_on_a_gpu) {
    static const ls_layer layers[] = {ls_conv2d(4, 3, .padding = LS_SAME),
                                      ls_batch_normalization(.name = "norm"),
                                      ls_depthwise_conv2d(3, 1, LS_SAME, .name = "first"),
                                      ls_depthwise_conv2d(3, 1, LS_SAME, .input = "norm"),
                                      ls_add("first"),
                                      ls_flatten(),
                                      ls_dense(4)};
    struct replica near = new_replica(layers, COUNT_OF(layers), LS_SHAPE(5, 6, 3), 3);
    struct replica far = new_replica(layers, COUNT_OF(layers), LS_SHAPE(5, 6, 3), 3);
    struct ls_plan_config config = plan_config(&far, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = new_far_plan(&far, &config);
    int both = 0;
    for (size_t i = 0; i < plan->count; i++) both += plan->steps[i].op.kind == LS_OP_DEPTHWISE_BACKWARD;
    ck_assert_int_eq(both, 2);
    assert_ok(ls_plan_run(plan, NULL, NULL));
    run_once(&near, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    ck_assert_int_eq(memcmp(near.gradients, far.gradients, near.blob * sizeof(float)), 0);
    ls_plan_free(plan);
    free_replica(&near);
    free_replica(&far);
}

static void assert_plan_refused(const struct ls_plan_config *config, const char *message) {
    struct ls_plan *plan = NULL;
    assert_refused(ls_plan_new(config, &plan), message);
    ck_assert_ptr_null(plan);
}

TEST(missing_parts_are_named) {
    struct replica replica = new_mlp(5);
    const struct ls_plan_config good = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan_config config = good;
    config.network = NULL;
    assert_plan_refused(&config, "plan: network is missing");
    config = good, config.device = NULL;
    assert_plan_refused(&config, "plan: device is missing");
    config = good, config.parameters = NULL;
    assert_plan_refused(&config, "plan: parameters is missing");
    config = good, config.features = NULL;
    assert_plan_refused(&config, "plan: features is missing");
    config = good, config.sums = NULL;
    assert_plan_refused(&config, "plan: sums is missing");
    config = good, config.gradients = NULL;
    assert_plan_refused(&config, "plan: gradients, which training needs, is missing");
    config = good, config.loss_scale = NULL;
    assert_plan_refused(&config, "plan: loss_scale, which training needs, is missing");
    free_replica(&replica);
}

TEST(bad_values_are_named) {
    struct replica replica = new_mlp(5);
    const struct ls_plan_config good = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan_config config = good;
    struct ls_plan *plan = NULL;
    config.rows = 0;
    assert_plan_refused(&config, "plan: rows 0 must be 1 or more");
    config = good, config.objective.loss = (ls_loss)8;
    assert_plan_refused(&config, "plan: loss 8 is no ls_loss");
    config = good, config.rows = INT64_MAX;
    ck_assert_int_eq(ls_plan_new(&config, &plan), LS_RESOURCE_EXHAUSTED);
    config.rows = INT64_MAX / 15;
    ck_assert_int_eq(ls_plan_new(&config, &plan), LS_RESOURCE_EXHAUSTED);
    ls_plan_free(NULL);
    free_replica(&replica);
}

TESTS("plan", .seconds = 60)
