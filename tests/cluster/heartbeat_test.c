/* Workers that freeze: named by all, and by themselves when they wake; and who is only busy is not. Limits are short,
 * and what is asked for upper bounds is generous: the machine may be busy. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/process.h"
#include "harness.h"

#define COUNT 3
#define LIMIT (SANITIZED ? 2.0 : 1.0)

static void prepare(struct test_worker *workers) {
    int ports[COUNT];
    test_ports(ports, COUNT);
    test_workers(workers, COUNT, ports);
    for (int i = 0; i < COUNT; i++) workers[i].heartbeat_limit = LIMIT;
    for (int i = 0; i < COUNT; i++) workers[i].exit_timeout = 60;
}

static void seconds_pass(double seconds) {
    (void)usleep((useconds_t)(seconds * 1e6));
}

static void wait_for_loss(struct test_worker *worker) {
    double seconds = test_wait_abort(worker->abort, 40);
    worker->leave_with = seconds < 0 ? LS_INTERNAL : ls_abort_status(worker->abort);
}

static void expect_others_name(struct test_processes *processes, int frozen) {
    char name[64];
    (void)snprintf(name, sizeof(name), "worker:%d (rank %d, 127.0.0.1:", frozen, frozen);
    for (int i = 1; i < COUNT; i++) {
        struct test_outcome outcome = test_processes_outcome(processes);
        ck_assert_int_ne(outcome.rank, frozen);
        ck_assert_msg(outcome.left == LS_UNAVAILABLE, "rank %d: %d after %g s: %s", outcome.rank, (int)outcome.left,
                      outcome.seconds, outcome.error);
        ck_assert_msg(strstr(outcome.error, name) != NULL, "no '%s' in: %s", name, outcome.error);
        ck_assert_msg(strstr(outcome.error, "was lost: silent for ") != NULL, "%s", outcome.error);
        ck_assert_msg(strstr(outcome.error, "frozen (its host answers") != NULL, "%s", outcome.error);
        ck_assert_double_lt(outcome.seconds, limit_of(20));
    }
}

/* finished: it may find everybody's part of the exit barrier in its sockets, and has then finished in order. */
static void expect_own_name(struct test_processes *processes, int frozen, bool finished) {
    char name[64];
    ck_assert_int_eq(kill(processes->pids[frozen], SIGCONT), 0);
    struct test_outcome outcome = test_processes_outcome(processes);
    ck_assert_int_eq(outcome.rank, frozen);
    for (int i = 0; i < COUNT; i++) ck_assert_int_eq(test_processes_wait(processes, i), 0);
    if (finished && !outcome.left) return;
    ck_assert_int_eq(outcome.left, LS_UNAVAILABLE);
    (void)snprintf(name, sizeof(name), "worker:%d (rank %d, 127.0.0.1:", frozen, frozen);
    ck_assert_msg(strncmp(outcome.error, name, strlen(name)) == 0, "%s", outcome.error);
    ck_assert_msg(strstr(outcome.error, "was itself stopped for ") != NULL, "%s", outcome.error);
}

TEST_EACH(frozen_worker_is_named_by_all_and_by_itself, 2) {
    static struct test_worker workers[COUNT];
    struct test_processes processes;
    prepare(workers);
    test_processes_start(&processes, workers, COUNT, wait_for_loss);
    ck_assert_int_eq(kill(processes.pids[_i], SIGSTOP), 0);
    expect_others_name(&processes, _i);
    expect_own_name(&processes, _i, false);
}

static void freeze_at_the_exit(struct test_worker *worker) {
    if (worker->rank == 1) (void)raise(SIGSTOP);
}

TEST(frozen_before_the_exit_barrier) {
    static struct test_worker workers[COUNT];
    struct test_processes processes;
    prepare(workers);
    test_processes_start(&processes, workers, COUNT, freeze_at_the_exit);
    expect_others_name(&processes, 1);
    expect_own_name(&processes, 1, true);
}

static void go_on(struct test_worker *worker) {
    double seconds = test_wait_abort(worker->abort, 2 * LIMIT);
    worker->leave_with = seconds < 0 ? LS_OK : ls_abort_status(worker->abort);
}

/* A whole job that is stopped and continued (Ctrl-Z, a suspended machine) goes on. */
TEST(all_stopped_together_go_on) {
    static struct test_worker workers[COUNT];
    struct test_processes processes;
    prepare(workers);
    test_processes_start(&processes, workers, COUNT, go_on);
    for (int i = 0; i < COUNT; i++) ck_assert_int_eq(kill(processes.pids[i], SIGSTOP), 0);
    seconds_pass(2 * LIMIT);
    for (int i = 0; i < COUNT; i++) ck_assert_int_eq(kill(processes.pids[i], SIGCONT), 0);
    for (int i = 0; i < COUNT; i++) {
        struct test_outcome outcome = test_processes_outcome(&processes);
        ck_assert_msg(outcome.left == LS_OK, "%s", outcome.error);
    }
    for (int i = 0; i < COUNT; i++) ck_assert_int_eq(test_processes_wait(&processes, i), 0);
}

/* The thread of the caller does something else for long, with and without the processor. */
static void be_busy(struct test_worker *worker) {
    int64_t start = ls_now();
    if (worker->rank == 1) seconds_pass(2 * LIMIT);
    while (worker->rank == 0 && ls_seconds_since(start) < 2 * LIMIT) continue;
    if (ls_abort_raised(worker->abort)) worker->leave_with = ls_abort_status(worker->abort);
}

TEST(busy_workers_are_not_silent) {
    static struct test_worker workers[COUNT];
    prepare(workers);
    for (int i = 0; i < COUNT; i++) workers[i].body = be_busy;
    test_workers_run(workers, COUNT);
    for (int i = 0; i < COUNT; i++) ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
}

/* While others are still to come a frozen one is named in the line of who is missing, and may wake and join. */
TEST(frozen_while_joining) {
    static struct test_worker workers[COUNT];
    prepare(workers);
    for (int i = 0; i < COUNT; i++) workers[i].join_timeout = 40;
    pid_t child = fork();
    if (!child) {
        test_worker_run(&workers[1]);
        _exit(workers[1].joined || workers[1].left);
    }
    test_worker_start(&workers[0]);
    ck_assert_msg(test_wait_log(&workers[0], "waiting for 1 of 3 workers", 20), "%s", workers[0].log);
    ck_assert_int_eq(kill(child, SIGSTOP), 0);
    ck_assert_msg(test_wait_log(&workers[0], ": silent for ", 20), "%s", workers[0].log);
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    test_worker_start(&workers[2]);
    for (int i = 0; i < COUNT; i += 2) {
        test_worker_wait(&workers[i]);
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

TESTS("cluster/heartbeat", .seconds = 60)
