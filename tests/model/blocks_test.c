/* Drawn networks with branches have the same bits whether values are kept for backward, or made again singly or by
 * blocks; and the memory of a transformer. */
#include <stdio.h>

#include "harness.h"
#include "model/model_fixture.h"
#include "model/plan.h"

enum { POSITIONS = 4, WIDTH = 6, MOST_LAYERS = 32, ROUNDS = SANITIZED ? 20 : 80 };

/* A network whose layers are "0", "1", ...: all that may be joined are (POSITIONS, WIDTH). */
struct drawing {
    uint64_t seed, draws;
    ls_layer layers[MOST_LAYERS];
    size_t count;
    char names[MOST_LAYERS][4];
    const char *joinable[MOST_LAYERS];
    size_t joinables;
};

static uint64_t draw(struct drawing *drawing, uint64_t below) {
    return ls_random_bits(drawing->seed, 3, drawing->draws++) % below;
}

static void put(struct drawing *drawing, ls_layer layer) {
    char *name = drawing->names[drawing->count];
    (void)snprintf(name, sizeof(drawing->names[0]), "%zu", drawing->count);
    layer.name = name;
    drawing->layers[drawing->count++] = layer;
}

/* A layer that gives (POSITIONS, WIDTH). */
static void put_joinable(struct drawing *drawing, ls_layer layer) {
    put(drawing, layer);
    drawing->joinable[drawing->joinables++] = drawing->names[drawing->count - 1];
}

static ls_activation draw_activation(struct drawing *drawing) {
    static const ls_activation all[] = {LS_LINEAR, LS_RELU, LS_TANH, LS_SIGMOID, LS_SOFTMAX, LS_GELU, LS_SILU};
    return all[draw(drawing, COUNT_OF(all))];
}

static const char *draw_joinable(struct drawing *drawing) {
    return drawing->joinable[draw(drawing, drawing->joinables)];
}

static ls_layer draw_dense(struct drawing *drawing) {
    return (ls_layer)ls_dense(WIDTH, draw_activation(drawing), .per_position = true, .frozen = !draw(drawing, 8));
}

static void put_attention(struct drawing *drawing) {
    put(drawing, (ls_layer)ls_dense(3 * WIDTH, .per_position = true));
    put_joinable(drawing, (ls_layer)ls_attention(1 + (int)draw(drawing, 3)));
}

static void put_join(struct drawing *drawing) {
    const char *other = draw_joinable(drawing);
    bool itself = other == drawing->names[drawing->count - 1];
    switch (draw(drawing, 4)) {
    case 0:
        put_joinable(drawing, (ls_layer)ls_multiply(other));
        return;
    case 1:
        put(drawing, (ls_layer)ls_concatenate(other));
        put_joinable(drawing, draw_dense(drawing));
        return;
    default:
        put_joinable(drawing, itself ? (ls_layer)ls_dropout(0.2F) : (ls_layer)ls_add(other));
    }
}

/* A second way from an earlier value, which ends in a sum with the first. */
static void put_branch(struct drawing *drawing) {
    const char *last = drawing->names[drawing->count - 1];
    put_joinable(drawing, (ls_layer)ls_dense(WIDTH, .per_position = true, .input = draw_joinable(drawing)));
    put_joinable(drawing, (ls_layer)ls_add(last));
}

static void put_layers(struct drawing *drawing) {
    switch (draw(drawing, 13)) {
    case 0:
        put_joinable(drawing, draw_dense(drawing));
        return;
    case 1:
        put_joinable(drawing, (ls_layer)ls_activation(draw_activation(drawing)));
        return;
    case 2:
        put_joinable(drawing, (ls_layer)ls_layer_normalization(.frozen = !draw(drawing, 4)));
        return;
    case 3:
        put_joinable(drawing, (ls_layer)ls_rms_normalization());
        return;
    case 4:
        put_joinable(drawing, (ls_layer)ls_batch_normalization(.frozen = !draw(drawing, 4)));
        return;
    case 5:
        put_joinable(drawing, (ls_layer)ls_dropout(0.3F));
        return;
    case 6:
        put_branch(drawing);
        return;
    case 7:
        put_attention(drawing);
        return;
    case 8:
        put_joinable(drawing, (ls_layer)ls_lstm(WIDTH, .return_sequences = true));
        return;
    case 9:
        put_joinable(drawing, (ls_layer)ls_gru(WIDTH, .return_sequences = true, .frozen = !draw(drawing, 4)));
        return;
    default:
        put_join(drawing);
    }
}

