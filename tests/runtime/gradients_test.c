/* Gradients that become ready in any order, from two threads, on each rank: means and sums of whole numbers, over every
 * transport, in packs of any size and of several types. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "harness.h"
#include "runtime/communicators.h"

static const char *const transports[] = {"shm", "tcp"};
enum { TRANSPORTS = 2, ARRAYS = 13, PASSES = 2, STEPS = 3, PERIOD = 5 /* of the values */ };

static const size_t counts[ARRAYS] = {70000, 5, 0, 900, 1, 4096, 33, 2, 1000, 17, 250, 64, 8};
static const bool local[ARRAYS] = {[3] = true, [12] = true};

struct part {
    ls_gradients *gradients;
    int64_t order[ARRAYS];
    int first, end;
    bool wide;
    void *const *arrays;
    int rank, step, pass;
};

static double given(int rank, int step, int pass, int array, size_t i) {
    return (double)((size_t)(rank + 2 * step + 3 * pass + array) * (i % PERIOD + 1) * 4);
}

static bool is_wide(int array) {
    return array % 4 == 1;
}

/* A backward pass of some arrays: each is added to, then told. */
static void *backward(void *argument) {
    struct part *part = argument;
    for (int k = part->first; k < part->end; k++) {
        int array = (int)part->order[k];
        double values[PERIOD];
        for (size_t i = 0; i < PERIOD; i++) values[i] = given(part->rank, part->step, part->pass, array, i);
        for (size_t i = 0; i < counts[array]; i++) {
            double value = values[i % PERIOD];
            if (is_wide(array))
                ((double *)part->arrays[array])[i] += value;
            else
                ((float *)part->arrays[array])[i] += (float)value;
        }
        if (array == 7 && part->rank == 1) continue; /* never told: added as it is */
        assert_ok(ls_gradients_ready(part->gradients, (size_t)array));
    }
    return NULL;
}

