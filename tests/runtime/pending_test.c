/* Calls that begin in any order on each rank, and ls_join: over every transport, one to eight ranks. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "harness.h"
#include "runtime/communicators.h"

static const char *const transports[] = {"shm", "tcp"};
enum { TRANSPORTS = 2, CALLS = 12, MOST_COUNT = 3000, LARGEST = 120000, PERIOD = 13 /* of the values */ };

static const char *transport;

static void use_transport(int index) {
    transport = transports[index];
}

/* ---- any order ---- */

/* A call that all ranks begin, each at its own time. Values are whole numbers, whose sums are exact. */
struct begun {
    char name[80];
    int kind, root;
    ls_reduce_op op;
    ls_dtype dtype;
    size_t count, counts[MAX_MEMBERS];
    double *data, *output;
    ls_pending *pending;
};

static double given(int call, int rank, size_t i) {
    return (double)((size_t)(call * 7 + rank * 3 + 1) * (i % PERIOD + 1) % 101);
}

static struct begun draw_call(uint64_t seed, int number, int size) {
    struct begun call = {.kind = (int)(ls_random_bits(seed, 1, (uint64_t)number) % 3),
                         .root = (int)(ls_random_bits(seed, 2, (uint64_t)number) % (uint64_t)size),
                         .op = ls_random_bits(seed, 4, (uint64_t)number) % 2 ? LS_MAX : LS_SUM,
                         .count = ls_random_bits(seed, 3, (uint64_t)number) % (number ? MOST_COUNT : LARGEST)};
    bool long_name = number % 5 == 4;
    (void)snprintf(call.name, sizeof(call.name), "%s%d",
                   long_name ? "a/name/that/is/longer/than/a/frame/has/room/for/it/in/its/bytes/" : "call/", number);
    for (int rank = 0; rank < size; rank++) call.counts[rank] = call.count / (size_t)(rank + 1);
    return call;
}

static ls_status begin(struct member *member, struct begun *call, int number) {
    ls_communicator *communicator = member->communicator;
    size_t most = call->count * (size_t)member->size + 1;
    call->data = calloc(most, sizeof(double));
    call->output = calloc(most, sizeof(double));
    for (size_t i = 0; i < call->count; i++)
        call->data[i] = i < PERIOD ? given(number, member->rank, i) : call->data[i - PERIOD];
    if (call->kind == 0)
        return ls_all_reduce_begin(
            communicator, LS_ALL_REDUCE(call->name, call->data, call->output, call->count, LS_FLOAT64, call->op),
            &call->pending);
    if (call->kind == 1) {
        memcpy(call->output, call->data, call->count * sizeof(double));
        return ls_broadcast_begin(
            communicator, LS_BROADCAST(call->name, call->output, call->count, LS_FLOAT64, call->root), &call->pending);
    }
    return ls_all_gather_begin(
        communicator, LS_ALL_GATHER(call->name, call->data, call->output, call->counts, LS_FLOAT64), &call->pending);
}

static double reduced(const struct begun *call, int number, int size, size_t i) {
    double result = given(number, 0, i);
    for (int rank = 1; rank < size; rank++) {
        double value = given(number, rank, i);
        result = call->op == LS_SUM ? result + value : value > result ? value : result;
    }
    return result;
}

static void check_call(const struct member *member, const struct begun *call, int number) {
    const double *at = call->output;
    for (int part = 0; part < (call->kind == 2 ? member->size : 1); part++) {
        double want[PERIOD];
        for (size_t i = 0; i < PERIOD; i++)
            want[i] = call->kind ? given(number, call->kind == 1 ? call->root : part, i)
                                 : reduced(call, number, member->size, i);
        for (size_t i = 0; i < (call->kind == 2 ? call->counts[part] : call->count); i++, at++)
            if (*at != want[i % PERIOD])
                ck_abort_msg("rank %d: %s: %g at %zu, not %g", member->rank, call->name, *at, i, want[i % PERIOD]);
    }
}

static ls_status begin_all(struct member *member, struct begun *calls, uint64_t seed) {
    int64_t order[CALLS];
    ls_status status = LS_OK;
    ls_random_permutation(seed, (uint64_t)(100 + member->rank), CALLS, order);
    for (int i = 0; i < CALLS; i++) calls[i] = draw_call(seed, i, member->size);
    for (int i = 0; i < CALLS && !status; i++) {
        int number = (int)order[i];
        if (ls_random_bits(seed, 50, (uint64_t)(member->rank * CALLS + i)) % 4 == 0) (void)usleep(1000);
        status = begin(member, &calls[number], number);
        if (i == CALLS / 2 && !status) status = ls_barrier(member->communicator, "in the midst");
    }
    return status;
}

