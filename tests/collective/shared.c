/* Shared memory: whether it is found, what happens without it, and that every wait in it ends with the cause: a rank
 * that never comes, that ends, that is killed, an abort. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "collective/collectives.h"
#include "collective/shm/segment.h"
#include "collective/given.h"
#include "collective/world.h"
#include "harness.h"

/* Counts that take each way: small, and by blocks. */
static const size_t counts[] = {5, 100000};
enum { WAYS = 4 }; /* each count, on private and on shared memory */

struct way {
    size_t count;
    bool shared;
};
static struct way way_of(int index) {
    return (struct way){counts[index & 1], index & 2};
}

static ls_status reduce_in(struct ls_group *group, float *data, size_t count) {
    const void *inputs[1] = {data};
    void *outputs[1] = {data};
    struct ls_all_reduce call = {
        .name = "gradients", .dtype = LS_FLOAT32, .count = count, .inputs = inputs, .outputs = outputs};
    return ls_group_all_reduce(group, &call);
}

static ls_status take(struct ls_group *group, const struct way *way, float **data) {
    void *memory = NULL;
    ls_status status = LS_OK;
    if (way->shared)
        status = ls_group_share(group, way->count * sizeof(float), &memory);
    else
        memory = calloc(way->count, sizeof(float));
    *data = memory;
    return status;
}

static void give(struct ls_group *group, const struct way *way, float *data) {
    if (way->shared)
        ls_group_unshare(group, data);
    else
        free(data);
}

/* ---- whether there is any ---- */

struct finding {
    const char *described;
    float sum;
};

static ls_status find(struct rank *rank) {
    const struct finding *finding = rank->context;
    ck_assert_str_eq(ls_group_describe(rank->group), finding->described);
    for (int i = 0; i < WAYS; i++) {
        struct way way = way_of(i);
        float *data;
        ls_status status = take(rank->group, &way, &data);
        if (status) return status;
        ck_assert_uint_eq((uintptr_t)data % 16, 0);
        ck_assert(data[0] == 0 && data[way.count - 1] == 0);
        data[way.count - 1] = (float)rank->rank + 1;
        status = reduce_in(rank->group, data, way.count);
        ck_assert(status || data[way.count - 1] == finding->sum);
        give(rank->group, &way, data);
        if (status) return status;
    }
    return LS_OK;
}

TEST_EACH(it_is_found_where_all_can_map_it, 3) {
    struct finding finding = {"shared memory", 6};
    struct world_options options = {.size = 3, .wire = WIRE_SHARED, .transport = (enum ls_transport)_i};
    if (_i == LS_TRANSPORT_TCP) finding.described = "tcp";
    struct world world;
    world_run(&options, find, &finding, &world);
    world_expect_ok(&world, 3);
}

struct line {
    pthread_mutex_t mutex;
    char text[1200];
};
#define NO_LINE                                                                                                        \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }

static void keep_line(void *context, ls_log_level level, const char *line) {
    struct line *kept = context;
    (void)level;
    (void)pthread_mutex_lock(&kept->mutex);
    (void)snprintf(kept->text, sizeof(kept->text), "%s", line);
    (void)pthread_mutex_unlock(&kept->mutex);
}

TEST(a_rank_without_it_is_a_host_of_its_own) {
    struct line line = NO_LINE;
    struct ls_log log = {.sink = keep_line, .context = &line, .level = LS_LOG_INFO};
    struct finding finding = {"shared memory in 2 hosts of 1 to 2 and tcp between them", 6};
    struct world_options options = {
        .size = 3, .wire = WIRE_SHARED, .log = &log, .stray_rank = 1, .stray_transport = LS_TRANSPORT_TCP};
    struct world world;
    world_run(&options, find, &finding, &world);
    world_expect_ok(&world, 3);
    ck_assert_msg(strstr(line.text, "between them (rank 1 is set to tcp)") != NULL, "%s", line.text);
    options.transport = LS_TRANSPORT_SHM; /* then it is an error on the others */
    world_run(&options, find, &finding, &world);
    for (int i = 0; i < 3; i += 2) {
        ck_assert_int_eq(world.ranks[i].status, LS_FAILED_PRECONDITION);
        ck_assert_msg(strstr(world.ranks[i].error, "rank 1 is set to tcp") != NULL, "%s", world.ranks[i].error);
    }
}

