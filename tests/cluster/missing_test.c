/* Missing workers and the reasons, in the waiting line and in the final error. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cluster/worker.h"
#include "harness.h"

/* A worker of three, with worker:1 as given and worker:2 refusing; it must give up after a second. */
#define PATIENCE (SANITIZED ? 5.0 : 1.5) /* seconds for the join: each peer has been tried, and has failed */

static void wait_in_vain(struct test_worker *worker, const char *address, int own_port, int refusing_port) {
    char list[512];
    *worker =
        (struct test_worker){.rank = 0, .size = 3, .join_timeout = PATIENCE, .log_mutex = PTHREAD_MUTEX_INITIALIZER};
    (void)snprintf(list, sizeof(list), "\"127.0.0.1:%d\", \"%s\", \"127.0.0.1:%d\"", own_port, address, refusing_port);
    test_config(worker->tf_config, sizeof(worker->tf_config), list, 0);
    test_worker_run(worker);
    ck_assert_int_eq(worker->joined, LS_DEADLINE_EXCEEDED);
    ck_assert_double_lt(worker->join_seconds, limit_of(PATIENCE + 2.3));
}

static void expect_both(const struct test_worker *worker, const char *text) {
    ck_assert_msg(strstr(worker->join_error, text) != NULL, "no '%s' in: %s", text, worker->join_error);
    ck_assert_msg(strstr(worker->log, text) != NULL, "no '%s' in: %s", text, worker->log);
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    return fd;
}

TEST(refused) {
    struct test_worker worker;
    int ports[3];
    char address[64], text[256];
    test_ports(ports, 3);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", ports[1]);
    wait_in_vain(&worker, address, ports[0], ports[2]);
    (void)snprintf(text, sizeof(text),
                   "worker:1 (127.0.0.1:%d): connection refused; worker:2 (127.0.0.1:%d): connection refused", ports[1],
                   ports[2]);
    expect_both(&worker, text);
    expect_both(&worker, "2 of 3 workers since ");
    ck_assert_ptr_nonnull(strstr(worker.join_error, "LOCKSTEP_JOIN_TIMEOUT"));
    ck_assert_ptr_nonnull(strstr(worker.join_error, "Start all tasks within"));
}

TEST(name_not_found) {
    struct test_worker worker;
    int ports[2];
    test_ports(ports, 2);
    wait_in_vain(&worker, "no-such-host.invalid:2222", ports[0], ports[1]);
    expect_both(&worker, "worker:1 (no-such-host.invalid:2222): name not found");
    expect_both(&worker, "connection refused");
    ck_assert_ptr_nonnull(strstr(worker.join_error, "Mend the name in TF_CONFIG, DNS or /etc/hosts"));
}

/* The kernel accepts for it, nobody ever answers. */
TEST(silent) {
    struct test_worker worker;
    int ports[3];
    char address[64];
    test_ports(ports, 3);
    int fd = listen_on(ports[1]);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", ports[1]);
    wait_in_vain(&worker, address, ports[0], ports[2]);
    (void)close(fd);
    expect_both(&worker, "): no answer");
}

struct garbage {
    int fd;
    const char *text;
};

static void *speak_garbage(void *argument) {
    const struct garbage *garbage = argument;
    for (;;) {
        int fd = accept(garbage->fd, NULL, NULL);
        if (fd < 0) return NULL;
        (void)send(fd, garbage->text, strlen(garbage->text), MSG_NOSIGNAL);
        (void)usleep(20000);
        (void)close(fd);
    }
}

static const char *const garbages[] = {"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
                                       "SSH-2.0-OpenSSH_9.2\r\n", ""};

TEST_EACH(no_lockstep_worker, COUNT_OF(garbages)) {
    struct test_worker worker;
    int ports[3];
    char address[64];
    pthread_t thread;
    test_ports(ports, 3);
    struct garbage garbage = {listen_on(ports[1]), garbages[_i]};
    assert_ok(ls_thread_start(&thread, "garbage", speak_garbage, &garbage));
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", ports[1]);
    wait_in_vain(&worker, address, ports[0], ports[2]);
    (void)shutdown(garbage.fd, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    (void)close(garbage.fd);
    expect_both(&worker, "): what answers there is no Lockstep worker");
}

/* Two of three are there: they name the third one only, and both end. */
TEST(one_of_three) {
    struct test_worker workers[3];
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    for (int i = 0; i < 2; i++) {
        workers[i].join_timeout = SANITIZED_THREADS ? 4 : 1.5;
        test_worker_start(&workers[i]);
    }
    for (int i = 0; i < 2; i++) test_worker_wait(&workers[i]);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(workers[i].joined, LS_DEADLINE_EXCEEDED);
        expect_both(&workers[i], "worker:2 (127.0.0.");
        ck_assert_ptr_nonnull(strstr(workers[i].log, "1 of 3 workers since "));
    }
}

/* A worker that gives up and starts again finds the others still waiting. */
TEST(comes_back) {
    struct test_worker workers[3], early;
    int ports[3];
    test_ports(ports, 3);
    test_workers(workers, 3, ports);
    early = workers[1];
    early.join_timeout = 0.8;
    test_worker_start(&workers[0]);
    test_worker_run(&early);
    ck_assert_int_eq(early.joined, LS_DEADLINE_EXCEEDED);
    test_worker_start(&workers[1]);
    test_worker_start(&workers[2]);
    for (int i = 0; i < 3; i++) test_worker_wait(&workers[i]);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(workers[i].joined == LS_OK, "%s", workers[i].join_error);
        ck_assert_msg(workers[i].left == LS_OK, "%s", workers[i].leave_error);
    }
}

TESTS("cluster/missing", .seconds = 60)
