/* A process that dies: everybody else names it at once. Workers are processes, forked before gRPC is used. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/worker.h"
#include "harness.h"

#define COUNT 4

struct outcome {
    int rank;
    ls_status left;
    double seconds; /* from the join to the abort */
    char error[1024];
};

static void tell(int fd, const void *data, size_t size) {
    if (write(fd, data, size) != (ssize_t)size) _exit(3);
}

static void wait_for_loss(struct test_worker *worker) {
    const int *pipes = worker->context;
    struct outcome outcome = {.rank = worker->rank};
    char byte = 'j';
    tell(pipes[1], &byte, 1);
    outcome.seconds = test_wait_abort(worker->abort, 20);
    worker->leave_with = outcome.seconds < 0 ? LS_INTERNAL : ls_abort_status(worker->abort);
}

/* One worker's process: a byte when it has joined, an outcome when it has left. */
static void live(struct test_worker *worker, int *joined, int *outcomes) {
    struct outcome outcome = {.rank = worker->rank};
    worker->context = joined;
    worker->body = wait_for_loss;
    test_worker_run(worker);
    outcome.left = worker->joined ? worker->joined : worker->left;
    (void)snprintf(outcome.error, sizeof(outcome.error), "%s",
                   worker->joined ? worker->join_error : worker->leave_error);
    tell(outcomes[1], &outcome, sizeof(outcome));
    _exit(0);
}

static void start(pid_t *children, int *joined, int *outcomes) {
    static struct test_worker workers[COUNT];
    int ports[COUNT];
    ck_assert_int_eq(pipe(joined), 0);
    ck_assert_int_eq(pipe(outcomes), 0);
    test_ports(ports, COUNT);
    test_workers(workers, COUNT, ports);
    for (int i = 0; i < COUNT; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (!children[i]) live(&workers[i], joined, outcomes);
    }
    for (int i = 0; i < COUNT; i++) {
        char byte;
        ck_assert_int_eq(read(joined[0], &byte, 1), 1);
    }
}

START_TEST(killed_worker_is_named_by_all) {
    pid_t children[COUNT];
    int joined[2], outcomes[2];
    char name[64];
    start(children, joined, outcomes);
    int64_t killed = ls_now();
    ck_assert_int_eq(kill(children[_i], SIGKILL), 0);
    (void)snprintf(name, sizeof(name), "worker:%d (rank %d, 127.0.0.1:", _i, _i);
    for (int i = 1; i < COUNT; i++) {
        struct outcome outcome;
        ck_assert_int_eq(read(outcomes[0], &outcome, sizeof(outcome)), sizeof(outcome));
        ck_assert_int_eq(outcome.left, LS_UNAVAILABLE);
        ck_assert_msg(strstr(outcome.error, name) != NULL, "rank %d: no '%s' in: %s", outcome.rank, name,
                      outcome.error);
        ck_assert_ptr_nonnull(strstr(outcome.error, "was lost"));
    }
    ck_assert_double_lt(ls_seconds_since(killed), 2);
    for (int i = 0; i < COUNT; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        if (i == _i)
            ck_assert(WIFSIGNALED(status));
        else
            ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0); /* no SIGPIPE either */
    }
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
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void) {
    return run_suite(suite());
}
