/* The last layer and the loss in parts of rows: drawn heads beside plans of so few rows that each is one part, whose
 * gradients and sums are added up; the memory; and when gradients are ready. */
#include <stdio.h>

#include "harness.h"
#include "model/model_fixture.h"
#include "model/plan.h"
#include "model/plan_builder.h"

enum { IDS = 3000, WIDTH = 5, PLACES = 8, ROUNDS = SANITIZED ? 3 : 12 };
#define LAYERS                                                                                                         \
    ls_embedding(IDS, WIDTH, .name = "words"), ls_layer_normalization(),                                               \
        ls_dense(WIDTH, LS_GELU, .per_position = true, .name = "middle")

/* A batch with all that a loss may take, and parts of its rows. */
struct batch {
    struct replica replica;
    struct ls_plan_config config;
    ls_metric metrics[LS_MAX_METRICS];
    float *features, *weights, *numbers;
    int32_t *labels;
};

static struct replica new_head(int kind, bool frozen, int64_t rows) {
    const ls_layer tied[] = {LAYERS, ls_tied_dense("words")};
    const ls_layer own[] = {LAYERS, ls_dense(IDS, .per_position = true, .frozen = frozen)};
    const ls_layer flat[] = {LAYERS, ls_flatten(), ls_dense(IDS, .frozen = frozen)};
    const ls_layer *const all[] = {tied, own, flat};
    return new_replica(all[kind], COUNT_OF(own) + (kind == 2), LS_SHAPE(PLACES), rows);
}

static void fill_targets(struct batch *batch, int64_t positions, uint64_t seed) {
    for (int64_t i = 0; i < batch->replica.rows * positions; i++) {
        uint64_t bits = ls_random_bits(seed, 2, (uint64_t)i);
        batch->labels[i] = positions > 1 && bits % 5 == 0 ? LS_LABEL_UNCOUNTED : (int32_t)(bits / 8 % IDS);
    }
    for (int64_t i = 0; i < batch->replica.rows; i++)
        batch->weights[i] = 0.5F + (float)(ls_random_bits(seed, 3, (uint64_t)i) % 7);
    for (int64_t i = 0; batch->numbers && i < batch->replica.rows * positions * IDS; i++)
        batch->numbers[i] = (float)(i % 11) / 8;
}