static void run_pass(struct member *member, ls_gradients *gradients, void *const *arrays, int step, int pass) {
    pthread_t thread;
    struct part part = {gradients,    .end = ARRAYS / 2, .arrays = arrays, .rank = member->rank,
                        .step = step, .pass = pass};
    ls_random_permutation(1, (uint64_t)(member->rank * 100 + step * 10 + pass), ARRAYS, part.order);
    struct part other = part;
    other.first = ARRAYS / 2;
    other.end = ARRAYS;
    ck_assert_int_eq(pthread_create(&thread, NULL, backward, &other), 0);
    (void)backward(&part);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static double sum_of(const struct member *member, int step, int array, size_t i) {
    double sum = 0;
    for (int rank = 0; rank < member->size; rank++)
        for (int pass = 0; pass < PASSES; pass++)
            if (!local[array] || rank == member->rank) sum += given(rank, step, pass, array, i);
    return sum;
}

static void check_step(const struct member *member, void *const *arrays, int step, bool sum) {
    for (int array = 0; array < ARRAYS; array++) {
        double wants[PERIOD];
        for (size_t i = 0; i < PERIOD; i++)
            wants[i] = sum_of(member, step, array, i) / (sum || local[array] ? 1 : member->size);
        for (size_t i = 0; i < counts[array]; i++) {
            double got = is_wide(array) ? ((double *)arrays[array])[i] : (double)((float *)arrays[array])[i];
            if (got != wants[i % PERIOD])
                ck_abort_msg("rank %d: array %d, element %zu: %g, not %g", member->rank, array, i, got,
                             wants[i % PERIOD]);
        }
    }
}

static ls_status train(struct member *member) {
    ls_gradients_options options = *(const ls_gradients_options *)member->context;
    void *arrays[ARRAYS];
    ls_dtype dtypes[ARRAYS];
    ls_gradients *gradients = NULL;
    for (int k = 0; k < ARRAYS; k++) {
        arrays[k] = malloc((counts[k] + 1) * sizeof(double));
        dtypes[k] = is_wide(k) ? LS_FLOAT64 : LS_FLOAT32;
    }
    ls_status status = ls_communicator_negotiate(member->communicator);
    options.arrays = arrays;
    options.counts = counts;
    options.dtypes = dtypes;
    options.array_count = ARRAYS;
    if (!status) status = ls_gradients_new(member->communicator, &options, &gradients);
    for (int step = 0; step < STEPS && !status; step++) {
        for (int k = 0; k < ARRAYS; k++) memset(arrays[k], 0, (counts[k] + 1) * sizeof(double));
        for (int pass = 0; pass < PASSES; pass++) run_pass(member, gradients, arrays, step, pass);
        status = ls_gradients_wait(gradients);
        if (!status) check_step(member, arrays, step, options.sum);
    }
    ls_gradients_free(gradients);
    for (int k = 0; k < ARRAYS; k++) free(arrays[k]);
    return status;
}

TEST_EACH(gradients_become_ready_in_any_order, TRANSPORTS) {
    const ls_gradients_options *options[] = {
        LS_GRADIENTS(NULL, .passes = PASSES, .local = local),
        LS_GRADIENTS(NULL, .passes = PASSES, .local = local, .sum = true, .bytes_per_pack = 1000, .predivide = 4),
        LS_GRADIENTS(NULL, .passes = PASSES, .local = local, .bytes_per_pack = 1)};
    for (int size = 1; size <= 4; size *= 2)
        for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
            members_run_ok(&(struct members_options){size, transports[_i]}, train, (void *)(uintptr_t)options[i]);
}

static ls_status compress(struct member *member) {
    float value = 1 + 0x1p-20F * (float)(1 + member->rank);
    void *const arrays[1] = {&value};
    const size_t one[1] = {1};
    const ls_dtype dtypes[1] = {LS_FLOAT32};
    ls_gradients *gradients = NULL;
    ls_status status = ls_communicator_negotiate(member->communicator);
    if (!status)
        status = ls_gradients_new(member->communicator,
                                  LS_GRADIENTS(arrays, one, dtypes, 1, .compression = LS_COMPRESS_BF16), &gradients);
    if (!status) status = ls_gradients_ready(gradients, 0);
    if (!status) status = ls_gradients_wait(gradients);
    ck_assert(status || value == 1); /* what crosses links is rounded */
    ls_gradients_free(gradients);
    return status;
}

TEST(compression_rounds_what_crosses_links) {
    members_run_ok(&(struct members_options){2, "tcp"}, compress, NULL);
}

static ls_status slip(struct member *member) {
    float value = 1;
    void *arrays[2] = {&value, NULL};
    const size_t one[2] = {1, 1};
    ls_dtype dtypes[2] = {LS_FLOAT32, LS_FLOAT32};
    ls_gradients *gradients = NULL;
    ls_communicator *communicator = member->communicator;
    assert_fails(ls_gradients_new(communicator, LS_GRADIENTS(arrays, one, dtypes, 1), &gradients),
                 LS_FAILED_PRECONDITION, "ls_communicator_negotiate");
    assert_ok(ls_communicator_negotiate(communicator));
    assert_refused(ls_gradients_new(communicator, LS_GRADIENTS(arrays, one, dtypes, 2), &gradients), "gradient 1");
    ck_assert_int_eq(ls_gradients_new(communicator, LS_GRADIENTS(arrays, one, dtypes, 1, .passes = -1), &gradients),
                     LS_INVALID_ARGUMENT);
    dtypes[0] = LS_BOOL;
    ck_assert_int_eq(ls_gradients_new(communicator, LS_GRADIENTS(arrays, one, dtypes, 1), &gradients),
                     LS_INVALID_ARGUMENT);
    dtypes[0] = LS_INT32;
    ck_assert_int_eq(ls_gradients_new(communicator, LS_GRADIENTS(arrays, one, dtypes, 1, .predivide = 2), &gradients),
                     LS_INVALID_ARGUMENT);
    dtypes[0] = LS_FLOAT32;
    assert_ok(ls_gradients_new(communicator, LS_GRADIENTS(arrays, one, dtypes, 1), &gradients));
    ck_assert_int_eq(ls_gradients_ready(gradients, 1), LS_INVALID_ARGUMENT);
    assert_ok(ls_gradients_ready(gradients, 0));
    ck_assert_int_eq(ls_gradients_ready(gradients, 0), LS_FAILED_PRECONDITION);
    assert_ok(ls_gradients_wait(gradients));
    ls_gradients_free(gradients);
    return LS_OK;
}

TEST(slips_are_named) {
    members_run_ok(&(struct members_options){1, "tcp"}, slip, NULL);
}

TESTS("runtime/gradients", .seconds = 200)
