/* A process that dies: everybody else names it at once. Workers are processes, forked before gRPC is used. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadlines.h"
#include "cluster/process.h"
#include "harness.h"

#define COUNT 4

static void wait_for_loss(struct test_worker *worker) {
    double seconds = test_wait_abort(worker->abort, 20);
    worker->leave_with = seconds < 0 ? LS_INTERNAL : ls_abort_status(worker->abort);
}

START_TEST(killed_worker_is_named_by_all) {
    static struct test_worker workers[COUNT];
    struct test_processes processes;
    char name[64];
    int ports[COUNT];
    test_ports(ports, COUNT);
    test_workers(workers, COUNT, ports);
    test_processes_start(&processes, workers, COUNT, wait_for_loss);
    int64_t killed = ls_now();
    ck_assert_int_eq(kill(processes.pids[_i], SIGKILL), 0);
    (void)snprintf(name, sizeof(name), "worker:%d (rank %d, 127.0.0.1:", _i, _i);
    for (int i = 1; i < COUNT; i++) {
        struct test_outcome outcome = test_processes_outcome(&processes);
        ck_assert_int_eq(outcome.left, LS_UNAVAILABLE);
        ck_assert_msg(strstr(outcome.error, name) != NULL, "rank %d: no '%s' in: %s", outcome.rank, name,
                      outcome.error);
        ck_assert_ptr_nonnull(strstr(outcome.error, "was lost"));
    }
    ck_assert_double_lt(ls_seconds_since(killed), 2);
    for (int i = 0; i < COUNT; i++) {
        int status = test_processes_wait(&processes, i);
        if (i == _i)
            ck_assert(WIFSIGNALED(status));
        else
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0); /* no SIGPIPE either */
    }
}
END_TEST

static void end_at_the_exit(struct test_worker *worker) {
    if (worker->rank != 1) return;
    ck_assert_int_eq(ls_cluster_pass_exit(worker->cluster), LS_OK);
    (void)usleep(300000); /* the others have its part of the exit barrier */
    (void)kill(getpid(), SIGKILL);
}

/* Without a goodbye, when all have finished: it may have lost its streams, and seek the others. They stay for a while,
 * and that is no failure. */
START_TEST(killed_between_exit_and_goodbye) {
    static struct test_worker workers[3];
    struct test_processes processes;
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    test_processes_start(&processes, workers, 3, end_at_the_exit);
    for (int i = 0; i < 2; i++) {
        struct test_outcome outcome = test_processes_outcome(&processes);
        ck_assert_msg(outcome.left == LS_OK, "%s", outcome.error);
        ck_assert_double_ge(outcome.seconds, (double)LS_GOODBYE_TIMEOUT / (double)LS_SECOND - 0.1);
        ck_assert_double_lt(outcome.seconds, 10);
    }
    for (int i = 0; i < 3; i++) ck_assert(WIFSIGNALED(test_processes_wait(&processes, i)) == (i == 1));
}
END_TEST

/* Dies while the others are still joining: they wait on, and go on with the process that comes instead. */
START_TEST(killed_while_joining_may_come_back) {
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
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cluster/lost");
    TCase *tests = tcase_create("lost");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, killed_worker_is_named_by_all, 0, COUNT);
    tcase_add_test(tests, killed_while_joining_may_come_back);
    tcase_add_test(tests, killed_between_exit_and_goodbye);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void) {
    return run_suite(suite());
}