static void open_batch(struct batch *batch, uint64_t seed) {
    uint64_t bits = ls_random_bits(seed, 1, 0);
    bool counts = bits / 4 % 4 == 0;
    int kind = counts ? 2 : (int)(bits % 3);
    int64_t positions = kind < 2 ? PLACES : 1, rows = (kind < 2 ? 90 : 700) + (int64_t)(bits / 64 % 60);
    *batch = (struct batch){.replica = new_head(kind, bits / 16 % 2, rows),
                            .metrics = {ls_top_k(40), ls_sparse_categorical_accuracy()}};
    struct replica *replica = &batch->replica;
    for (int64_t i = 0; i < rows * PLACES; i++)
        replica->features[i] = (float)(ls_random_bits(seed, 4, (uint64_t)i) % IDS);
    batch->labels = ls_alloc_array((size_t)(rows * positions), sizeof(int32_t));
    batch->weights = ls_alloc_array((size_t)rows, sizeof(float));
    batch->numbers = counts ? new_floats(rows * positions * IDS) : NULL;
    ck_assert(batch->labels && batch->weights);
    fill_targets(batch, positions, seed);
    batch->features = replica->features;
    batch->config = plan_config(replica, counts ? LS_MEAN_SQUARED_ERROR : LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    batch->config.labels = counts ? NULL : batch->labels;
    batch->config.numbers = batch->numbers;
    batch->config.weights = bits / 32 % 2 ? batch->weights : NULL;
    batch->config.objective.label_smoothing = counts || bits / 128 % 2 ? 0 : 0.1F;
    batch->config.objective.metric_count = counts ? 0 : 2;
    memcpy(batch->config.objective.metrics, batch->metrics, sizeof(batch->metrics));
}

static void close_batch(struct batch *batch) {
    batch->replica.features = batch->features;
    ls_free(batch->labels);
    ls_free(batch->weights);
    ls_free(batch->numbers);
    free_replica(&batch->replica);
}

static int64_t part_of(const struct batch *batch) {
    const struct ls_network *network = batch->replica.network;
    return ls_plan_head_rows(&batch->config, ls_network_node(network, ls_network_layer_count(network) - 1));
}

/* The gradients and sums of plans over a few rows each. */
static void run_apart(const struct batch *batch, int64_t few, float *gradients, struct ls_loss_sums *sums) {
    const struct replica *replica = &batch->replica;
    int64_t positions = ls_network_output_shape(replica->network)->rank > 1 ? PLACES : 1;
    for (int64_t at = 0, rows; at < replica->rows; at += rows) {
        struct ls_plan_config config = batch->config;
        rows = config.rows = few < replica->rows - at ? few : replica->rows - at;
        ck_assert_int_eq(part_of(&(struct batch){.replica = *replica, .config = config}), rows);
        config.features = (const float *)config.features + at * PLACES;
        if (config.labels) config.labels += at * positions;
        if (config.numbers) config.numbers += at * positions * IDS;
        if (config.weights) config.weights += at;
        run_plan(&config);
        for (size_t i = 0; i < replica->blob; i++) gradients[i] += replica->gradients[i];
        ls_op_add_loss_sums(sums, &replica->sums);
    }
}

static void compare(const struct batch *batch, const float *gradients, const struct ls_loss_sums *sums) {
    const struct replica *replica = &batch->replica;
    const struct ls_loss_sums *is = &replica->sums;
    for (int v = 0; v < ls_network_summed_variables(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        assert_near(variable->name, replica->gradients + variable->offset, gradients + variable->offset,
                    (int64_t)variable->count, 2e-5);
    }
    ck_assert_double_le(fabs(is->loss - sums->loss), 1e-9 * sums->loss);
    ck_assert_double_le(fabs(is->weight - sums->weight), 1e-9 * sums->weight);
    ck_assert(is->correct == sums->correct && is->rows == sums->rows && is->uncounted == sums->uncounted);
    for (int i = 0; i < batch->config.objective.metric_count; i++)
        ck_assert_double_le(fabs(is->metrics[i] - sums->metrics[i]), 1e-9 * (double)replica->rows);
}

/* Twice: nothing is left over from the run before. */
TEST(parts_add_up) {
    uint64_t seed = first_seed();
    for (int round = 0; round < ROUNDS; round++) {
        struct batch batch;
        struct ls_loss_sums sums = {0};
        struct ls_plan *plan = NULL;
        open_batch(&batch, seed + (uint64_t)round);
        ck_assert_int_lt(part_of(&batch), batch.replica.rows);
        float *gradients = new_floats((int64_t)batch.replica.blob);
        memset(gradients, 0, batch.replica.blob * sizeof(float));
        memset(batch.replica.gradients, 0, batch.replica.blob * sizeof(float));
        run_apart(&batch, part_of(&batch) / 2, gradients, &sums);
        batch.config.objective.recompute = (ls_recompute)(round % 4);
        assert_ok(ls_plan_new(&batch.config, &plan));
        for (int i = 0; i < 2; i++) assert_ok(ls_plan_run(plan, NULL, NULL));
        compare(&batch, gradients, &sums);
        batch.config.training = false;
        run_plan(&batch.config);
        compare(&batch, gradients, &sums);
        ls_plan_free(plan);
        ls_free(gradients);
        close_batch(&batch);
    }
}

static size_t bytes_of(const ls_layer *layers, size_t count, int64_t rows, bool judged) {
    static const int32_t label = 0; /* for a plan that is only laid out */
    struct ls_plan_cost cost;
    struct ls_network *network = NULL;
    struct ls_device *device = open_cpu();
    assert_ok(ls_network_new(layers, count, &LS_SHAPE(256), &network));
    const struct ls_plan_config config = {
        .network = network, .device = device, .rows = rows, .training = true, .labels = judged ? &label : NULL};
    assert_ok(ls_plan_cost(&config, LS_RECOMPUTE_BLOCKS, &cost));
    ls_network_free(network);
    ls_device_close(device);
    return cost.arena;
}

/* GPT-2's, of two blocks. */
TEST(a_head_takes_the_memory_of_one_part) {
    enum { VOCABULARY = 50257, LENGTH = 256 };
    ls_layer *layers = NULL;
    size_t count = 0;
    assert_ok(ls_application("gpt2", LS_APPLICATION(.classes = VOCABULARY, .layers = 2, .heads = 4, .width = 128),
                             &layers, &count));
    for (int64_t rows = 2; rows <= 16; rows *= 2) {
        size_t without = bytes_of(layers, count - 1, rows, false), with = bytes_of(layers, count, rows, true);
        size_t part = (size_t)VOCABULARY * LENGTH * sizeof(float);
        ck_assert_msg(with <= without + part + 1024, "%lld rows: %zu bytes, %zu without", (long long)rows, with,
                      without);
    }
    ls_memory_free(layers);
}

struct told {
    size_t offsets[8];
    int count;
};

static void hear(void *context, size_t offset) {
    struct told *told = context;
    ck_assert_int_lt(told->count, 8);
    told->offsets[told->count++] = offset;
}

/* Once each: the loss, then the head's kernel, ... */
TEST(gradients_are_ready_with_the_last_part) {
    struct replica replica = new_head(1, false, 100);
    int32_t *labels = ls_alloc_array(100 * PLACES, sizeof(int32_t));
    struct ls_plan_config config = plan_config(&replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = NULL;
    struct told told = {.count = 0};
    ck_assert_ptr_nonnull(labels);
    memset(labels, 0, 100 * PLACES * sizeof(int32_t));
    for (int64_t i = 0; i < 100 * PLACES; i++) replica.features[i] = (float)(i % IDS);
    config.labels = labels;
    assert_ok(ls_plan_new(&config, &plan));
    assert_ok(ls_plan_run(plan, hear, &told));
    ck_assert_int_eq(told.count, 5);
    ck_assert_uint_eq(told.offsets[0], ls_network_trainable_count(replica.network));
    ck_assert_uint_eq(told.offsets[1], ls_network_variable(replica.network, 5)->offset);
    ck_assert_uint_eq(told.offsets[4], 0);
    ls_plan_free(plan);
    ls_free(labels);
    free_replica(&replica);
}

TESTS("head", .seconds = 120)
