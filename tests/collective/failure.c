/* Failures while a collective runs: a rank that never comes, links that break anywhere, an abort from another thread,
 * bad arguments. Every wait ends, with the cause. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "collective/collectives.h"
#include "collective/link/tcp.h"
#include "collective/world.h"
#include "harness.h"

static ls_status reduce(struct rank *rank, ls_communication communication, size_t count) {
    float *data = calloc(count + 1, sizeof(*data));
    ck_assert_ptr_nonnull(data);
    const void *inputs[1] = {data};
    void *outputs[1] = {data};
    struct ls_all_reduce call = {.name = "gradients",
                                 .communication = communication,
                                 .dtype = LS_FLOAT32,
                                 .count = count,
                                 .inputs = inputs,
                                 .outputs = outputs};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    free(data);
    return status;
}

/* ---- a rank that never comes ---- */

static ls_status absent_rank(struct rank *rank) {
    const ls_communication *communication = rank->context;
    ls_status status = rank->rank == 1 ? LS_OK : reduce(rank, *communication, 100000);
    (void)pthread_barrier_wait(rank->barrier); /* links stay open until all have given up */
    return status;
}

TEST_RANGE(an_absent_rank_is_named_at_the_deadline, LS_AUTO, LS_RING + 1) {
    ls_communication communication = (ls_communication)_i;
    struct world_options options = {.size = 4, .timeout = 0.3};
    struct world world;
    int64_t start = ls_now();
    world_run(&options, absent_rank, &communication, &world);
    assert_within(start, 2);
    for (int i = 0; i < 4; i++) {
        if (i == 1) continue;
        ck_assert_int_eq(world.ranks[i].status, LS_DEADLINE_EXCEEDED);
        ck_assert_msg(strstr(world.ranks[i].error, "for rank 1 (") != NULL, "%s", world.ranks[i].error);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "all_reduce 'gradients' (sequence 0)"));
    }
}

struct lines {
    pthread_mutex_t mutex;
    int count;
    char last[1200];
};

static void keep_line(void *context, ls_log_level level, const char *line) {
    struct lines *lines = context;
    (void)level;
    (void)pthread_mutex_lock(&lines->mutex);
    lines->count++;
    (void)snprintf(lines->last, sizeof(lines->last), "%s", line);
    (void)pthread_mutex_unlock(&lines->mutex);
}

TEST(a_wait_says_for_whom) {
    struct lines lines = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct ls_log log = {.sink = keep_line, .context = &lines, .level = LS_LOG_INFO};
    ls_communication communication = LS_AUTO;
    struct world_options options = {.size = 2, .timeout = 0.5, .report_interval = limit_of(0.1), .log = &log};
    struct world world;
    world_run(&options, absent_rank, &communication, &world);
    ck_assert_int_ge(lines.count, 2);
    ck_assert_int_le(lines.count, 5);
    ck_assert_ptr_nonnull(strstr(lines.last, "waiting for rank 1"));
    ck_assert_ptr_nonnull(strstr(lines.last, "all_reduce 'gradients' (sequence 0)"));
}

/* ---- links that break ---- */

/* As a process that ends: its links close, so that those who wait for it in turn learn of it. */
static void leave(struct rank *rank) {
    ls_group_free(rank->group);
    rank->group = NULL;
}

static ls_status breaking(struct rank *rank) {
    const ls_communication *communication = rank->context;
    ls_status status = LS_OK;
    for (int i = 0; !status && i < 100; i++) status = reduce(rank, *communication, 30000);
    leave(rank);
    return status;
}

/* The last byte may lie in a frame, in an element, or in a later collective. */
TEST_EACH(a_broken_link_is_named, 4) {
    static const size_t budgets[] = {159, 160, 60001, 123456};
    for (int communication = LS_AUTO; communication <= LS_RING; communication++) {
        ls_communication chosen = (ls_communication)communication;
        struct world_options options = {.size = 3, .break_rank = 1, .break_after = budgets[_i]};
        struct world world;
        int64_t start = ls_now();
        world_run(&options, breaking, &chosen, &world);
        assert_within(start, 5);
        int named = 0;
        for (int i = 0; i < 3; i++) {
            if (i == 1) continue;
            ck_assert_int_eq(world.ranks[i].status, LS_UNAVAILABLE);
            named += strstr(world.ranks[i].error, "lost the connection to rank 1") != NULL;
        }
        ck_assert_int_ge(named, 1);
    }
}

/* ---- links on which nothing moves any more ---- */