static ls_status share_too_much(struct rank *rank) {
    void *memory = NULL;
    ls_status status = ls_group_share(rank->group, 4096, &memory);
    if (status) return status;
    ls_group_unshare(rank->group, memory);
    (void)pthread_barrier_wait(rank->barrier);
    struct rlimit before, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){3, before.rlim_max};
    (void)pthread_barrier_wait(rank->barrier);
    if (!rank->rank) ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    (void)pthread_barrier_wait(rank->barrier);
    status = ls_group_share(rank->group, 400000, &memory);
    (void)pthread_barrier_wait(rank->barrier);
    if (!rank->rank) ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (status) return status;
    float *data = memory;
    data[99999] = 2;
    status = reduce_in(rank->group, data, 100000);
    ck_assert(status || data[99999] == 6);
    ls_group_unshare(rank->group, memory);
    return status;
}

TEST(without_descriptors_memory_is_private) {
    struct line line = NO_LINE;
    struct ls_log log = {.sink = keep_line, .context = &line, .level = LS_LOG_INFO};
    struct world_options options = {.size = 3, .wire = WIRE_SHARED, .log = &log};
    struct world world;
    world_run(&options, share_too_much, NULL, &world);
    world_expect_ok(&world, 3);
    ck_assert_msg(strstr(line.text, "400000 bytes are not shared: rank 0 cannot make a segment") != NULL, "%s",
                  line.text);
}

TEST(only_the_segment_that_is_meant_is_opened) {
    struct ls_segment segment, other;
    struct ls_segment_address address;
    const struct ls_segment_part parts[] = {{0, 100}, {8192, 60}};
    const struct ls_segment_part endless[] = {{0, SIZE_MAX / 2}};
    const size_t size = 8192 + 60;
    ck_assert_int_eq(ls_segment_make(parts, 2, &segment, &address), 0);
    struct ls_segment_address wrong = address;
    ck_assert_int_eq(ls_segment_open(&address, size, &other), 0);
    other.memory[99] = 7;
    other.memory[8192 + 59] = 8;
    ck_assert(segment.memory[99] == 7 && segment.memory[8192 + 59] == 8);
    ls_segment_unmap(&other);
    ck_assert_int_eq(ls_segment_open(&address, size - 1, &other), LS_SEGMENT_ELSEWHERE); /* not what is expected */
    wrong.nonce[3] ^= 1;
    ck_assert_int_eq(ls_segment_open(&wrong, size, &other), LS_SEGMENT_ELSEWHERE);
    wrong = address;
    wrong.size++;
    ck_assert_int_eq(ls_segment_open(&wrong, size + 1, &other), LS_SEGMENT_ELSEWHERE);
    wrong.size = UINT64_MAX;
    ck_assert_int_eq(ls_segment_open(&wrong, SIZE_MAX, &other), LS_SEGMENT_ELSEWHERE);
    wrong = address;
    wrong.fd = 0; /* no segment at all */
    ck_assert_int_eq(ls_segment_open(&wrong, size, &other), LS_SEGMENT_ELSEWHERE);
    wrong.pid = -1;
    ck_assert_int_eq(ls_segment_open(&wrong, size, &other), LS_SEGMENT_ELSEWHERE);
    ck_assert_int_eq(ftruncate(address.fd, 0), -1); /* sealed: who maps it never reads past its end */
    ls_segment_hide(&address);
    ls_segment_unmap(&segment);
    ck_assert_int_ne(ls_segment_make(endless, 1, &segment, &address), 0);
}

/* ---- waits ---- */

static ls_status absent_rank(struct rank *rank) {
    const struct way *way = rank->context;
    float *data;
    ls_status status = take(rank->group, way, &data);
    if (!status) status = reduce_in(rank->group, data, way->count);
    if (!status && rank->rank != 1) status = reduce_in(rank->group, data, way->count);
    (void)pthread_barrier_wait(rank->barrier); /* links stay open until all have given up */
    give(rank->group, way, data);
    return status;
}

