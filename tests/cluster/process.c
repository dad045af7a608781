/* Each process runs one worker: a byte through one pipe when it has joined, an outcome through another at its end. */
#include "cluster/process.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

static void tell(int fd, const void *data, size_t size) {
    if (write(fd, data, size) != (ssize_t)size) _exit(3);
}

static void join(struct test_worker *worker) {
    const struct test_processes *processes = worker->context;
    char byte = 'j';
    tell(processes->joined[1], &byte, 1);
    worker->join_seconds = ls_seconds_since(0);
    worker->context = processes->context;
    processes->body(worker);
}

static void live(struct test_processes *processes, struct test_worker *worker) {
    struct test_outcome outcome = {.rank = worker->rank};
    processes->context = worker->context; /* of this process alone */
    worker->context = processes;
    worker->body = join;
    test_worker_run(worker);
    outcome.left = worker->joined ? worker->joined : worker->left;
    outcome.seconds = ls_seconds_since(0) - worker->join_seconds;
    (void)snprintf(outcome.error, sizeof(outcome.error), "%s",
                   worker->joined ? worker->join_error : worker->leave_error);
    tell(processes->outcomes[1], &outcome, sizeof(outcome));
    _exit(0);
}

void test_processes_start(struct test_processes *processes, struct test_worker *workers, int count, test_body *body) {
    *processes = (struct test_processes){.count = count, .body = body};
    ck_assert_int_eq(pipe(processes->joined), 0);
    ck_assert_int_eq(pipe(processes->outcomes), 0);
    for (int i = 0; i < count; i++) {
        processes->pids[i] = fork();
        ck_assert_int_ge(processes->pids[i], 0);
        if (!processes->pids[i]) live(processes, &workers[i]);
    }
    for (int i = 0; i < count; i++) {
        char byte;
        ck_assert_int_eq(read(processes->joined[0], &byte, 1), 1);
    }
}

struct test_outcome test_processes_outcome(struct test_processes *processes) {
    struct test_outcome outcome;
    ck_assert_int_eq(read(processes->outcomes[0], &outcome, sizeof(outcome)), sizeof(outcome));
    return outcome;
}

int test_processes_wait(struct test_processes *processes, int rank) {
    int status;
    ck_assert_int_eq(waitpid(processes->pids[rank], &status, 0), processes->pids[rank]);
    return status;
}