static ls_status stalling(struct rank *rank) {
    char data[100000] = "";
    bool broadcasts = *(const bool *)rank->context;
    ls_status status =
        broadcasts ? ls_group_broadcast(rank->group, LS_BROADCAST("weights", data, sizeof(data) / 4, LS_FLOAT32, 1))
                   : reduce(rank, LS_AUTO, 30000);
    (void)pthread_barrier_wait(rank->barrier);
    return status;
}

/* A rank that came and does not go on is told apart from one that never came. */
TEST_EACH(a_stalled_link_is_named, 2) {
    bool broadcasts = _i;
    struct world_options options = {.size = 2, .timeout = 0.4, .break_rank = 1, .break_after = 20001, .stalls = true};
    struct world world;
    world_run(&options, stalling, &broadcasts, &world);
    ck_assert_int_eq(world.ranks[0].status, LS_DEADLINE_EXCEEDED);
    ck_assert_ptr_nonnull(strstr(world.ranks[0].error, "rank 1 (came, but its data is not all here)"));
    ck_assert_int_ne(world.ranks[1].status, LS_OK);
    if (broadcasts)
        ck_assert_msg(strstr(world.ranks[1].error, "rank 0 (takes no data)") != NULL, "%s", world.ranks[1].error);
}

/* Rank 1 leaves in the middle: it never calls, its links close. */
static ls_status leaving(struct rank *rank) {
    ls_status status = reduce(rank, LS_AUTO, 5);
    if (rank->rank == 1) {
        leave(rank);
        return status;
    }
    return status ? status : reduce(rank, LS_AUTO, 1000000);
}

TEST_EACH(a_rank_that_leaves_is_named, 2) {
    struct world_options options = {.size = 3, .wire = _i ? WIRE_TCP : WIRE_LOCAL};
    struct world world;
    world_run(&options, leaving, NULL, &world);
    assert_ok(world.ranks[1].status);
    for (int i = 0; i < 3; i += 2) {
        ck_assert_int_eq(world.ranks[i].status, LS_UNAVAILABLE);
        ck_assert_msg(strstr(world.ranks[i].error, "rank 1") != NULL, "%s", world.ranks[i].error);
    }
}

/* A rank that knows the cause raises it within the grace. That message counts, not the broken link. */
static ls_status leaving_with_cause(struct rank *rank) {
    if (rank->rank == 1) {
        leave(rank);
        (void)usleep(50000);
        struct rank *zero = rank - 1;
        ls_abort_raise(zero->abort, LS_UNAVAILABLE, "worker:1 (10.0.0.7:2222) was lost");
        return LS_OK;
    }
    return reduce(rank, LS_AUTO, 1000000);
}

TEST(the_cause_is_preferred_to_the_broken_link) {
    struct world_options options = {.size = 2};
    struct world world;
    world_run(&options, leaving_with_cause, NULL, &world);
    ck_assert_int_eq(world.ranks[0].status, LS_UNAVAILABLE);
    ck_assert_str_eq(world.ranks[0].error, "worker:1 (10.0.0.7:2222) was lost");
}

/* ---- abort ---- */

static ls_status aborted(struct rank *rank) {
    double *seconds = rank->context;
    if (rank->rank == 1) {
        (void)usleep(100000);
        int64_t raised = ls_now();
        ls_abort_raise(rank[-1].abort, LS_ABORTED, "the run was cancelled");
        (void)pthread_barrier_wait(rank->barrier);
        *seconds = ls_seconds_since(raised);
        return LS_OK;
    }
    ls_status status = reduce(rank, LS_RING, 1000);
    (void)pthread_barrier_wait(rank->barrier);
    return status;
}

TEST(an_abort_ends_the_wait_at_once) {
    double seconds = 0;
    struct world_options options = {.size = 2};
    struct world world;
    world_run(&options, aborted, &seconds, &world);
    ck_assert_int_eq(world.ranks[0].status, LS_ABORTED);
    ck_assert_str_eq(world.ranks[0].error, "the run was cancelled");
    ck_assert_double_lt(seconds, 0.1);
}

TEST(the_first_abort_wins) {
    struct ls_abort *abort;
    assert_ok(ls_abort_new(&abort));
    ck_assert(!ls_abort_raised(abort));
    struct pollfd poll_abort = {.fd = ls_abort_fd(abort), .events = POLLIN};
    ck_assert_int_eq(poll(&poll_abort, 1, 0), 0);
    ls_abort_raise(abort, LS_UNAVAILABLE, "first");
    ls_abort_raise(abort, LS_INTERNAL, "second");
    ck_assert(ls_abort_raised(abort));
    ck_assert_int_eq(poll(&poll_abort, 1, 0), 1);
    ck_assert_int_eq(ls_abort_status(abort), LS_UNAVAILABLE);
    ck_assert_str_eq(ls_error(), "first");
    ls_abort_free(abort);
    ls_abort_free(NULL);
}