TEST_EACH(an_absent_rank_is_named_at_the_deadline, WAYS) {
    struct way way = way_of(_i);
    struct line line = NO_LINE;
    struct ls_log log = {.sink = keep_line, .context = &line, .level = LS_LOG_INFO};
    struct world_options options = {
        .size = 3, .wire = WIRE_SHARED, .timeout = 0.4, .report_interval = 0.1, .log = &log};
    struct world world;
    int64_t start = ls_now();
    world_run(&options, absent_rank, &way, &world);
    assert_within(start, 2);
    for (int i = 0; i < 3; i += 2) {
        ck_assert_int_eq(world.ranks[i].status, LS_DEADLINE_EXCEEDED);
        ck_assert_msg(strstr(world.ranks[i].error, "for rank 1 (has not come") != NULL, "%s", world.ranks[i].error);
    }
    ck_assert_msg(strstr(line.text, "waiting for rank 1") != NULL, "%s", line.text);
}

/* As a process that ends: its links close. */
static ls_status leaving(struct rank *rank) {
    const struct way *way = rank->context;
    float *data;
    ls_status status = take(rank->group, way, &data);
    for (int i = 0; !status && i < (rank->rank == 1 ? 3 : 4); i++) status = reduce_in(rank->group, data, way->count);
    give(rank->group, way, data);
    ls_group_free(rank->group);
    rank->group = NULL;
    return status;
}

TEST_EACH(a_rank_that_leaves_is_named, WAYS) {
    struct way way = way_of(_i);
    struct world_options options = {.size = 3, .wire = WIRE_SHARED};
    struct world world;
    int64_t start = ls_now();
    world_run(&options, leaving, &way, &world);
    assert_within(start, 10); /* told, not run out of time */
    assert_ok(world.ranks[1].status);
    int named = 0;
    for (int i = 0; i < 3; i += 2) {
        ck_assert_int_eq(world.ranks[i].status, LS_UNAVAILABLE);
        named += strstr(world.ranks[i].error, "lost the connection to rank 1") != NULL;
    }
    ck_assert_int_ge(named, 1);
}

static void *abort_soon(void *argument) {
    (void)usleep(100000);
    ls_abort_raise(argument, LS_CANCELLED, "the chief was told to stop");
    return NULL;
}

static ls_status aborted(struct rank *rank) {
    const struct way *way = rank->context;
    pthread_t thread;
    float *data = calloc(way->count, sizeof(*data));
    assert_ok(ls_thread_start(&thread, "abort", abort_soon, rank->abort));
    ls_status status = rank->rank ? reduce_in(rank->group, data, way->count) : LS_OK;
    (void)pthread_join(thread, NULL);
    free(data);
    return status;
}

TEST_EACH(an_abort_ends_the_wait, 2) {
    struct way way = way_of(_i);
    struct world_options options = {.size = 3, .wire = WIRE_SHARED};
    struct world world;
    int64_t start = ls_now();
    world_run(&options, aborted, &way, &world);
    assert_within(start, 10); /* told, not run out of time */
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(world.ranks[i].status, LS_CANCELLED);
        ck_assert_ptr_nonnull(strstr(world.ranks[i].error, "the chief was told to stop")); /* maybe from another rank */
    }
}

/* One waits in memory, the other one in a call over links. */
static ls_status differ(struct rank *rank) {
    float data[1] = {1};
    const void *inputs[1] = {data};
    void *outputs[1] = {data};
    const struct ls_all_reduce ring = {
        .name = "ring", .communication = LS_RING, .count = 1, .inputs = inputs, .outputs = outputs};
    if (rank->rank) (void)usleep(100000);
    ls_status status = rank->rank ? ls_group_all_reduce(rank->group, &ring) : ls_group_barrier(rank->group, "barrier");
    (void)pthread_barrier_wait(rank->barrier); /* links stay open */
    return status;
}

TEST(who_waits_in_memory_hears_of_a_call_over_links) {
    struct world_options options = {.size = 2, .wire = WIRE_SHARED};
    struct world world;
    int64_t start = ls_now();
    world_run(&options, differ, NULL, &world);
    assert_within(start, 10); /* told, not run out of time */
    for (int i = 0; i < 2; i++)
        ck_assert_msg(world.ranks[i].status == LS_INVALID_ARGUMENT && strstr(world.ranks[i].error, "differs"), "%s",
                      world.ranks[i].error);
}

/* ---- processes ---- */

enum { PROCESSES = 3 };