static ls_status in_any_order(struct member *member) {
    ls_status status = ls_communicator_negotiate(member->communicator);
    for (uint64_t seed = 1; seed <= 6 && !status; seed++) {
        struct begun calls[CALLS];
        status = begin_all(member, calls, seed);
        for (int i = CALLS - 1; i >= 0 && !status; i--) {
            status = ls_pending_wait(calls[i].pending, 0);
            if (status) break;
            ck_assert(ls_pending_done(calls[i].pending));
            check_call(member, &calls[i], i);
            ls_pending_free(calls[i].pending);
            free(calls[i].data);
            free(calls[i].output);
        }
    }
    return status;
}

TEST_EACH(calls_begin_in_any_order, TRANSPORTS) {
    use_transport(_i);
    for (int size = 1; size <= (SANITIZED ? 4 : 8); size++)
        members_run_ok(&(struct members_options){size, transport, size % 2 ? LS_AUTO : LS_RING}, in_any_order, NULL);
}

/* Rank 0 begins b and a at once; the others begin a, wait for it, and begin b then. */
static ls_status crosswise(struct member *member) {
    float a = 1, b = 2;
    ls_pending *first = NULL, *second = NULL;
    ls_communicator *communicator = member->communicator;
    ls_status status = ls_communicator_negotiate(communicator);
    if (!member->rank && !status) status = ls_all_reduce_begin(communicator, LS_ALL_REDUCE("b", &b, &b, 1), &second);
    if (!status) status = ls_all_reduce_begin(communicator, LS_ALL_REDUCE("a", &a, &a, 1), &first);
    if (!status) status = ls_pending_wait(first, 0);
    if (member->rank && !status) status = ls_all_reduce_begin(communicator, LS_ALL_REDUCE("b", &b, &b, 1), &second);
    if (!status) status = ls_pending_wait(second, 0);
    ls_pending_free(first);
    ls_pending_free(second);
    ck_assert(status || (a == (float)member->size && b == 2 * (float)member->size));
    return status;
}

TEST_EACH(no_order_stops_the_others, TRANSPORTS) {
    use_transport(_i);
    members_run_ok(&(struct members_options){4, transport}, crosswise, NULL);
}

/* ---- groups ---- */

enum { ARRAYS = 9 };

static ls_status in_groups(struct member *member) {
    static const size_t counts[ARRAYS] = {3, 0, 70000, 1, 128, 5, 999, 2, 64};
    ls_status status = ls_communicator_negotiate(member->communicator);
    for (int way = 0; way < 2 && !status; way++) {
        float *arrays[ARRAYS];
        ls_pending *pending = NULL;
        for (int k = 0; k < ARRAYS; k++) {
            arrays[k] = malloc((counts[k] + 1) * sizeof(float));
            for (size_t i = 0; i < counts[k]; i++) arrays[k][i] = (float)given(k, member->rank, i);
        }
        status =
            ls_all_reduce_begin(member->communicator,
                                LS_ALL_REDUCE("group", .op = LS_MEAN, .prescale = 2, .postscale = 0.5,
                                              .inputs = (const void *const *)arrays, .outputs = (void *const *)arrays,
                                              .counts = counts, .array_count = ARRAYS),
                                &pending);
        if (!status && !way) status = ls_pending_wait(pending, 0);
        ls_pending_free(pending); /* waits */
        struct begun sum = {.op = LS_SUM};
        for (int k = 0; k < ARRAYS; k++) {
            for (size_t i = 0; i < counts[k] && !status; i++)
                ck_assert(arrays[k][i] == (float)reduced(&sum, k, member->size, i) / (float)member->size);
            free(arrays[k]);
        }
    }
    return status;
}

TEST_EACH(a_group_is_one_call, TRANSPORTS) {
    use_transport(_i);
    for (int size = 1; size <= 4; size *= 2)
        members_run_ok(&(struct members_options){size, transport}, in_groups, NULL);
}

/* ---- slips and differences ---- */

