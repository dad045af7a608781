/* A convolution's bias before a batch normalization, which training leaves out: moving means have it nevertheless. */
#include "harness.h"
#include "model/model_fixture.h"
#include "model/plan_run.h"

/* The identity between the two keeps them apart, and changes nothing. */
static const ls_layer folded[] = {ls_conv2d(64, 3, .name = "a"), ls_batch_normalization(.name = "b"),
                                  ls_conv2d(64, 1, .name = "c"), ls_batch_normalization(.name = "d"), ls_dense(3)};
static const ls_layer apart[] = {ls_conv2d(64, 3, .name = "a"),
                                 ls_activation(LS_LINEAR),
                                 ls_batch_normalization(.name = "b"),
                                 ls_conv2d(64, 1, .name = "c"),
                                 ls_activation(LS_LINEAR),
                                 ls_batch_normalization(.name = "d"),
                                 ls_dense(3)};

/* Fewer images than channels, and more; each over a few images at a time. */
TEST_EACH(moving_means_have_the_bias, 3) {
    static const int64_t rows[] = {12, 64, 200};
    struct replica replicas[2] = {new_replica(folded, COUNT_OF(folded), LS_SHAPE(20, 20, 3), rows[_i]),
                                  new_replica(apart, COUNT_OF(apart), LS_SHAPE(20, 20, 3), rows[_i])};
    ck_assert_uint_eq(replicas[0].blob, replicas[1].blob);
    for (int i = 0; i < 2; i++) {
        struct ls_plan_config config = plan_config(&replicas[i], LS_SPARSE_CATEGORICAL_CROSSENTROPY);
        run_plan(&config);
    }
    size_t first = ls_network_trainable_count(replicas[0].network);
    assert_near("changes of statistics", replicas[0].gradients + first, replicas[1].gradients + first,
                (int64_t)(replicas[0].blob - first), 1e-4);
    for (int i = 0; i < 2; i++) free_replica(&replicas[i]);
}

TESTS("fold", .seconds = 60)
