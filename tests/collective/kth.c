/* The k-th call of a kind fails on one rank, for every k: sends, receives, waits, allocations, and what shared memory
 * is made with. Every rank then ends in time: with right results where there was a way round, or with an error that
 * names the cause. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "collective/collectives.h"
#include "collective/world.h"
#include "harness.h"

enum kind { SEND, RECEIVE, POLL, ALLOCATE, MAKE, RESERVE, MAP, KINDS };
static const char *const kind_names[] = {"send", "receive", "poll", "allocate", "memfd_create", "fallocate", "mmap"};

enum { SIZE = 3 };

/* Of this thread; only the victim's count. */
static _Thread_local bool counting;
static _Thread_local enum kind watched;
static _Thread_local long left; /* calls until the one that fails */

static bool fails(enum kind kind) {
    return counting && kind == watched && left > 0 && --left == 0;
}

/* name's calls of kind return value and set errno when their turn comes. */
#define WRAP(kind, result, name, parameters, arguments, error, value)                                                  \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters {                                                                                  \
        if (!fails(kind)) return __real_##name arguments;                                                              \
        errno = error;                                                                                                 \
        return value;                                                                                                  \
    }
WRAP(SEND, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), EPIPE, -1)
WRAP(RECEIVE, ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags), ECONNRESET, -1)
WRAP(RECEIVE, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), ECONNRESET, -1)
WRAP(POLL, int, poll, (struct pollfd * slots, nfds_t count, int timeout), (slots, count, timeout), EINTR, -1)
WRAP(ALLOCATE, void *, calloc, (size_t count, size_t size), (count, size), ENOMEM, NULL)
WRAP(ALLOCATE, void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), ENOMEM, NULL)
WRAP(MAKE, int, memfd_create, (const char *name, unsigned flags), (name, flags), EMFILE, -1)
WRAP(RESERVE, int, fallocate64, (int fd, int mode, off64_t offset, off64_t size), (fd, mode, offset, size), ENOSPC, -1)
WRAP(MAP, void *, mmap64, (void *address, size_t size, int protection, int flags, int fd, off64_t offset),
     (address, size, protection, flags, fd, offset), ENOMEM, MAP_FAILED)

struct trial {
    enum kind kind;
    long k;
    enum wire wire;
    enum ls_transport transport;
    enum ls_algorithm algorithm; /* of all-reduces with LS_AUTO */
    const int *hosts;            /* pretended ones; NULL: one */
    int victim;
    bool fired;
};

static ls_status reduce(struct rank *rank, ls_communication communication, float *data, size_t count) {
    const void *inputs[1] = {data};
    void *outputs[1] = {data};
    for (size_t i = 0; i < count; i++) data[i] = (float)(rank->rank + 1);
    const struct ls_all_reduce call = {.name = "gradients",
                                       .communication = communication,
                                       .dtype = LS_FLOAT32,
                                       .count = count,
                                       .inputs = inputs,
                                       .outputs = outputs};
    ls_status status = ls_group_all_reduce(rank->group, &call);
    size_t wrong = 0; /* each ck_assert writes to a file */
    for (size_t i = 0; i < count && !status; i++) wrong += data[i] != SIZE * (SIZE + 1) / 2;
    ck_assert_uint_eq(wrong, 0);
    return status;
}

static ls_status move(struct rank *rank, float *data, size_t count) {
    static const size_t counts[SIZE] = {3, 0, 2};
    float gathered[5], own[3];
    for (int i = 0; i < 3; i++) own[i] = (float)rank->rank;
    for (size_t i = 0; i < count; i++) data[i] = (float)rank->rank;
    ls_status status = ls_group_broadcast(rank->group, LS_BROADCAST("weights", data, count, LS_FLOAT32, 2));
    if (status) return status;
    ck_assert(data[0] == 2 && data[count - 1] == 2);
    status = ls_group_all_gather(rank->group, LS_ALL_GATHER("counts", own, gathered, counts));
    if (status) return status;
    ck_assert(gathered[0] == 0 && gathered[2] == 0 && gathered[3] == 2 && gathered[4] == 2);
    const struct ls_reduce_scatter scatter = {.name = "shards", .counts = counts, .input = gathered, .output = own};
    status = ls_group_reduce_scatter(rank->group, &scatter);
    if (status) return status;
    ck_assert(rank->rank == 1 || own[0] == (rank->rank ? 6 : 0));
    return ls_group_barrier(rank->group, "end");
}

static ls_status use(struct rank *rank) {
    float private_memory[6000];
    void *shared = NULL;
    ls_status status = ls_group_share(rank->group, 12000 * sizeof(float), &shared);
    if (!status) status = reduce(rank, LS_AUTO, private_memory, 5);
    if (!status) status = reduce(rank, LS_AUTO, private_memory, 6000);
    if (!status) status = reduce(rank, LS_AUTO, shared, 12000);
    if (!status) status = reduce(rank, LS_RING, shared, 6000);
    if (!status) status = move(rank, shared, 6000);
    ls_group_unshare(rank->group, shared);
    return status;
}

