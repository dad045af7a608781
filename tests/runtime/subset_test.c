/* Process sets over the real cluster, by every transport, with RING and AUTO: their sums, their ranks, calls in several
 * at once, slips, ends. Recovery is tests/recovery's, which kills processes. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "runtime/communicators.h"

static const char *const transports[] = {"shm", "tcp"};
enum { TRANSPORTS = 2, KINDS = 2 * TRANSPORTS, CALLS = SANITIZED ? 10 : 40 };

/* Each transport, with AUTO and with RING. */
static struct members_options kind_of(int kind, int size) {
    return (struct members_options){.size = size,
                                    .transport = transports[kind % TRANSPORTS],
                                    .communication = kind < TRANSPORTS ? LS_AUTO : LS_RING};
}

struct list {
    int count, ranks[MAX_MEMBERS];
};

static int place_in(const struct list *list, int rank) {
    for (int i = 0; i < list->count; i++)
        if (list->ranks[i] == rank) return i;
    return -1;
}

/* Every subset of up to 5 ranks, in an order that turns with its number. */
static bool take_list(struct list *list, int size, unsigned bits) {
    *list = (struct list){0};
    for (int i = 0; i < size; i++) {
        int rank = (i + (int)bits) % size;
        if (bits >> rank & 1) list->ranks[list->count++] = rank;
    }
    return list->count > 0;
}

static ls_status add_in(ls_communicator *set, const struct list *list, int rank, size_t count) {
    int64_t *values = malloc(count * sizeof(*values) + 1);
    int64_t sum = 0;
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < count; i++) values[i] = (int64_t)i * 10 + rank;
    ls_status status = ls_all_reduce(set, LS_ALL_REDUCE("sum", values, values, count, LS_INT64));
    for (int i = 0; i < list->count; i++) sum += list->ranks[i];
    for (size_t i = 0; i < count && !status; i++) ck_assert_int_eq(values[i], (int64_t)i * 10 * list->count + sum);
    free(values);
    return status;
}

static void check_places(ls_communicator *set, const struct list *list, int rank) {
    ck_assert_int_eq(ls_rank(set), place_in(list, rank));
    ck_assert_int_eq(ls_size(set), list->count);
    ck_assert_int_eq(ls_local_rank(set), place_in(list, rank)); /* all are on this host */
    ck_assert_int_eq(ls_local_size(set), list->count);
    ck_assert_int_eq(ls_cross_rank(set), 0);
    ck_assert_int_eq(ls_cross_size(set), 1);
    ck_assert(ls_is_homogeneous(set));
    for (int i = 0; i < list->count; i++) ck_assert_int_eq(ls_communicator_parent_rank(set, i), list->ranks[i]);
    for (int i = 0; i < MAX_MEMBERS; i++) ck_assert_int_eq(ls_communicator_subset_rank(set, i), place_in(list, i));
    ck_assert_int_eq(ls_communicator_parent_rank(set, list->count), -1);
    ck_assert_int_eq(ls_communicator_parent_rank(set, -1), -1);
}

static ls_status use_set(ls_communicator *set, const struct list *list, int rank) {
    check_places(set, list, rank);
    ls_status status = add_in(set, list, rank, 3);
    if (!status) status = add_in(set, list, rank, 1000);
    int32_t word = ls_rank(set) == list->count - 1 ? 77 : 0;
    if (!status) status = ls_broadcast(set, LS_BROADCAST("word", &word, 1, LS_INT32, list->count - 1));
    if (!status) ck_assert_int_eq(word, 77);
    int next = (ls_rank(set) + 1) % list->count, before = (ls_rank(set) + list->count - 1) % list->count;
    if (!status) status = ls_send(set, LS_SEND("baton", &rank, 1, LS_INT32, next));
    if (!status) status = ls_receive(set, LS_RECEIVE("baton", &word, 1, LS_INT32, before));
    if (!status) ck_assert_int_eq(word, list->ranks[before]);
    return status;
}

