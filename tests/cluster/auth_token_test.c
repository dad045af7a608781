/* The shared token: who knows it joins, who does not is told so, and strangers disturb nobody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/worker.h"
#include "harness.h"

#define TOKEN "correct-horse-battery-staple"
#define OTHER "incorrect-horse-battery-staple"

static void make(struct test_worker *workers, int count) {
    int ports[MAX_TEST_WORKERS];
    test_ports(ports, count);
    test_workers(workers, count, ports);
    for (int i = 0; i < count; i++) workers[i].token = TOKEN;
}

static void expect_joined(const struct test_worker *workers, int count) {
    for (int i = 0; i < count; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
        ck_assert_msg(!strstr(workers[i].log, "refused a"), "%s", workers[i].log);
    }
}

static void expect_refused(const struct test_worker *worker, const char *text) {
    ck_assert_msg(worker->joined == LS_UNAUTHENTICATED, "%d %s", (int)worker->joined, worker->join_error);
    ck_assert_msg(strstr(worker->join_error, text) != NULL, "no '%s' in: %s", text, worker->join_error);
    ck_assert_msg(strstr(worker->join_error, "LOCKSTEP_TOKEN_FILE") != NULL, "%s", worker->join_error);
    ck_assert_ptr_null(strstr(worker->log, "horse"));
    ck_assert_ptr_null(strstr(worker->join_error, "horse"));
    ck_assert_double_lt(worker->join_seconds, limit_of(8));
}

/* _i: with data over TCP alone, over what fits. */
TEST_EACH(the_same_token, 2) {
    struct test_worker workers[3];
    make(workers, 3);
    for (int i = 0; i < 3; i++) workers[i].transport = _i ? LS_TRANSPORT_AUTO : LS_TRANSPORT_TCP;
    workers[1].delay = 0.2;
    test_workers_run(workers, 3);
    expect_joined(workers, 3);
}

/* _i: both at once; the second later, so that the first has met it as a stranger only. */
TEST_EACH(two_tokens, 2) {
    struct test_worker workers[2];
    make(workers, 2);
    workers[1].delay = _i;
    workers[1].token = OTHER;
    test_workers_run(workers, 2);
    for (int i = 0; i < 2; i++)
        expect_refused(&workers[i], "worker:0 (rank 0) and worker:1 (rank 1) have different tokens");
}

TEST(one_of_three_has_another) {
    struct test_worker workers[3];
    make(workers, 3);
    workers[1].token = OTHER;
    test_workers_run(workers, 3);
    for (int i = 0; i < 3; i++) expect_refused(&workers[i], "have different tokens");
    for (int i = 0; i < 3; i++) expect_refused(&workers[i], "worker:1 (rank 1)");
}

/* _i: which of the two has none. */
TEST_EACH(one_has_none, 2) {
    struct test_worker workers[2];
    make(workers, 2);
    workers[_i].token = NULL;
    workers[0].delay = 0.5;
    test_workers_run(workers, 2);
    expect_refused(&workers[!_i], "differ: one has a token and the other has none");
    expect_refused(&workers[_i], "a token");
}

static void write_token(const char *path, const char *text, mode_t mode) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
}

TEST(token_from_a_file) {
    struct test_worker workers[2];
    char path[] = "/tmp/token-test-XXXXXX";
    (void)close(mkstemp(path));
    make(workers, 2);
    write_token(path, "  " TOKEN " \n", 0644);
    workers[1].token = NULL;
    workers[1].token_file = path;
    test_workers_run(workers, 2);
    expect_joined(workers, 2);
    ck_assert_ptr_nonnull(strstr(workers[1].log, "everybody on this host can read LOCKSTEP_TOKEN_FILE"));
    write_token(path, TOKEN, 0600);
    make(workers, 2);
    workers[1].token = NULL;
    workers[1].token_file = path;
    test_workers_run(workers, 2);
    expect_joined(workers, 2);
    ck_assert_ptr_null(strstr(workers[1].log, "everybody"));
    (void)unlink(path);
}

static void expect_bad_file(const char *path, const char *text) {
    struct test_worker worker;
    make(&worker, 1);
    worker.token = NULL;
    worker.token_file = path;
    test_worker_run(&worker);
    ck_assert_int_eq(worker.joined, LS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(worker.join_error, text) != NULL, "no '%s' in: %s", text, worker.join_error);
}

TEST(bad_token_files) {
    static char longer[300];
    char path[] = "/tmp/token-test-XXXXXX";
    (void)close(mkstemp(path));
    memset(longer, 'x', sizeof(longer) - 1);
    expect_bad_file("/nonexistent/token", "cannot be read");
    expect_bad_file("/tmp", "cannot be read");
    write_token(path, "", 0600);
    expect_bad_file(path, "a token of 0 bytes");
    write_token(path, "  short  ", 0600);
    expect_bad_file(path, "a token of 5 bytes");
    write_token(path, longer, 0600);
    expect_bad_file(path, "more than");
    (void)unlink(path);
    struct test_worker worker;
    make(&worker, 1);
    worker.token_file = "/tmp/x";
    test_worker_run(&worker);
    ck_assert_int_eq(worker.joined, LS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(worker.join_error, "both LOCKSTEP_TOKEN and"));
}

/* _i: without a token, with one. */
TEST_EACH(one_warning_beyond_loopback, 2) {
    struct test_worker worker = {.rank = 0, .size = 2, .join_timeout = 0.5, .token = _i ? TOKEN : NULL};
    int ports[1];
    char list[128];
    test_ports(ports, 1);
    (void)snprintf(list, sizeof(list), "\"localhost:%d\", \"192.0.2.7:2222\"", ports[0]);
    test_config(worker.tf_config, sizeof(worker.tf_config), list, 0);
    test_worker_run(&worker);
    ck_assert_int_eq(strstr(worker.log, "whoever reaches this cluster's ports") != NULL, !_i);
}

TESTS("cluster/auth_token", .seconds = 60)
