/* A process that dies: everybody else names it at once. Workers are processes, forked before gRPC is used. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadlines.h"
#include "base/status.h"
#include "base/memory.h"
#include "cluster/join.h"
#include "cluster/leave.h"
#include "cluster/message.h"
#include "cluster/process.h"
#include "cluster/rpc/rpc_stream.h"
#include "cluster/stranger.h"
#include "harness.h"
#include "resolver/tf_config.h"

#define COUNT 4

static void wait_for_loss(struct test_worker *worker) {
    double seconds = test_wait_abort(worker->abort, 20);
    worker->leave_with = seconds < 0 ? LS_INTERNAL : ls_abort_status(worker->abort);
}

TEST_EACH(killed_worker_is_named_by_all, COUNT) {
    static struct test_worker workers[COUNT];
    struct test_processes processes;
    char name[64];
    int ports[COUNT];
    test_ports(ports, COUNT);
    test_workers(workers, COUNT, ports);
    test_processes_start(&processes, workers, COUNT, wait_for_loss);
    int64_t killed = ls_now();
    ck_assert_int_eq(kill(processes.pids[_i], SIGKILL), 0);
    (void)snprintf(name, sizeof(name), "worker:%d (rank %d, 127.0.0.", _i, _i);
    for (int i = 1; i < COUNT; i++) {
        struct test_outcome outcome = test_processes_outcome(&processes);
        ck_assert_int_eq(outcome.left, LS_UNAVAILABLE);
        ck_assert_msg(strstr(outcome.error, name) != NULL, "rank %d: no '%s' in: %s", outcome.rank, name,
                      outcome.error);
        ck_assert_ptr_nonnull(strstr(outcome.error, "was lost"));
    }
    assert_within(killed, 2);
    for (int i = 0; i < COUNT; i++) {
        int status = test_processes_wait(&processes, i);
        if (i == _i)
            ck_assert(WIFSIGNALED(status));
        else
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0); /* no SIGPIPE either */
    }
}

/* Fails by itself in the step in which another one is lost: before (*late) or after the others are seeking. */
static void fail_beside_a_loss(struct test_worker *worker) {
    const bool *late = worker->context;
    const struct ls_standing standing = {true, 3};
    struct ls_generation generation;
    worker->leave_with = test_wait_abort(worker->abort, 20) < 0 ? LS_INTERNAL : ls_abort_status(worker->abort);
    if (worker->rank == 1) {
        if (*late) (void)usleep(500000);
        worker->leave_with = ls_fail(LS_DATA_LOSS, "the map function failed");
        return;
    }
    if (!*late) (void)usleep(500000);
    bool recovers = ls_join_may_recover(worker->cluster, worker->leave_with, false);
    worker->leave_with = recovers ? ls_join_form(worker->cluster, &standing, &generation) : LS_INTERNAL;
}

/* It will not come back, so nobody waits for the other one; and what it said is the cause. */
TEST_EACH(an_error_beside_a_loss_ends_all, 2) {
    static struct test_worker workers[3];
    struct test_processes processes;
    bool late = _i;
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    for (int i = 0; i < 3; i++) workers[i].context = &late;
    test_processes_start(&processes, workers, 3, fail_beside_a_loss);
    ck_assert_int_eq(kill(processes.pids[2], SIGKILL), 0);
    int64_t started = ls_now();
    for (int i = 0; i < 2; i++) {
        struct test_outcome outcome = test_processes_outcome(&processes);
        ck_assert_int_eq(outcome.left, outcome.rank == 1 ? LS_DATA_LOSS : LS_ABORTED);
        ck_assert_msg(strstr(outcome.error, "the map function failed") != NULL, "%s", outcome.error);
    }
    assert_within(started, 8);
    for (int i = 0; i < 3; i++) ck_assert(WIFSIGNALED(test_processes_wait(&processes, i)) == (i == 2));
}

static void end_at_the_exit(struct test_worker *worker) {
    if (worker->rank != 1) return;
    assert_ok(ls_leave_pass_exit(worker->cluster));
    (void)usleep(300000); /* the others have its part of the exit barrier */
    (void)raise(SIGKILL);
}

/* Without a goodbye, when all have finished: it may have lost its streams, and seek the coordinator. That one stays for
 * a while, and that is no failure. */