static ls_status slip(struct member *member) {
    float data[4] = {1, 2, 3, 4};
    ls_pending *first = NULL, *second = NULL;
    ls_communicator *communicator = member->communicator;
    assert_fails(ls_all_reduce_begin(communicator, LS_ALL_REDUCE("x", data, data, 4), &first), LS_FAILED_PRECONDITION,
                 "ls_communicator_negotiate");
    ck_assert_int_eq(ls_join(communicator, &(int){0}), LS_FAILED_PRECONDITION);
    ls_status status = ls_communicator_negotiate(communicator);
    if (!status) status = ls_barrier(communicator, "begin");
    if (member->rank) { /* waits for rank 0 */
        (void)usleep(100000);
        return status ? status : ls_all_reduce(communicator, LS_ALL_REDUCE("x", data, data, 4));
    }
    ck_assert_int_eq(ls_all_reduce_begin(communicator, LS_ALL_REDUCE("x", NULL, data, 4), &first), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_broadcast_begin(communicator, LS_BROADCAST("x", data, 4, .root = 9), &first),
                     LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_barrier(communicator, NULL), LS_INVALID_ARGUMENT);
    if (!status) status = ls_all_reduce_begin(communicator, LS_ALL_REDUCE("x", data, data, 4), &first);
    assert_fails(ls_all_reduce_begin(communicator, LS_ALL_REDUCE("x", data, data, 4), &second), LS_ALREADY_EXISTS,
                 "all-reduce 'x' is begun twice at once");
    ck_assert_int_eq(ls_join(communicator, &(int){0}), LS_FAILED_PRECONDITION);
    ck_assert_int_eq(ls_pending_wait(first, -1), LS_INVALID_ARGUMENT);
    ck_assert_int_eq(ls_pending_wait(first, 1e-3), LS_DEADLINE_EXCEEDED);
    ck_assert(!ls_pending_done(first));
    if (!status) status = ls_pending_wait(first, 30);
    ls_pending_free(first);
    return status;
}

TEST_EACH(a_slip_is_named_and_begins_nothing, TRANSPORTS) {
    use_transport(_i);
    members_run_ok(&(struct members_options){3, transport}, slip, NULL);
}

static ls_status differ(struct member *member) {
    ls_communicator *communicator = member->communicator;
    float data[4] = {0};
    ls_pending *other = NULL, *pending = NULL;
    ls_status status = ls_communicator_negotiate(communicator);
    if (!status)
        status = ls_all_reduce_begin(communicator, LS_ALL_REDUCE("odd", data, data, member->rank == 1 ? 0 : 4), &other);
    if (!status)
        status = ls_broadcast_begin(communicator, LS_BROADCAST("y", data, 4, .root = member->rank == 1), &pending);
    if (!status) status = ls_pending_wait(pending, 0);
    ck_assert_int_eq(ls_pending_wait(other, 0), status);
    ls_pending_free(other);
    ls_pending_free(pending);
    return status;
}

TEST_EACH(calls_that_differ_are_named_on_all_ranks, TRANSPORTS) {
    struct member members[MAX_MEMBERS];
    use_transport(_i);
    members_run(&(struct members_options){3, transport}, differ, NULL, members);
    for (int i = 0; i < 3; i++) {
        const char *error = members[i].error; /* ABORTED says who hears it from one that has left */
        ck_assert_msg(members[i].status == LS_INVALID_ARGUMENT || members[i].status == LS_ABORTED, "%s", error);
        ck_assert_msg(strstr(error, "differs") && strstr(error, "on rank 1"), "%s", error);
    }
    ck_assert(members[0].status == LS_INVALID_ARGUMENT || members[1].status == LS_INVALID_ARGUMENT);
}

/* ---- who is missing ---- */

struct lines {
    pthread_mutex_t mutex;
    bool said;
};

static void listen(void *context, ls_log_level level, const char *line) {
    struct lines *lines = context;
    (void)level;
    (void)pthread_mutex_lock(&lines->mutex);
    if (strstr(line, "all_reduce 'lonely' has been begun by rank 0, and not by ranks 1, 2")) lines->said = true;
    (void)pthread_mutex_unlock(&lines->mutex);
}

/* Rank 0 begins what no other begins; all have something under way. */
static ls_status be_lonely(struct member *member) {
    float one = 1, two = 2;
    char name[16];
    ls_pending *lonely = NULL, *own = NULL;
    (void)snprintf(name, sizeof(name), "own/%d", member->rank);
    ls_status status = ls_communicator_negotiate(member->communicator);
    if (!member->rank && !status)
        status = ls_all_reduce_begin(member->communicator, LS_ALL_REDUCE("lonely", &one, &one, 1), &lonely);
    if (!status) status = ls_all_reduce_begin(member->communicator, LS_ALL_REDUCE(name, &two, &two, 1), &own);
    if (!status) status = ls_pending_wait(own, 0);
    ls_pending_free(lonely);
    ls_pending_free(own);
    return status;
}