static ls_status make_all(struct member *member) {
    ls_status status = LS_OK;
    for (unsigned bits = 1; bits < 1U << member->size && !status; bits++) {
        struct list list;
        ls_communicator *set = (void *)member; /* overwritten in any case */
        if (!take_list(&list, member->size, bits)) continue;
        status = ls_communicator_subset(member->communicator, list.ranks, list.count, &set);
        if (status) return status;
        ck_assert_int_eq(set != NULL, place_in(&list, member->rank) >= 0);
        if (set) status = use_set(set, &list, member->rank);
        if (set && bits % 3) status = ls_communicator_close(set, status); /* the others end with their parent */
    }
    int64_t one = 1;
    if (!status) status = ls_all_reduce(member->communicator, LS_ALL_REDUCE("all", &one, &one, 1, LS_INT64));
    if (!status) ck_assert_int_eq(one, member->size);
    return status;
}

TEST_EACH(every_set_adds_its_own, KINDS) {
    for (int size = 1; size <= (SANITIZED ? 3 : 4); size++) {
        struct members_options options = kind_of(_i, size);
        members_run_ok(&options, make_all, NULL);
    }
}

/* ---- several at once ---- */

struct calls {
    ls_communicator *communicator;
    const struct list *list;
    int rank;
    ls_status status;
    char error[1024];
};

static void *call_often(void *argument) {
    struct calls *calls = argument;
    for (int i = 0; i < CALLS && !calls->status; i++) {
        calls->status = add_in(calls->communicator, calls->list, calls->rank, (size_t)(i % 7) * 400 + 1);
        int next = (ls_rank(calls->communicator) + 1) % calls->list->count;
        int before = (ls_rank(calls->communicator) + calls->list->count - 1) % calls->list->count, got = -1;
        if (!calls->status) calls->status = ls_send(calls->communicator, LS_SEND("turn", &i, 1, LS_INT32, next));
        if (!calls->status)
            calls->status = ls_receive(calls->communicator, LS_RECEIVE("turn", &got, 1, LS_INT32, before));
        if (!calls->status) ck_assert_int_eq(got, i);
    }
    (void)snprintf(calls->error, sizeof(calls->error), "%s", calls->status ? ls_error() : "");
    return NULL;
}

/* Each rank calls in the whole, in a row and in a column of a grid of two rows, each by a thread of its own. */
static ls_status call_in_three(struct member *member) {
    struct list lists[3] = {{0}};
    struct calls calls[3];
    pthread_t threads[3];
    int rows = 2, columns = member->size / rows, row = member->rank / columns, column = member->rank % columns;
    for (int i = 0; i < member->size; i++) lists[0].ranks[lists[0].count++] = i;
    calls[0] = (struct calls){member->communicator, &lists[0], member->rank, LS_OK, ""};
    for (int kind = 1; kind < 3; kind++) {
        for (int which = 0; which < (kind == 1 ? rows : columns); which++) {
            struct list list = {0};
            ls_communicator *set;
            for (int i = 0; i < member->size; i++)
                if ((kind == 1 ? i / columns : i % columns) == which) list.ranks[list.count++] = i;
            ls_status status = ls_communicator_subset(member->communicator, list.ranks, list.count, &set);
            if (status) return status;
            if (which != (kind == 1 ? row : column)) continue;
            lists[kind] = list;
            calls[kind] = (struct calls){set, &lists[kind], member->rank, LS_OK, ""};
        }
    }
    for (int i = 0; i < 3; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, &calls[i]), 0);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++) ck_assert_msg(!calls[i].status, "%s", calls[i].error);
    return LS_OK;
}

TEST_EACH(threads_call_in_several_sets_at_once, KINDS) {
    struct members_options options = kind_of(_i, 4);
    members_run_ok(&options, call_in_three, NULL);
}

/* ---- slips ---- */

static void refused(struct member *member, struct list list, const char *why) {
    ls_communicator *set = NULL;
    ck_assert_int_eq(ls_communicator_subset(member->communicator, list.ranks, list.count, &set), LS_INVALID_ARGUMENT);
    ck_assert_str_eq(ls_error(), why);
    ck_assert_ptr_null(set);
}