TEST(killed_between_exit_and_goodbye) {
    static struct test_worker workers[3];
    struct test_processes processes;
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    test_processes_start(&processes, workers, 3, end_at_the_exit);
    for (int i = 0; i < 2; i++) {
        struct test_outcome outcome = test_processes_outcome(&processes);
        ck_assert_msg(outcome.left == LS_OK, "%s", outcome.error);
        if (outcome.rank == 0)
            ck_assert_double_ge(outcome.seconds, (double)LS_GOODBYE_TIMEOUT / (double)LS_SECOND - 0.1);
        ck_assert_double_lt(outcome.seconds, limit_of(10));
    }
    for (int i = 0; i < 3; i++) ck_assert(WIFSIGNALED(test_processes_wait(&processes, i)) == (i == 1));
}

/* Dies while the others are still joining: they wait on, and go on with the process that comes instead. */
TEST(killed_while_joining_may_come_back) {
    static struct test_worker workers[3];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    pid_t child = fork();
    if (!child) {
        test_worker_run(&workers[1]);
        _exit(0);
    }
    test_worker_start(&workers[0]);
    (void)usleep(700000);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    test_worker_start(&workers[1]);
    (void)usleep(500000);
    test_worker_start(&workers[2]);
    for (int i = 0; i < 3; i++) test_worker_wait(&workers[i]);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
    }
}

/* Rank 0 goes on alone, says so, and has nobody to stop for. context: a pipe. */
static void go_on_alone(struct test_worker *worker) {
    const struct ls_standing standing = {true, 3};
    const int *pipe = worker->context;
    struct ls_generation generation;
    worker->leave_with = test_wait_abort(worker->abort, 20) < 0 ? LS_INTERNAL : ls_abort_status(worker->abort);
    bool recovers = ls_join_may_recover(worker->cluster, worker->leave_with, false);
    worker->leave_with = recovers ? ls_join_form(worker->cluster, &standing, &generation) : LS_INTERNAL;
    if (!worker->leave_with) worker->leave_with = ls_join_accept(worker->cluster);
    ck_assert_int_eq(write(pipe[1], "", 1), 1);
    if (!worker->leave_with &&
        !test_wait_log(worker, "wants to come in, but cannot be dialled: connection refused", 10))
        worker->leave_with = ls_fail(LS_INTERNAL, "nobody has said so");
    if (!worker->leave_with && test_wait_abort(worker->abort, 1) >= 0)
        worker->leave_with = ls_abort_status(worker->abort);
}

/* Says Hello as a new process of worker:1; nobody listens at that one's address. */
static void knock(struct stranger *stranger, const struct test_worker *worker, int port) {
    struct ls_rpc_stream *stream;
    struct ls_cluster_view *config;
    LS_CLEANUP(ls_free_pointer) void *data = NULL;
    size_t size;
    assert_ok(ls_tf_config_parse(worker->tf_config, &config));
    struct ls_message message = {.kind = LS_MESSAGE_HELLO, .incarnation = 77};
    message.hello = (struct ls_hello){.protocol = LS_PROTOCOL_VERSION,
                                      .version = LS_VERSION,
                                      .task_type = "worker",
                                      .task_index = 1,
                                      .rank = 1,
                                      .size = 2,
                                      .cluster = config->canonical,
                                      .host = "elsewhere",
                                      .transport = "auto",
                                      .elastic = "1",
                                      .options = ""};
    assert_ok(ls_message_encode(&message, &data, &size));
    ls_cluster_view_free(config);
    stranger_start(stranger, NULL);
    ls_monitor_lock(&stranger->monitor);
    assert_ok(ls_rpc_stream_open(stranger->rpc, stranger_dial(port), "worker-0.lockstep", &stream));
    stranger_say(stranger, stream, data, size);
    ls_monitor_unlock(&stranger->monitor);
    ck_assert_msg(stranger->verdict == LS_VERDICT_ACCEPTED, "%s", stranger->text);
}

TEST(nobody_stops_for_whom_nobody_reaches) {
    static struct test_worker workers[2];
    struct test_processes processes;
    struct stranger stranger;
    int ports[2], ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    test_ports(ports, 2);
    test_workers(workers, 2, ports);
    for (int i = 0; i < 2; i++) {
        workers[i].elastic = "1";
        workers[i].context = ready;
        workers[i].rejoin_timeout = workers[i].heartbeat_limit = 3;
    }
    test_processes_start(&processes, workers, 2, go_on_alone);
    ck_assert_int_eq(kill(processes.pids[1], SIGKILL), 0);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    knock(&stranger, &workers[1], ports[0]);
    struct test_outcome outcome = test_processes_outcome(&processes);
    ck_assert_msg(outcome.left == LS_OK, "%s", outcome.error);
    stranger_stop(&stranger);
    for (int i = 0; i < 2; i++) ck_assert(WIFSIGNALED(test_processes_wait(&processes, i)) == (i == 1));
}

TESTS("cluster/lost", .seconds = 60)
