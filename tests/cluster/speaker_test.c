/* One worker of a host carries the control streams of its others: hosts are loopback addresses. Everything that the
 * others hear of each other goes through it, and they find each other without it where it is lost. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "cluster/exchange.h"
#include "cluster/join.h"
#include "cluster/leave.h"
#include "cluster/process.h"
#include "harness.h"

#define LIMIT  (SANITIZED_THREADS ? 8.0 : SANITIZED ? 4.0 : 2.0)
#define SLOWER (SANITIZED ? 4 : 1) /* on a busy machine */

/* A cluster: hosts of equally many workers, and the window. */
struct layout {
    int hosts, each, window;
};

static const struct layout layouts[] = {{2, 2, 1}, {4, 4, 3}, {3, 2, 1}, {2, 8, 3}, {5, 3, 2}, {2, 3, 4}, {3, 3, 7}};
#define LAYOUTS ((int)(sizeof(layouts) / sizeof(layouts[0])))

static int size_of(const struct layout *layout) {
    return layout->hosts * layout->each;
}

/* Before any worker reads its settings. */
static void lay_out(const struct layout *layout, struct test_worker *workers) {
    char window[16];
    int ports[MAX_TEST_WORKERS], count = size_of(layout);
    (void)snprintf(window, sizeof(window), "%d", layout->window);
    ck_assert_int_eq(setenv("LOCKSTEP_CONTROL_WINDOW", window, 1), 0);
    ck_assert_int_eq(setenv("LOCKSTEP_HOST_STREAMS", "on", 1), 0);
    test_ports(ports, count);
    test_host_workers(workers, count, ports, layout->each);
}

static int port_of(const struct test_worker *worker) {
    const char *at = worker->tf_config;
    for (int i = 0; i <= worker->rank; i++) at = strstr(at, "127.0.0.") + 8;
    return atoi(strchr(at, ':') + 1);
}

/* ---- streams ---- */

/* Connections that the worker at a port has taken and keeps. */
static int count_taken(int port) {
    FILE *table = fopen("/proc/net/tcp", "re");
    char line[512];
    int count = 0;
    ck_assert_ptr_nonnull(table);
    while (fgets(line, sizeof(line), table)) {
        unsigned local, state;
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x", &local, &state) == 2)
            count += local == (unsigned)port && state == 1;
    }
    (void)fclose(table);
    return count;
}

/* True: the two ranks have streams of their own. */
static bool are_direct(const struct layout *layout, int low, int high) {
    bool local = low / layout->each == high / layout->each;
    int speaker = high / layout->each * layout->each;
    if (low >= layout->window) return local && low == speaker; /* for what it carries */
    return local || high <= layout->window || high == speaker;
}

static int expected_taken(const struct layout *layout, int rank) {
    int count = 0;
    for (int other = 0; other < size_of(layout); other++)
        if (other != rank) count += are_direct(layout, other < rank ? other : rank, other < rank ? rank : other);
    return count;
}

struct look {
    const struct layout *layout;
    struct test_worker *workers;
    int taken[MAX_TEST_WORKERS];
};

static void say_hello(struct test_worker *worker) {
    struct ls_bytes received[MAX_TEST_WORKERS];
    char text[64];
    for (int round = 0; round < 3; round++) {
        size_t size = (size_t)snprintf(text, sizeof(text), "%d in round %d", worker->rank, round);
        assert_ok(ls_cluster_exchange(worker->cluster, "hello", (struct ls_bytes){text, size}, 0, received));
        for (int i = 0; i < worker->size; i++) {
            (void)snprintf(text, sizeof(text), "%d in round %d", i, round);
            ck_assert_uint_eq(received[i].size, strlen(text));
            ck_assert(memcmp(received[i].data, text, strlen(text)) == 0);
            ls_free(received[i].data);
        }
    }
}

/* True: each has as many as it should have. */
static bool look_around(struct look *look, int count) {
    bool same = true;
    for (int i = 0; i < count; i++) {
        look->taken[i] = count_taken(port_of(&look->workers[i]));
        same = same && look->taken[i] == expected_taken(look->layout, i);
    }
    return same;
}

/* While all are members; what their generation does not need is closed soon. */
static void count_streams(struct test_worker *worker) {
    say_hello(worker);
    (void)usleep(300000);
    for (int turns = 0; !worker->rank && !look_around(worker->context, worker->size) && turns < 50; turns++)
        (void)usleep(100000);
    say_hello(worker);
}

/* True: all were up so soon that nobody has stopped to wait for a speaker. */
static bool were_prompt(const struct test_worker *workers, int count) {
    for (int i = 0; i < count; i++)
        if (workers[i].join_seconds * (double)LS_SECOND > (double)LS_SPEAKER_TIMEOUT / 2) return false;
    return true;
}

static void run_look(struct look *look, struct test_worker *workers) {
    int count = size_of(look->layout);
    lay_out(look->layout, workers);
    look->workers = workers;
    for (int i = 0; i < count; i++) {
        workers[i].context = look;
        workers[i].body = count_streams;
    }
    test_workers_run(workers, count);
    for (int i = 0; i < count; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
        ck_assert_double_lt(workers[i].join_seconds, limit_of(15 * SLOWER));
    }
}