static ls_status slip_alone(struct member *member) {
    ls_communicator *set = NULL, *inner = NULL;
    refused(member, (struct list){2, {1, 1}}, "process set: rank 1 stands twice, as ranks[0] and ranks[1]");
    refused(member, (struct list){2, {0, 2}}, "process set: ranks[1] is 2, which is no rank of 2");
    refused(member, (struct list){1, {-1}}, "process set: ranks[0] is -1, which is no rank of 2");
    refused(member, (struct list){0}, "a process set of 0 ranks: there are 2, and it has one at least");
    refused(member, (struct list){3, {0, 1, 2}}, "a process set of 3 ranks: there are 2, and it has one at least");
    ls_status status = ls_communicator_subset(member->communicator, (int[]){1, 0}, 2, &set);
    if (status) return status;
    ck_assert_int_eq(ls_communicator_subset(set, (int[]){0}, 1, &inner), LS_INVALID_ARGUMENT);
    ck_assert_str_eq(ls_error(), "a process set is made of a communicator's ranks, not of a set's");
    ls_status lost = LS_UNAVAILABLE;
    ck_assert(!ls_communicator_recover(set, &lost));
    ck_assert_int_eq(lost, LS_FAILED_PRECONDITION);
    return use_set(set, &(struct list){2, {1, 0}}, member->rank);
}

TEST_EACH(a_slip_leaves_the_communicator_as_it_is, TRANSPORTS) {
    struct members_options options = kind_of(_i, 2);
    members_run_ok(&options, slip_alone, NULL);
}

/* A rank that is slow to look may hear first that another one has left, with the same cause. */
static void all_fail(const struct member members[], int size, ls_status status, const char *told) {
    for (int i = 0; i < size; i++) {
        ck_assert_msg(members[i].status == status || members[i].status == LS_ABORTED, "rank %d: %s: %s", i,
                      ls_status_name(members[i].status), members[i].error);
        ck_assert_msg(strstr(members[i].error, told) != NULL, "rank %d: %s", i, members[i].error);
    }
}

static ls_status differ(struct member *member) {
    ls_communicator *set = NULL;
    return ls_communicator_subset(member->communicator, member->rank ? (int[]){0, 2} : (int[]){0, 1}, 2, &set);
}

TEST_EACH(ranks_that_differ_are_named, TRANSPORTS) {
    struct members_options options = kind_of(_i, 3);
    struct member members[MAX_MEMBERS];
    members_run(&options, differ, NULL, members);
    all_fail(members, 3, LS_INVALID_ARGUMENT, "name differs: 'process set of ranks 0, ");
}

/* Ranks 0 and 1 make different calls in their set, while 2 and 3 add in theirs until they hear of it. */
static ls_status fail_in_set(struct member *member) {
    ls_communicator *pair[2];
    float value = 1;
    ls_status status = ls_communicator_subset(member->communicator, (int[]){0, 1}, 2, &pair[0]);
    if (!status) status = ls_communicator_subset(member->communicator, (int[]){2, 3}, 2, &pair[1]);
    if (status) return status;
    ls_communicator *set = pair[member->rank / 2];
    if (member->rank < 2)
        return ls_all_reduce(set, LS_ALL_REDUCE(member->rank ? "gradients" : "weights", &value, &value, 1));
    while (!(status = ls_all_reduce(set, LS_ALL_REDUCE("long", &value, &value, 1, LS_FLOAT32, LS_MAX)))) continue;
    return status;
}

TEST_EACH(a_failure_in_a_set_ends_the_calls_in_all, TRANSPORTS) {
    struct members_options options = kind_of(_i, 4);
    struct member members[MAX_MEMBERS];
    members_run(&options, fail_in_set, NULL, members);
    all_fail(members, 4, LS_INVALID_ARGUMENT, "process set of ranks 0, 1: all_reduce '");
}

/* Rank 1 is done, while rank 0 calls in their set. */
static ls_status leave_early(struct member *member) {
    ls_communicator *set;
    float value = 1;
    ls_status status = ls_communicator_subset(member->communicator, (int[]){1, 0}, 2, &set);
    if (!status) status = ls_all_reduce(set, LS_ALL_REDUCE("both", &value, &value, 1));
    if (status || member->rank == 1) return status;
    return *(bool *)member->context ? ls_all_reduce(set, LS_ALL_REDUCE("one more", &value, &value, 1))
                                    : ls_receive(set, LS_RECEIVE("one more", &value, 1));
}

TEST_EACH(a_rank_that_has_finished_is_named, 2 * TRANSPORTS) {
    struct members_options options = kind_of(_i / 2, 2);
    struct member members[MAX_MEMBERS];
    bool collective = _i % 2;
    members_run(&options, leave_early, &collective, members);
    ck_assert_int_eq(members[0].status, LS_FAILED_PRECONDITION);
    ck_assert_msg(strstr(members[0].error, "'one more'") && strstr(members[0].error, "finished"), "%s",
                  members[0].error);
}

TESTS("runtime/subset", .seconds = 300)
