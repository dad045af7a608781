/* Positions whose label is -1: torch's loss, gradients and accuracy, and slopes of the loss. */
#include "golden/golden.h"
#include "model/model_fixture.h"

enum { IDS = 7, WIDTH = 4, HIDDEN = 5 };

struct masked {
    struct golden *golden;
    struct replica replica;
    int32_t *labels;
    double counted;
    struct ls_plan_config config;
};

static const ls_layer layers[] = {ls_embedding(IDS, WIDTH, .name = "embedding"),
                                  ls_dense(HIDDEN, LS_RELU, .per_position = true, .name = "dense"),
                                  ls_dense(IDS, .per_position = true, .name = "dense_1")};

/* The scale is that of train/label_count.c. */
static void open_masked(struct masked *masked) {
    *masked = (struct masked){.golden = golden_open("uncounted.txt")};
    const struct golden_tensor *ids = golden_find(masked->golden, "ids"),
                               *labels = golden_find(masked->golden, "labels");
    struct replica *replica = &masked->replica;
    *replica = new_replica(layers, COUNT_OF(layers), LS_SHAPE(ids->shape.dims[1]), ids->shape.dims[0]);
    masked->labels = ls_alloc_array((size_t)labels->count, sizeof(int32_t));
    memcpy(replica->features, ids->values, (size_t)ids->count * sizeof(float));
    for (int64_t i = 0; i < labels->count; i++) masked->labels[i] = (int32_t)labels->values[i];
    for (int64_t i = 0; i < labels->count; i++) masked->counted += masked->labels[i] >= 0;
    for (int v = 0; v < ls_network_variable_count(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        memcpy(replica->parameters + variable->offset, golden_find(masked->golden, "%s", variable->name)->values,
               variable->count * sizeof(float));
    }
    replica->scale = (float)((double)ids->shape.dims[1] / masked->counted);
}

static double run_masked(struct masked *masked, float smoothing) {
    struct replica *replica = &masked->replica;
    masked->config = plan_config(replica, LS_SPARSE_CATEGORICAL_CROSSENTROPY);
    masked->config.labels = masked->labels;
    masked->config.objective.label_smoothing = smoothing;
    run_plan(&masked->config);
    return replica->sums.loss * (double)replica->input.dims[0] / masked->counted;
}

static void close_masked(struct masked *masked) {
    ls_free(masked->labels);
    free_replica(&masked->replica);
    golden_close(masked->golden);
}

TEST(loss_gradients_and_accuracy_equal_torch) {
    struct masked masked;
    open_masked(&masked);
    const struct replica *replica = &masked.replica;
    float smoothed = (float)run_masked(&masked, 0.1F), loss = (float)run_masked(&masked, 0);
    assert_near("smoothed", &smoothed, golden_find(masked.golden, "smoothed")->values, 1, 1e-6);
    assert_near("loss", &loss, golden_find(masked.golden, "loss")->values, 1, 1e-6);
    ck_assert_int_eq(replica->sums.correct, (int64_t)golden_find(masked.golden, "right")->values[0]);
    ck_assert_int_eq(replica->sums.uncounted, 30 - (int64_t)masked.counted);
    for (int v = 0; v < ls_network_variable_count(replica->network); v++) {
        const struct ls_network_variable *variable = ls_network_variable(replica->network, v);
        const struct golden_tensor *wanted = golden_find(masked.golden, "gradient/%s", variable->name);
        assert_near(variable->name, replica->gradients + variable->offset, wanted->values, wanted->count, 1e-5);
    }
    close_masked(&masked);
}

/* In float32, so of a few elements each, and coarse. */
TEST(gradients_agree_with_finite_differences) {
    struct masked masked;
    open_masked(&masked);
    struct replica *replica = &masked.replica;
    (void)run_masked(&masked, 0);
    float *gradients = new_floats((int64_t)replica->blob), step = 0.01F;
    memcpy(gradients, replica->gradients, replica->blob * sizeof(float));
    for (size_t i = 0; i < replica->blob; i += 3) {
        float held = replica->parameters[i];
        replica->parameters[i] = held + step;
        double above = run_masked(&masked, 0);
        replica->parameters[i] = held - step;
        double below = run_masked(&masked, 0);
        replica->parameters[i] = held;
        double slope = (above - below) / (2 * (double)step);
        ck_assert_msg(fabs(slope - (double)gradients[i]) <= 2e-3, "parameter %zu: slope %g, gradient %g", i, slope,
                      (double)gradients[i]);
    }
    ls_free(gradients);
    close_masked(&masked);
}

TESTS("uncounted")
