/* A worker's replicas become more and fewer, as where others are lost and come back; and memory that runs out at any
 * point of that leaves those that were there before. */
#include <stdatomic.h>
#include <string.h>

#include "harness.h"
#include "property/draw.h"
#include "strategy/placement.h"
#include "train/bind.h"
#include "train/model.h"
#include "train/fit.h"

#define BEFORE 2
#define AFTER  5

/* The process's, for calls that the linker wraps: which allocation of this thread fails; 0: none. */
static _Thread_local long failing;

void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);

static bool fails(void) {
    return failing > 0 && --failing == 0;
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

struct job {
    ls_strategy *strategy;
    ls_dataset *data;
    ls_model *model;
    ls_variable *variable;
    _Atomic int ran;
};

static void train(struct job *job) {
    assert_ok(ls_model_fit(job->model, job->data, LS_FIT(.verbose = -1), NULL));
}

static void start(struct job *job) {
    static const float initial[3] = {1, 2, 3};
    assert_ok(ls_mirrored_strategy_new(LS_STRATEGY(.devices = "2"), &job->strategy));
    assert_ok(ls_dataset_digits(LS_DATASET(.batch_size = 20, .limit = 40), &job->data));
    assert_ok(ls_model_new(job->strategy, LS_LAYERS(ls_dense(7, LS_RELU), ls_dense(10)), &job->model));
    assert_ok(ls_model_compile(job->model, ls_adam(0.01F), LS_SPARSE_CATEGORICAL_CROSSENTROPY));
    assert_ok(
        ls_variable_new(job->strategy, "v", LS_VARIABLE(.shape = LS_SHAPE(3), .initial = initial), &job->variable));
    train(job);
}

static void end(struct job *job) {
    ls_model_free(job->model);
    ls_dataset_free(job->data);
    ls_strategy_free(job->strategy);
}

/* As when all workers together have so many replicas, and this one is left of them. */
static ls_status take_over(struct job *job, int replicas) {
    ls_bind_detach(job->model);
    job->strategy->base_count = replicas;
    return ls_placement_number(job->strategy);
}

static ls_status count_replica(ls_replica *replica, void *context) {
    struct job *job = context;
    const float *values = ls_variable_data(job->variable, replica);
    job->ran++;
    return values[0] == 1 && values[2] == 3 ? LS_OK : ls_fail(LS_DATA_LOSS, "the variable's copy is another one");
}

static void check_runs(struct job *job, int replicas) {
    job->ran = 0;
    ck_assert_int_eq(job->strategy->local_count, replicas);
    assert_ok(ls_strategy_run(job->strategy, count_replica, job));
    ck_assert_int_eq(job->ran, replicas);
    assert_ok(ls_replica_check(job->model));
}

TEST(more_and_fewer) {
    static const int counts[] = {AFTER, 3, AFTER, BEFORE};
    struct job job = {0};
    start(&job);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        assert_ok(take_over(&job, counts[i]));
        check_runs(&job, counts[i]);
        train(&job);
        check_runs(&job, counts[i]);
    }
    end(&job);
}

TEST(without_memory) {
    struct job job = {0};
    int failed = 0;
    ls_status status;
    start(&job);
    do {
        failing = failed + 1;
        status = take_over(&job, AFTER);
        bool was_reached = failing == 0;
        failing = 0;
        check_runs(&job, status ? BEFORE : AFTER);
        ck_assert_msg(!status || (was_reached && status == LS_RESOURCE_EXHAUSTED), "%s", ls_error());
        failed += status != LS_OK;
    } while (status);
    ck_assert_int_gt(failed, 15); /* replicas, devices, variables, the model's gradients and buffers */
    train(&job);
    end(&job);
}

/* One bit of any element of any blob of the second device. The third replica has the first one's. */
TEST(a_difference_is_named) {
    struct draw draw = draw_from(first_seed(), 0);
    struct job job = {0};
    start(&job);
    assert_ok(take_over(&job, 3));
    for (int k = 0; k < 50; k++) {
        const struct ls_shard_part *part = &job.model->built.state[draw_below(&draw, job.model->built.state_count)];
        uint32_t *words = (uint32_t *)job.model->built.replicas[1].blobs[part->blob];
        uint32_t *word = &words[draw_below(&draw, part->count)], bit = 1U << draw_below(&draw, 32);
        char named[80];
        (void)snprintf(named, sizeof(named), "the %s of replicas 0 and 1 differ after",
                       part->blob ? "moments" : "variables");
        *word ^= bit;
        ck_assert_int_eq(ls_replica_check(job.model), LS_DATA_LOSS);
        ck_assert_ptr_nonnull(strstr(ls_error(), named));
        *word ^= bit;
        assert_ok(ls_replica_check(job.model));
    }
    end(&job);
}

TESTS("strategy/resize", .seconds = 120)