static void draw_network(struct drawing *drawing) {
    put_joinable(drawing, draw_dense(drawing));
    for (size_t pieces = 3 + draw(drawing, 10); pieces > 0; pieces--) put_layers(drawing);
    put(drawing, (ls_layer)ls_dense(3));
}

/* Twice by one plan, whose memory then has what the first run left. Returns the arena's bytes. */
static size_t run_so(struct replica *replica, ls_recompute recompute, float *gradients) {
    const struct ls_optimizer_step step = {.iteration = 3};
    struct ls_plan_config config = plan_config(replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    struct ls_plan *plan = NULL;
    config.objective.recompute = recompute;
    config.seed = 5;
    config.step = &step;
    memset(replica->gradients, 0, replica->blob * sizeof(float));
    assert_ok(ls_plan_new(&config, &plan));
    size_t floats = plan->floats;
    for (int i = 0; i < 2; i++) assert_ok(ls_plan_run(plan, NULL, NULL));
    memcpy(gradients, replica->gradients, replica->blob * sizeof(float));
    ls_plan_free(plan);
    return floats * sizeof(float);
}

TEST(drawn_networks_have_the_bits_of_values_that_are_kept) {
    int smaller = 0;
    for (uint64_t round = 0; round < ROUNDS || (smaller < ROUNDS / 8 && round < 10 * (uint64_t)ROUNDS); round++) {
        struct drawing drawing = {.seed = first_seed() + round};
        draw_network(&drawing);
        struct replica replica = new_replica(drawing.layers, drawing.count, LS_SHAPE(POSITIONS, WIDTH), 5);
        float *kept = new_floats((int64_t)replica.blob), *again = new_floats((int64_t)replica.blob);
        size_t bytes[] = {run_so(&replica, LS_RECOMPUTE_NONE, kept), 0, 0};
        double loss = replica.sums.loss;
        for (int r = 1; r < 3; r++) {
            bytes[r] = run_so(&replica, (ls_recompute)(LS_RECOMPUTE_NONE + r), again);
            ck_assert_msg(!memcmp(kept, again, replica.blob * sizeof(float)), "seed %llu, recompute %d: other bits",
                          (unsigned long long)drawing.seed, r);
            ck_assert(loss >= replica.sums.loss && loss <= replica.sums.loss);
        }
        smaller += bytes[2] < bytes[1] && bytes[1] <= bytes[0];
        ls_free(kept);
        ls_free(again);
        free_replica(&replica);
    }
    ck_assert_int_ge(smaller, ROUNDS / 8);
}

static size_t bytes_of(const char *model, int blocks, ls_recompute recompute) {
    struct ls_network *network = NULL;
    struct ls_plan_cost cost;
    ls_layer *layers = NULL;
    size_t count = 0;
    assert_ok(ls_application(model, LS_APPLICATION(.classes = 65, .layers = blocks, .heads = 4, .width = 64), &layers,
                             &count));
    assert_ok(ls_network_new(layers, count, &LS_SHAPE(64), &network));
    struct ls_device *device = open_cpu();
    const struct ls_plan_config config = {.network = network, .device = device, .rows = 4, .training = true};
    assert_ok(ls_plan_cost(&config, recompute, &cost));
    ls_device_close(device);
    ls_network_free(network);
    ls_memory_free(layers);
    return cost.arena;
}

/* Another block adds its two sums, where it adds all of its values else. */
TEST(a_block_keeps_its_input) {
    static const char *const models[] = {"gpt", "gpt2", "llama"};
    const size_t sum = (size_t)4 * 64 * 64 * sizeof(float);
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        size_t few = bytes_of(models[m], 6, LS_RECOMPUTE_BLOCKS), many = bytes_of(models[m], 12, LS_RECOMPUTE_BLOCKS);
        size_t kept = bytes_of(models[m], 6, LS_RECOMPUTE_NONE);
        ck_assert_msg((double)few <= 0.4 * (double)kept, "%s: %zu of %zu", models[m], few, kept);
        ck_assert_msg(many - few <= 13 * sum, "%s: %zu, then %zu", models[m], few, many);
    }
}

TESTS("blocks", .seconds = 60)