START_TEST(streams_are_one_a_host) {
    static struct test_worker workers[MAX_TEST_WORKERS];
    struct look look = {.layout = &layouts[_i]};
    int count = size_of(look.layout), attempts = SANITIZED_THREADS ? 2 : 5; /* no numbers are of interest there */
    do run_look(&look, workers);
    while (!were_prompt(workers, count) && --attempts);
    for (int i = 0; i < count && attempts; i++)
        ck_assert_msg(look.taken[i] == expected_taken(look.layout, i), "rank %d has taken %d connections, not %d", i,
                      look.taken[i], expected_taken(look.layout, i));
    if (look.layout->window == 1 && attempts)
        ck_assert_int_eq(look.taken[0], look.layout->hosts - 1 + look.layout->each - 1);
}
END_TEST

/* As many bytes as an exchange may have, through a speaker. */
static void exchange_much(struct test_worker *worker) {
    struct ls_bytes received[MAX_TEST_WORKERS], own = {ls_alloc(4190000), 4190000};
    memset(own.data, 'a' + worker->rank, own.size);
    assert_ok(ls_cluster_exchange(worker->cluster, "much", own, 0, received));
    for (int i = 0; i < worker->size; i++) {
        ck_assert_uint_eq(received[i].size, own.size);
        ck_assert_int_eq(((char *)received[i].data)[own.size - 1], 'a' + i);
        ls_free(received[i].data);
    }
    ls_free(own.data);
}