/* ---- arguments ---- */

struct alone {
    struct ls_abort *abort;
    struct ls_group *group;
};

static struct alone alone_new(void) {
    struct alone alone;
    assert_ok(ls_abort_new(&alone.abort));
    struct ls_group_config config = {.size = 1, .abort = alone.abort};
    assert_ok(ls_group_new(&config, &alone.group));
    return alone;
}

static void expect_refused(const struct ls_all_reduce *call, ls_status want, const char *text) {
    struct alone alone = alone_new();
    ls_status status = ls_group_all_reduce(alone.group, call);
    ck_assert_msg(status == want && strstr(ls_error(), text), "%s: %s", ls_status_name(status), ls_error());
    ck_assert(!ls_abort_raised(alone.abort)); /* the call has not happened */
    assert_ok(ls_group_barrier(alone.group, "later"));
    ls_group_free(alone.group);
    ls_abort_free(alone.abort);
}

TEST(bad_arguments_are_named) {
    float data[4] = {0};
    const void *inputs[1] = {data}, *missing[1] = {NULL};
    void *outputs[1] = {data};
    static const int bad_start[] = {1, 2}, nobody[] = {0, 0}, many[] = {0, 1 << 21};
    struct ls_all_reduce good = {.name = "x", .count = 4, .inputs = inputs, .outputs = outputs}, call;
#define REFUSED(field, value, status, text) (call = good, call.field = value, expect_refused(&call, status, text))
    REFUSED(name, NULL, LS_INVALID_ARGUMENT, "name");
    REFUSED(dtype, (ls_dtype)9, LS_INVALID_ARGUMENT, "dtype 9");
    REFUSED(op, (ls_reduce_op)9, LS_INVALID_ARGUMENT, "op 9");
    REFUSED(communication, LS_NCCL, LS_UNIMPLEMENTED, "NCCL");
    REFUSED(count, SIZE_MAX / 4, LS_INVALID_ARGUMENT, "count");
    REFUSED(count, SIZE_MAX, LS_INVALID_ARGUMENT, "count");
    REFUSED(inputs, NULL, LS_INVALID_ARGUMENT, "inputs or outputs");
    REFUSED(inputs, missing, LS_INVALID_ARGUMENT, "inputs[0]");
    REFUSED(leaves.first, bad_start, LS_INVALID_ARGUMENT, "begin at 1");
    REFUSED(leaves.first, nobody, LS_INVALID_ARGUMENT, "rank 0 holds no leaf");
    REFUSED(leaves.first, many, LS_INVALID_ARGUMENT, "limit");
}

TEST(bad_calls_of_the_others_are_named) {
    int32_t data[4] = {0};
    size_t counts[1] = {SIZE_MAX};
    struct alone alone = alone_new();
    assert_refused(ls_group_broadcast(alone.group, LS_BROADCAST("x", data, 4, LS_INT32, 1)), "root 1");
    ck_assert_int_eq(ls_group_broadcast(alone.group, LS_BROADCAST("x", data, 4, LS_INT32, -1)), LS_INVALID_ARGUMENT);
    assert_refused(ls_group_all_gather(alone.group, LS_ALL_GATHER("x", data, data, counts, LS_INT32)), "count");
    ck_assert_int_eq(ls_group_barrier(alone.group, NULL), LS_INVALID_ARGUMENT);
    assert_ok(ls_group_barrier(alone.group, "later"));
    ls_group_free(alone.group);
    ls_abort_free(alone.abort);
}

TEST(bad_groups_are_refused) {
    struct ls_abort *abort;
    struct ls_group *group = NULL;
    assert_ok(ls_abort_new(&abort));
    struct ls_group_config config = {.rank = 2, .size = 2, .abort = abort};
    ck_assert_int_eq(ls_group_new(&config, &group), LS_INVALID_ARGUMENT);
    config.rank = 0;
    assert_refused(ls_group_new(&config, &group), "a source of links");
    config = (struct ls_group_config){.size = 1, .abort = abort, .algorithm = LS_ALGORITHM_RING};
    assert_refused(ls_group_new(&config, &group), "ask for communication RING");
    config = (struct ls_group_config){.size = 1};
    ck_assert_int_eq(ls_group_new(&config, &group), LS_INVALID_ARGUMENT);
    ck_assert_ptr_null(group);
    ls_abort_free(abort);
    struct ls_link *link = NULL;
    ck_assert_int_eq(ls_tcp_link_new(-1, &link), LS_INTERNAL);
    ck_assert_ptr_null(link);
}

TESTS("collective/failure", .seconds = 60)
