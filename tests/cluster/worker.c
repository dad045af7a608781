/* A worker's life in a thread: delay, join, body, leave; everything that it says is kept. */
#include "cluster/worker.h"

#include <dirent.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/new.h"
#include "base/thread.h"
#include "cluster/join.h"
#include "cluster/leave.h"
#include "harness.h"
#include "ports.h"
#include "resolver/tf_config.h"

void test_ports(int *ports, int count) {
    ck_assert_int_le(count, MAX_TEST_WORKERS);
    take_ports(ports, count);
}

void test_config(char *text, size_t size, const char *list, int index) {
    (void)snprintf(text, size, "{\"cluster\": {\"worker\": [%s]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
                   list, index);
}

void test_workers(struct test_worker *workers, int count, const int *ports) {
    char list[1024] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s\"127.0.0.1:%d\"", i ? ", " : "", ports[i]);
    for (int i = 0; i < count; i++) {
        workers[i] = (struct test_worker){.rank = i, .size = count, .log_mutex = PTHREAD_MUTEX_INITIALIZER};
        test_config(workers[i].tf_config, sizeof(workers[i].tf_config), list, i);
    }
}

static void keep_line(void *context, ls_log_level level, const char *line) {
    struct test_worker *worker = context;
    (void)level;
    (void)pthread_mutex_lock(&worker->log_mutex);
    size_t used = strlen(worker->log);
    (void)snprintf(worker->log + used, sizeof(worker->log) - used, "%s\n", line);
    (void)pthread_mutex_unlock(&worker->log_mutex);
}

bool test_wait_log(struct test_worker *worker, const char *words, double limit) {
    int64_t start = ls_now();
    bool found = false;
    while (!found && ls_seconds_since(start) < limit) {
        (void)poll(NULL, 0, 20);
        (void)pthread_mutex_lock(&worker->log_mutex);
        found = strstr(worker->log, words) != NULL;
        (void)pthread_mutex_unlock(&worker->log_mutex);
    }
    return found;
}

static void settle(struct test_worker *worker) {
    assert_ok(ls_settings_read(&worker->settings));
    if (worker->transport) worker->settings.transport = worker->transport;
    if (worker->token) (void)snprintf(worker->settings.token, sizeof(worker->settings.token), "%s", worker->token);
    if (worker->token_file)
        (void)snprintf(worker->settings.token_file, sizeof(worker->settings.token_file), "%s", worker->token_file);
    if (*worker->tls_ca) {
        memcpy(worker->settings.tls_certificate, worker->tls_certificate, LS_SETTING_TEXT);
        memcpy(worker->settings.tls_key, worker->tls_key, LS_SETTING_TEXT);
        memcpy(worker->settings.tls_ca, worker->tls_ca, LS_SETTING_TEXT);
    }
    worker->settings.report_interval = 0.3;
    worker->settings.exit_timeout = worker->exit_timeout > 0 ? worker->exit_timeout : 10;
    worker->settings.join_timeout = worker->join_timeout > 0 ? worker->join_timeout : 20;
    if (worker->rejoin_timeout > 0) worker->settings.rejoin_timeout = worker->rejoin_timeout;
    if (worker->heartbeat_limit <= 0) return;
    worker->settings.heartbeat_limit = worker->heartbeat_limit;
    worker->settings.heartbeat_interval = worker->heartbeat_limit / 10;
}

/* Forms and accepts the first generation, without a state. */
static ls_status join(const struct ls_cluster_config *config, struct ls_cluster **made) {
    static const struct ls_standing nothing;
    struct ls_generation generation;
    struct ls_cluster *cluster;
    ls_status status = ls_cluster_new(config, &cluster);
    if (status) return status;
    do {
        status = ls_join_form(cluster, &nothing, &generation);
        if (!status) status = ls_join_accept(cluster);
    } while (status && ls_join_may_recover(cluster, status, false));
    return LS_HAND_OVER(status, made, cluster, ls_join_give_up(cluster, status));
}