START_TEST(the_largest_message_is_carried) {
    static struct test_worker workers[4];
    lay_out(&layouts[0], workers);
    for (int i = 0; i < 4; i++) workers[i].body = exchange_much;
    for (int i = 0; i < 4; i++) workers[i].heartbeat_limit = SANITIZED_THREADS ? 20 : 0; /* who computes is not lost */
    test_workers_run(workers, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(workers[i].left == LS_OK, "%s%s", workers[i].join_error, workers[i].leave_error);
}
END_TEST

/* ---- joins that fail ---- */

START_TEST(what_differs_is_named_through_a_speaker) {
    static struct test_worker workers[6];
    lay_out(&layouts[2], workers);
    workers[_i].version = "9.9.9";
    test_workers_run(workers, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(workers[i].joined, LS_INVALID_ARGUMENT);
        ck_assert_msg(strstr(workers[i].join_error, "the library version differs") != NULL, "%s",
                      workers[i].join_error);
        ck_assert_msg(strstr(workers[i].join_error, "'9.9.9'") != NULL, "%s", workers[i].join_error);
        ck_assert_double_lt(workers[i].join_seconds, limit_of(10 * SLOWER));
    }
}
END_TEST

/* All say who is missing, and not who would have been carried by it. */
START_TEST(a_speaker_that_never_starts_is_named_alone) {
    static struct test_worker workers[6];
    lay_out(&layouts[2], workers);
    for (int i = 0; i < 6; i++) workers[i].join_timeout = (i ? 7 : 5) * (SANITIZED_THREADS ? 3 : 1);
    for (int i = 0; i < 6; i++)
        if (i != 2) test_worker_start(&workers[i]);
    for (int i = 0; i < 6; i++)
        if (i != 2) test_worker_wait(&workers[i]);
    for (int i = 0; i < 6; i++) {
        if (i == 2) continue;
        ck_assert_int_eq(workers[i].joined, LS_DEADLINE_EXCEEDED);
        ck_assert_msg(strstr(workers[i].join_error, "worker:2 (127.0.0.2:") != NULL, "%s", workers[i].join_error);
        if (!i)
            ck_assert_msg(strstr(workers[i].join_error, "1 of 6 workers since ") != NULL, "%s", workers[i].join_error);
        ck_assert_ptr_nonnull(strstr(workers[i].log, "1 of 6 workers since "));
    }
}
END_TEST

START_TEST(a_token_is_proved_through_a_speaker) {
    static struct test_worker workers[6];
    lay_out(&layouts[2], workers);
    for (int i = 0; i < 6; i++) workers[i].token = "a token of enough bytes";
    if (_i) workers[_i].token = "another one of as many";
    for (int i = 0; i < 6 && _i; i++) workers[i].join_timeout = SANITIZED_THREADS ? 15 : 6;
    test_workers_run(workers, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert_msg((workers[i].joined != LS_OK) == (_i != 0), "rank %d: %s", i, workers[i].join_error);
        if (i == _i && _i) ck_assert_msg(strstr(workers[i].join_error, "token") != NULL, "%s", workers[i].join_error);
    }
}
END_TEST

/* ---- losses ---- */

static void wait_for_loss(struct test_worker *worker) {
    double seconds = test_wait_abort(worker->abort, 40 * SLOWER);
    worker->leave_with = seconds < 0 ? LS_INTERNAL : ls_abort_status(worker->abort);
}

static void start(struct test_processes *processes, struct test_worker *workers, double limit) {
    lay_out(&layouts[2], workers);
    for (int i = 0; i < 6; i++) workers[i].heartbeat_limit = limit;
    test_processes_start(processes, workers, 6, wait_for_loss);
}

/* Under ThreadSanitizer a worker may itself stop for seconds. Its error begins with that. */
static bool names_lost(const char *error, const char *name) {
    const char *found = strstr(error, name);
    return found == error || (SANITIZED_THREADS && found && strstr(error, "was itself stopped for"));
}

/* Those who are left name one of the two lost, which may be one. */
static void expect_named(struct test_processes *processes, int lost, int other, const char *words) {
    char names[2][64];
    (void)snprintf(names[0], sizeof(names[0]), "worker:%d (rank %d, 127.0.0.", lost, lost);
    (void)snprintf(names[1], sizeof(names[1]), "worker:%d (rank %d, 127.0.0.", other, other);
    for (int i = lost == other ? 1 : 2; i < processes->count; i++) {
        struct test_outcome outcome = test_processes_outcome(processes);
        ck_assert_msg(outcome.left == LS_UNAVAILABLE, "rank %d: %d after %g s: %s", outcome.rank, (int)outcome.left,
                      outcome.seconds, outcome.error);
        ck_assert_msg(names_lost(outcome.error, names[0]) || names_lost(outcome.error, names[1]), "rank %d: %s",
                      outcome.rank, outcome.error);
        ck_assert_msg(strstr(outcome.error, words) != NULL, "rank %d: %s", outcome.rank, outcome.error);
    }
}

static void end_all(struct test_processes *processes) {
    for (int i = 0; i < processes->count; i++) (void)kill(processes->pids[i], SIGKILL);
    for (int i = 0; i < processes->count; i++) (void)test_processes_wait(processes, i);
}

START_TEST(killed_worker_is_named_by_all) {
    static struct test_worker workers[6];
    struct test_processes processes;
    start(&processes, workers, SANITIZED_THREADS ? 20 : 0);
    int64_t killed = ls_now();
    ck_assert_int_eq(kill(processes.pids[_i], SIGKILL), 0);
    expect_named(&processes, _i, _i, "was lost: its connection was closed");
    assert_within(killed, 5 * SLOWER);
    end_all(&processes);
}
END_TEST

START_TEST(frozen_worker_is_named_by_all) {
    static struct test_worker workers[6];
    struct test_processes processes;
    start(&processes, workers, LIMIT);
    ck_assert_int_eq(kill(processes.pids[_i], SIGSTOP), 0);
    expect_named(&processes, _i, _i, "was lost: silent for ");
    end_all(&processes);
}
END_TEST

START_TEST(two_speakers_lost_at_once) {
    static struct test_worker workers[6];
    struct test_processes processes;
    int how = _i ? SIGSTOP : SIGKILL;
    start(&processes, workers, LIMIT);
    ck_assert_int_eq(kill(processes.pids[2], how), 0);
    ck_assert_int_eq(kill(processes.pids[4], how), 0);
    expect_named(&processes, 2, 4, "was lost: ");
    end_all(&processes);
}
END_TEST

static void fail_alone(struct test_worker *worker) {
    const int *who = worker->context;
    if (worker->rank == *who)
        worker->leave_with = ls_fail(LS_DATA_LOSS, "the map function failed");
    else
        wait_for_loss(worker);
}

START_TEST(an_error_is_told_through_a_speaker) {
    static struct test_worker workers[6];
    int who = _i;
    lay_out(&layouts[2], workers);
    for (int i = 0; i < 6; i++) workers[i].context = &who;
    for (int i = 0; i < 6; i++) workers[i].body = fail_alone;
    test_workers_run(workers, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(workers[i].left, i == who ? LS_DATA_LOSS : LS_ABORTED);
        ck_assert_msg(strstr(workers[i].leave_error, "the map function failed") != NULL, "%s", workers[i].leave_error);
    }
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cluster/speaker");
    TCase *tests = tcase_create("speaker");
    tcase_set_timeout(tests, 120 * SLOWER);
    tcase_add_loop_test(tests, streams_are_one_a_host, 0, SANITIZED_THREADS ? 3 : LAYOUTS);
    tcase_add_test(tests, the_largest_message_is_carried);
    tcase_add_loop_test(tests, what_differs_is_named_through_a_speaker, 2, 4);
    tcase_add_test(tests, a_speaker_that_never_starts_is_named_alone);
    tcase_add_loop_test(tests, a_token_is_proved_through_a_speaker, 0, 1);
    tcase_add_loop_test(tests, a_token_is_proved_through_a_speaker, 2, 4);
    tcase_add_loop_test(tests, killed_worker_is_named_by_all, 0, SANITIZED_THREADS ? 4 : 6); /* of three hosts */
    tcase_add_loop_test(tests, frozen_worker_is_named_by_all, 0, 4);
    tcase_add_loop_test(tests, two_speakers_lost_at_once, 0, 2);
    tcase_add_loop_test(tests, an_error_is_told_through_a_speaker, 2, 4);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void) {
    return run_suite(suite());
}