static struct ls_group *join_process(struct ls_link *links[PROCESSES][PROCESSES], int rank) {
    struct ls_abort *abort = NULL;
    struct ls_group *group = NULL;
    for (int i = 0; i < PROCESSES; i++) /* a copy that stays open would hide that the process has ended */
        for (int j = 0; j < PROCESSES; j++)
            if (i != rank && i != j) links[i][j]->ops->close(links[i][j]);
    if (ls_abort_new(&abort)) _exit(100);
    struct ls_group_config config = {
        .rank = rank, .size = PROCESSES, .source = given_links(links[rank], PROCESSES), .abort = abort, .timeout = 20};
    if (ls_group_new(&config, &group) || ls_group_connect(group)) _exit(101);
    if (strcmp(ls_group_describe(group), "shared memory") != 0) _exit(102);
    return group;
}

/* Adds for ever; ends with the status of the failure. A survivor that had the lost rank's last part is a call ahead of
 * the other one, who may see that first: then the runtime, which is not here, waits for the cause (LS_CAUSE_TIMEOUT).
 */
static void process_main(struct ls_link *links[PROCESSES][PROCESSES], int rank, const struct way *way, int started) {
    struct ls_group *group = join_process(links, rank);
    float *data = NULL;
    ls_status status = take(group, way, &data);
    for (int i = 0; !status; i++) {
        data[0] = (float)(rank + i);
        status = reduce_in(group, data, way->count);
        if (!status && data[0] != (float)(3 + 3 * i)) _exit(103);
        if (i == 100 && write(started, "x", 1) != 1) _exit(104);
    }
    bool named = strstr(ls_error(), "lost the connection to rank ") != NULL;
    bool ahead = strstr(ls_error(), "sequence differs") != NULL;
    if (!named) (void)fprintf(stderr, "# rank %d: %s\n", rank, ls_error());
    _exit(named ? (int)status : ahead ? LS_UNAVAILABLE : 105);
}

static void start_processes(const struct way *way, pid_t pids[PROCESSES], int started) {
    struct ls_link *links[PROCESSES][PROCESSES] = {0};
    for (int a = 0; a < PROCESSES; a++)
        for (int b = a + 1; b < PROCESSES; b++) {
            struct ls_link *ends[2];
            local_pair(ends);
            links[a][b] = ends[0];
            links[b][a] = ends[1];
        }
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (!pids[i]) process_main(links, i, way, started);
    }
    for (int a = 0; a < PROCESSES; a++)
        for (int b = 0; b < PROCESSES; b++)
            if (a != b) links[a][b]->ops->close(links[a][b]);
}

static int shared_files(void) {
    DIR *folder = opendir("/dev/shm");
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) count += strstr(entry->d_name, "lockstep") != NULL;
    if (folder) (void)closedir(folder);
    return count;
}

static void start_and_add(const struct way *way, pid_t pids[PROCESSES]) {
    char bytes[PROCESSES];
    int started[2];
    ck_assert_int_eq(pipe(started), 0);
    start_processes(way, pids, started[1]);
    for (int i = 0; i < PROCESSES; i++) ck_assert_int_eq(read(started[0], bytes, 1), 1);
    (void)close(started[0]);
    (void)close(started[1]);
}

static void expect_named(const pid_t pids[PROCESSES], int victim) {
    int64_t start = ls_now();
    for (int i = 0; i < PROCESSES; i++) {
        int state = 0;
        ck_assert_int_eq(waitpid(pids[i], &state, 0), pids[i]);
        if (i != victim) ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == LS_UNAVAILABLE, "state %x", state);
    }
    assert_within(start, 2);
}

TEST_EACH(a_killed_process_is_named, (WAYS * PROCESSES)) {
    struct way way = way_of(_i / PROCESSES);
    int victim = _i % PROCESSES, before = shared_files();
    pid_t pids[PROCESSES];
    start_and_add(&way, pids);
    ck_assert_int_eq(kill(pids[victim], SIGKILL), 0);
    expect_named(pids, victim);
    ck_assert_int_eq(shared_files(), before);
}

/* The killed process came to the end of a call as its last act. The second rank waits for that, and the third, halted,
 * finds it complete. */
TEST_EACH(a_killed_process_may_have_come, WAYS) {
    struct way way = way_of(_i);
    pid_t pids[PROCESSES];
    start_and_add(&way, pids);
    ck_assert_int_eq(kill(pids[2], SIGSTOP), 0);
    (void)usleep(50000);
    ck_assert_int_eq(kill(pids[0], SIGKILL), 0);
    (void)usleep(100000); /* several of the slices in which a waiting rank looks at its links */
    ck_assert_int_eq(kill(pids[2], SIGCONT), 0);
    expect_named(pids, 0);
}

TESTS("collective/shared", .seconds = 60)