static void live(struct test_worker *worker, const struct ls_cluster_view *tf_config) {
    struct ls_log log = {.sink = keep_line, .context = worker, .level = LS_LOG_INFO};
    struct ls_cluster_config config = {.tf_config = tf_config,
                                       .settings = &worker->settings,
                                       .log = &log,
                                       .abort = worker->abort,
                                       .version = worker->version,
                                       .elastic = worker->elastic};
    int64_t start = ls_now();
    worker->joined = join(&config, &worker->cluster);
    worker->join_seconds = ls_seconds_since(start);
    if (worker->joined) {
        (void)snprintf(worker->join_error, sizeof(worker->join_error), "%s", ls_error());
        return;
    }
    if (worker->body) worker->body(worker);
    worker->left = ls_cluster_leave(worker->cluster, worker->leave_with);
    if (worker->left) (void)snprintf(worker->leave_error, sizeof(worker->leave_error), "%s", ls_error());
}

void test_worker_run(struct test_worker *worker) {
    struct ls_cluster_view *tf_config;
    settle(worker);
    if (worker->delay > 0) (void)poll(NULL, 0, (int)(worker->delay * 1000));
    assert_ok(ls_abort_new(&worker->abort));
    assert_ok(ls_tf_config_parse(worker->long_config ? worker->long_config : worker->tf_config, &tf_config));
    live(worker, tf_config);
    ls_cluster_view_free(tf_config);
    ls_abort_free(worker->abort);
}

static void *run(void *argument) {
    test_worker_run(argument);
    return NULL;
}

void test_worker_start(struct test_worker *worker) {
    assert_ok(ls_thread_start(&worker->thread, "worker", run, worker));
}

void test_worker_wait(struct test_worker *worker) {
    (void)pthread_join(worker->thread, NULL);
}

void test_workers_run(struct test_worker *workers, int count) {
    for (int i = 0; i < count; i++) test_worker_start(&workers[i]);
    for (int i = 0; i < count; i++) test_worker_wait(&workers[i]);
}

double test_wait_abort(struct ls_abort *abort, double limit) {
    int64_t start = ls_now();
    struct pollfd slot = {.fd = ls_abort_fd(abort), .events = POLLIN};
    return poll(&slot, 1, (int)(limit * 1000)) > 0 ? ls_seconds_since(start) : -1;
}

int test_count_entries(const char *folder) {
    DIR *entries = opendir(folder);
    int count = 0;
    ck_assert_ptr_nonnull(entries);
    while (readdir(entries)) count++;
    (void)closedir(entries);
    return count;
}

/* gRPC's own threads end, and close what they have, shortly after its last use. */
int test_settled(const char *folder, int wanted) {
    int count = 0;
    for (int64_t deadline = ls_now() + 5 * LS_SECOND; ls_now() < deadline; (void)usleep(20000))
        if ((count = test_count_entries(folder)) <= wanted) break;
    return count;
}

/* ---- links ---- */

void test_send_rank(struct ls_link *link, int rank) {
    uint8_t byte = (uint8_t)rank;
    struct iovec piece = {&byte, 1};
    ck_assert_int_eq(link->ops->send(link, &piece, 1), 1);
}

int test_receive_rank(struct ls_link *link) {
    uint8_t byte = 255;
    int64_t deadline = ls_now() + 5 * LS_SECOND;
    while (ls_now() < deadline) {
        ssize_t size = link->ops->receive(link, &byte, 1);
        if (size == 1) return byte;
        ck_assert_int_eq(size, 0);
        (void)usleep(1000);
    }
    return -1;
}

struct ls_link *test_take_link(struct ls_link_source *source, int rank) {
    struct ls_link *link = NULL;
    int64_t deadline = ls_now() + 5 * LS_SECOND;
    for (;;) {
        struct pollfd slot;
        assert_ok(source->ops->take(source, rank, &link));
        if (link) return link;
        ck_assert_int_lt(ls_now(), deadline);
        int64_t until = source->ops->poll(source, rank, &slot);
        (void)poll(&slot, 1, ls_poll_timeout(until < deadline ? until : deadline, 1000));
    }
}