TEST_EACH(who_has_not_begun_a_call_is_named, TRANSPORTS) {
    struct lines lines = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct member members[MAX_MEMBERS];
    use_transport(_i);
    ck_assert_int_eq(setenv("LOCKSTEP_REPORT_INTERVAL", "0.2", 1), 0);
    members_run(&(struct members_options){3, transport, .timeout = 1.5, .log = listen, .log_context = &lines},
                be_lonely, NULL, members);
    ck_assert_int_eq(unsetenv("LOCKSTEP_REPORT_INTERVAL"), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(members[i].status == LS_DEADLINE_EXCEEDED && strstr(members[i].error, "has been begun by rank"),
                      "rank %d: %s %s", i, ls_status_name(members[i].status), members[i].error);
    ck_assert(lines.said);
}

static ls_status abort_amid(struct member *member) {
    float values[4] = {0};
    char name[16];
    ls_pending *pending[2] = {NULL, NULL};
    ls_status status = ls_communicator_negotiate(member->communicator);
    for (int i = 0; i < 2 && !status; i++) {
        (void)snprintf(name, sizeof(name), "%d/%d", member->rank, i);
        status = ls_all_reduce_begin(member->communicator, LS_ALL_REDUCE(name, values, values, 4), &pending[i]);
    }
    (void)usleep(50000);
    if (member->rank == 1) (void)ls_communicator_abort(member->communicator, "the sensor is gone");
    for (int i = 0; i < 2 && pending[i]; i++) {
        status = ls_pending_wait(pending[i], 20);
        ls_pending_free(pending[i]);
    }
    ls_pending *late = NULL;
    ck_assert_int_eq(ls_all_reduce_begin(member->communicator, LS_ALL_REDUCE("late", values, values, 4), &late),
                     status);
    return status;
}

TEST_EACH(an_abort_ends_what_was_begun, TRANSPORTS) {
    struct member members[MAX_MEMBERS];
    use_transport(_i);
    members_run(&(struct members_options){3, transport}, abort_amid, NULL, members);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(members[i].status == LS_ABORTED && strstr(members[i].error, "the sensor is gone"), "rank %d: %s",
                      i, members[i].error);
}

/* ---- join ---- */

enum { STEPS = 7 };

/* Rank r has steps 0 to r: step s is the sum over ranks s and above. */
static ls_status uneven(struct member *member) {
    int last = -1;
    ls_communicator *communicator = member->communicator;
    ls_status status = ls_communicator_negotiate(communicator);
    for (int epoch = 0; epoch < 2 && !status; epoch++) {
        for (int step = 0; step <= member->rank && !status; step++) {
            float mean[300], least = (float)member->rank;
            int8_t times = (int8_t)(1 + member->rank % 2);
            bool any = false;
            for (int i = 0; i < 300; i++) mean[i] = i ? (float)(member->rank + i) : -0.0F;
            status = ls_all_reduce(communicator, LS_ALL_REDUCE("mean", mean, mean, 300, .op = LS_MEAN, .prescale = -1));
            if (!status) status = ls_all_reduce(communicator, LS_ALL_REDUCE("least", &least, &least, 1, .op = LS_MIN));
            if (!status)
                status = ls_all_reduce(communicator, LS_ALL_REDUCE("times", &times, &times, 1, LS_INT8, LS_PRODUCT));
            if (!status) status = ls_all_reduce(communicator, LS_ALL_REDUCE("any", &any, &any, 1, LS_BOOL));
            if (!status) status = ls_barrier(communicator, "step");
            if (status) return status;
            float sum = 0;
            int want = 1;
            for (int rank = step; rank < member->size; rank++) sum += (float)(rank + 5), want *= 1 + rank % 2;
            ck_assert(mean[5] == -sum / (float)(member->size - step));
            ck_assert(mean[0] == 0 && !signbit(mean[0]));
            ck_assert(least == (float)step);
            ck_assert_int_eq(times, want);
            ck_assert(!any);
        }
        if (!status) status = ls_join(communicator, &last);
        ck_assert(status || last == member->size - 1);
    }
    return status;
}

TEST_EACH(ranks_with_fewer_steps_join, TRANSPORTS) {
    use_transport(_i);
    for (int size = 1; size <= (SANITIZED ? 3 : 6); size++)
        members_run_ok(&(struct members_options){size, transport}, uneven, NULL);
}

static ls_status join_amid(struct member *member) {
    float values[3] = {0};
    const size_t counts[3] = {1, 1, 1};
    int last;
    ls_status status = ls_communicator_negotiate(member->communicator);
    if (status) return status;
    if (member->rank == 2) return ls_join(member->communicator, &last);
    return ls_all_gather(member->communicator, LS_ALL_GATHER("parts", values, values, counts));
}

TEST_EACH(other_calls_amid_a_join_are_named, TRANSPORTS) {
    struct member members[MAX_MEMBERS];
    use_transport(_i);
    members_run(&(struct members_options){3, transport}, join_amid, NULL, members);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(members[i].status && /* or ABORTED, of who hears it from another first */
                          strstr(members[i].error, "all_gather 'parts': 1 of 3 ranks have joined (ls_join), rank 2"),
                      "rank %d: %s", i, members[i].error);
}

/* ---- a timeline that starts and stops ---- */

static ls_status sum_one(struct member *member, const char *name) {
    int32_t one = 1;
    ls_status status = ls_all_reduce(member->communicator, LS_ALL_REDUCE(name, &one, &one, 1, LS_INT32));
    if (!status) ck_assert_int_eq(one, member->size);
    return status;
}

static void expect_span(const char *path, const char *name, bool there) {
    static _Thread_local char text[1 << 16];
    FILE *file = fopen(path, "r");
    ck_assert_msg(file, "%s is missing", path);
    text[fread(text, 1, sizeof(text) - 1, file)] = 0;
    (void)fclose(file);
    ck_assert_msg(!!strstr(text, name) == there, "%s: %s is %s", path, name, there ? "missing" : "there");
}

/* First with calls in their order, then with calls by name. */
static ls_status time_calls(struct member *member) {
    char path[128], slip[] = "/no/such/folder/t.json";
    for (int turn = 0; turn < 2; turn++) {
        if (turn) assert_ok(ls_communicator_negotiate(member->communicator));
        (void)snprintf(path, sizeof(path), "%s/%d.%d.json", (const char *)member->context, turn, member->rank);
        ck_assert_int_eq(ls_timeline_stop(member->communicator), LS_FAILED_PRECONDITION);
        ck_assert_int_eq(ls_timeline_start(member->communicator, ""), LS_INVALID_ARGUMENT);
        ck_assert_int_eq(ls_timeline_start(member->communicator, slip), LS_NOT_FOUND);
        assert_ok(sum_one(member, "before"));
        (void)snprintf(path, sizeof(path), "%s/%d.%%r.json", (const char *)member->context, turn);
        assert_ok(ls_timeline_start(member->communicator, path));
        ck_assert_int_eq(ls_timeline_start(member->communicator, path), LS_FAILED_PRECONDITION);
        assert_ok(sum_one(member, "within"));
        assert_ok(ls_timeline_stop(member->communicator));
        assert_ok(sum_one(member, "after"));
        (void)snprintf(path, sizeof(path), "%s/%d.%d.json", (const char *)member->context, turn, member->rank);
        expect_span(path, "before", false);
        expect_span(path, "within", true);
        expect_span(path, "after", false);
        ck_assert_int_eq(unlink(path), 0);
    }
    return LS_OK;
}

TEST(a_timeline_has_the_calls_between_start_and_stop) {
    char folder[] = "/tmp/lockstep-timeline-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    members_run_ok(&(struct members_options){.size = 3, .transport = transport}, time_calls, folder);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* context: an atomic_bool, true when rank 0 has been refused. */
static ls_status start_amid_a_call(struct member *member) {
    atomic_bool *refused = member->context;
    int32_t one = 1;
    ls_pending *pending = NULL;
    assert_ok(ls_communicator_negotiate(member->communicator));
    if (member->rank == 0) {
        assert_ok(ls_all_reduce_begin(member->communicator, LS_ALL_REDUCE("slow", &one, &one, 1, LS_INT32), &pending));
        assert_fails(ls_timeline_start(member->communicator, "/tmp/unwritten.json"), LS_FAILED_PRECONDITION,
                     "'slow' has not ended");
        atomic_store(refused, true);
    }
    if (member->rank == 0) {
        ls_status status = ls_pending_wait(pending, 0);
        ls_pending_free(pending);
        return status;
    }
    while (!atomic_load(refused)) usleep(1000);
    return sum_one(member, "slow");
}

TEST(no_timeline_starts_amid_a_call) {
    atomic_bool refused = false;
    members_run_ok(&(struct members_options){.size = 2, .transport = transport}, start_amid_a_call, &refused);
}

TESTS("runtime/pending", .seconds = 200)
