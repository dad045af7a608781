/* Kubeflow's callback before a status server that fails, is silent, and answers: steps go on, nothing ends the reports,
 * and the last one arrives. The server is a thread of the test. */
#include <arpa/inet.h>
#include <dirent.h>
#include <lockstep/callbacks.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/monitor.h"
#include "harness.h"
#include "train/model.h"

enum manner { CLOSES, HOLDS, ANSWERS };

static struct {
    int listener;
    pthread_t thread;
    struct ls_monitor monitor; /* guards what follows */
    enum manner manner;
    bool ending;
    int requests, holding;
    char last[8192]; /* request */
} server;

static atomic_int warnings, returns;

static void hear(void *context, ls_log_level level, const char *line) {
    (void)context;
    warnings += level == LS_LOG_WARNING && strstr(line, "the next status is told all the same");
    returns += level == LS_LOG_INFO && strstr(line, "takes the status again");
}

/* ---- the server ---- */

static bool is_whole(const char *text) {
    const char *length = strstr(text, "Content-Length: "), *body = strstr(text, "\r\n\r\n");
    return length && body && strlen(body + 4) >= (size_t)strtol(length + 16, NULL, 10);
}

static void take_request(int fd) {
    static const char answer[] = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    char text[8192] = "";
    ssize_t got;
    for (size_t used = 0; !is_whole(text); used += (size_t)got)
        if ((got = recv(fd, text + used, sizeof(text) - 1 - used, 0)) <= 0) return;
    ls_monitor_lock(&server.monitor);
    server.requests++;
    server.holding++;
    ls_monitor_broadcast(&server.monitor);
    while (server.manner == HOLDS) (void)ls_monitor_wait(&server.monitor, LS_NEVER);
    server.holding--;
    bool answers = server.manner == ANSWERS;
    if (answers) memcpy(server.last, text, sizeof(text));
    ls_monitor_broadcast(&server.monitor);
    ls_monitor_unlock(&server.monitor);
    if (answers) (void)!send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
}

static void *serve(void *context) {
    (void)context;
    for (int fd; (fd = accept(server.listener, NULL, NULL)) >= 0;) {
        ls_monitor_lock(&server.monitor);
        bool closes = server.manner == CLOSES;
        ls_monitor_unlock(&server.monitor);
        if (!closes) take_request(fd);
        (void)close(fd);
    }
    return NULL;
}

static void set_manner(enum manner manner) {
    ls_monitor_lock(&server.monitor);
    server.manner = manner;
    ls_monitor_broadcast(&server.monitor);
    ls_monitor_unlock(&server.monitor);
}

static void wait_until_it_holds_one(void) {
    ls_monitor_lock(&server.monitor);
    while (!server.holding) (void)ls_monitor_wait(&server.monitor, LS_NEVER);
    ls_monitor_unlock(&server.monitor);
}

/* ---- the training ---- */

static struct ls_runtime runtime = {.log = {.sink = hear, .level = LS_LOG_INFO}};
static struct ls_strategy strategy = {.runtime = &runtime};
static ls_model model = {.strategy = &strategy};
static ls_callback *callback;

/* True while a thread of this process reports. */
static bool is_reporting(void) {
    bool found = false;
    DIR *folder = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[300], name[32] = "";
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof(name), file)) found = found || !strcmp(name, "ls-reporter\n");
        if (file) (void)fclose(file);
    }
    (void)closedir(folder);
    return found;
}

static void begin(enum manner manner) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    char url[64];
    server.manner = manner;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(server.listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(server.listener, 16), 0);
    ck_assert_int_eq(getsockname(server.listener, (struct sockaddr *)&address, &size), 0);
    assert_ok(ls_monitor_init(&server.monitor));
    ck_assert_int_eq(pthread_create(&server.thread, NULL, serve, NULL), 0);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/status?job=a%%20b&of=c#here", ntohs(address.sin_port));
    assert_ok(ls_kubeflow_new(LS_KUBEFLOW(.url = url, .interval = 1e-6), &callback));
}

/* A thread that was left behind with a silent server ends now that it is answered, before the process does. */
static void end(void) {
    ls_callback_free(callback);
    (void)shutdown(server.listener, SHUT_RDWR);
    ck_assert_int_eq(pthread_join(server.thread, NULL), 0);
    (void)close(server.listener);
    while (is_reporting()) (void)usleep(1000);
}

static void check_last_status(void) {
    ck_assert_msg(strstr(server.last, "\"progressPercentage\": 100") != NULL, "%s", server.last);
    ck_assert_msg(strncmp(server.last, "POST /status?job=a%20b&of=c HTTP/", 33) == 0, "%s", server.last);
}

static void tell(ls_callback_fn *function, int64_t step) {
    const ls_callback_call call = {.model = &model, .epochs = 1, .step = step, .steps = 1000, .writes = true};
    assert_ok(function(callback->context, &call));
}

/* Steps until the count grows; each tells a status. */
static int64_t step_until(const atomic_int *count, int64_t step) {
    for (; !*count; step++) {
        tell(callback->on_train_batch_end, step);
        (void)usleep(1000);
    }
    return step;
}

TEST(a_server_that_comes_later_is_told) {
    begin(CLOSES);
    tell(callback->on_train_begin, 0);
    int64_t step = step_until(&warnings, 1);
    set_manner(ANSWERS);
    step = step_until(&returns, step);
    tell(callback->on_train_end, step);
    end();
    check_last_status();
    ck_assert_int_eq(warnings, 1);
    ck_assert_int_eq(returns, 1);
}

static void begin_held(void) {
    begin(HOLDS);
    tell(callback->on_train_begin, 0);
    tell(callback->on_train_batch_end, 1);
    wait_until_it_holds_one();
}

static void end_answered(void) {
    set_manner(ANSWERS);
    tell(callback->on_train_end, 1000);
    end();
    check_last_status();
}

/* Nobody answers the first status until all steps are done. */
TEST(steps_go_on_while_a_server_is_silent) {
    begin_held();
    for (int64_t step = 2; step <= 1000; step++) tell(callback->on_train_batch_end, step);
    end_answered();
    ck_assert_int_le(server.requests, 3); /* the first one, the last one, and the newest between them */
    ck_assert_int_eq(warnings, 0);
}

/* A fit that fails tells no end. */
TEST(a_failed_fit_leaves_nothing_behind) {
    begin_held();
    tell(callback->on_train_begin, 0);
    tell(callback->on_train_batch_end, 2);
    end_answered();
}

/* It has nothing to tell. */
TEST(another_worker_tells_nothing) {
    begin(ANSWERS);
    const ls_callback_call call = {.model = &model, .epochs = 1, .step = 1, .steps = 2};
    assert_ok(callback->on_train_begin(callback->context, &call));
    assert_ok(callback->on_train_batch_end(callback->context, &call));
    assert_ok(callback->on_train_end(callback->context, &call));
    end();
    ck_assert_int_eq(server.requests, 0);
}

TESTS("kubeflow", .seconds = 60)