/* From making shared memory on; then leaves as a process that ends. */
static ls_status suffer(struct rank *rank) {
    struct trial *trial = rank->context;
    if (rank->rank == trial->victim) {
        watched = trial->kind;
        left = trial->k;
        counting = true;
    }
    ls_status status = ls_group_connect(rank->group);
    if (!status) status = use(rank);
    counting = false;
    if (rank->rank == trial->victim) trial->fired = left == 0;
    ls_group_free(rank->group);
    rank->group = NULL;
    return status;
}

/* A rank that got through the last call has noticed nothing. */
static void expect_error(const struct trial *trial, const struct rank *rank, const struct rank *victim) {
    ck_assert_int_ne(rank->status, LS_DEADLINE_EXCEEDED); /* told, not run out of time */
    bool last = strstr(victim->error, "'end'") != NULL;
    ck_assert_msg(rank->status || last, "%s %ld: rank %d ends well, rank %d with %d (%s)", kind_names[trial->kind],
                  trial->k, rank->rank, trial->victim, victim->status, victim->error);
    ck_assert_msg(!rank->status || strstr(rank->error, "rank ") != NULL, "%s %ld: %s", kind_names[trial->kind],
                  trial->k, rank->error);
}

static void expect_end(const struct trial *trial, const struct world *world) {
    const struct rank *victim = &world->ranks[trial->victim];
    if (!victim->status || trial->kind == POLL) { /* an interrupted poll is no failure */
        world_expect_ok(world, SIZE);
        return;
    }
    ls_status cause = trial->kind == SEND || trial->kind == RECEIVE ? LS_UNAVAILABLE : LS_RESOURCE_EXHAUSTED;
    ck_assert_msg(victim->status == cause, "%s %ld: %d (%s)", kind_names[trial->kind], trial->k, victim->status,
                  victim->error);
    for (int i = 0; i < SIZE; i++)
        if (i != trial->victim) expect_error(trial, &world->ranks[i], victim);
}

static void *run_trial(void *argument) {
    struct trial *trial = argument;
    struct world_options options = {.size = SIZE,
                                    .wire = trial->wire,
                                    .timeout = 60,
                                    .transport = trial->transport,
                                    .algorithm = trial->algorithm,
                                    .hosts = trial->hosts};
    struct world world;
    world_run(&options, suffer, trial, &world);
    if (trial->fired)
        expect_end(trial, &world);
    else
        world_expect_ok(&world, SIZE);
    return NULL;
}

static bool makes_memory(enum kind kind) {
    return kind == MAKE || kind == RESERVE;
}

/* True if the victim makes the memory of its host: the first of its ranks, where they are several. */
static bool leads(const struct trial *trial) {
    int others = 0;
    for (int i = 0; i < SIZE; i++) {
        if (i == trial->victim || (trial->hosts && trial->hosts[i] != trial->hosts[trial->victim])) continue;
        if (i < trial->victim) return false;
        others++;
    }
    return others > 0;
}

/* Many at a time, as most of each is waiting; until one is over before its call would have failed. */
static void run_trials(struct trial trial) {
    enum { AT_A_TIME = 6, STRIDE = SANITIZED_THREADS ? 3 : 1 };
    struct trial trials[AT_A_TIME];
    pthread_t threads[AT_A_TIME];
    bool all_fired = true;
    for (long k = 1; all_fired; k += AT_A_TIME * STRIDE) {
        for (int i = 0; i < AT_A_TIME; i++) {
            trials[i] = trial;
            trials[i].k = k + i * STRIDE;
            ck_assert_int_eq(pthread_create(&threads[i], NULL, run_trial, &trials[i]), 0);
        }
        for (int i = 0; i < AT_A_TIME; i++) {
            (void)pthread_join(threads[i], NULL);
            all_fired &= trials[i].fired;
        }
        bool may_be_spared = trial.kind == POLL || (makes_memory(trial.kind) && !leads(&trial));
        ck_assert(k > 1 || trials[0].fired || may_be_spared); /* who is quick never sleeps */
    }
}

TEST_EACH(every_call_in_shared_memory, KINDS) {
    for (int victim = 0; victim < 2; victim++) /* who makes the memory, and another */
        run_trials((struct trial){.kind = (enum kind)_i, .wire = WIRE_LOCAL, .victim = victim});
}

TEST_EACH(every_call_between_hosts, KINDS) {
    static const int layouts[][SIZE] = {{0, 0, 1}, {0, 1, 1}}; /* another speaks for the victim's host, or itself */
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        run_trials((struct trial){.kind = (enum kind)_i, .wire = WIRE_LOCAL, .hosts = layouts[i], .victim = 1});
    run_trials((struct trial){.kind = (enum kind)_i, .wire = WIRE_LOCAL, .hosts = layouts[0]});
}

TEST_EACH(every_call_over_tcp, MAKE) {
    static const enum ls_algorithm algorithms[] = {LS_ALGORITHM_EXCHANGE, LS_ALGORITHM_DIRECT, LS_ALGORITHM_HALVING};
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
        run_trials((struct trial){.kind = (enum kind)_i,
                                  .wire = WIRE_TCP,
                                  .transport = LS_TRANSPORT_TCP,
                                  .algorithm = algorithms[i],
                                  .victim = 1});
}

TESTS("collective/kth", .seconds = 120)
