/* One thread serves all callers (http_callers.c). It reads numbers that the others write anyway, so training does not
 * notice. It is small enough to be here: libmicrohttpd would bring GnuTLS into each process. */
#define _GNU_SOURCE
#include "runtime/http_server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/monitor.h"
#include "base/new.h"
#include "base/plain.h"
#include "base/whole_file.h"
#include "observe/metrics.h"
#include "resolver/launcher.h"

#define FILE_INTERVAL (15 * LS_SECOND) /* between two writings of the file: Prometheus asks as often */
enum { TEXT = 512 };

struct ls_http_server {
    const struct ls_runtime *runtime; /* borrowed */
    char *file;                       /* a path; NULL: none */
    int fd, wake;                     /* where it listens, -1: nowhere; what ends the thread */
    struct ls_http_callers *callers;
    bool started, complained;
    char task[24]; /* "worker:1" */
    pthread_t thread;
    struct ls_monitor monitor; /* of the next two */
    bool ready;
    char text[TEXT];
};

/* ---- answers ---- */

static void print_state(FILE *out, struct ls_http_server *server, bool *ready) {
    LS_HOLD(&server->monitor);
    *ready = server->ready;
    (void)fprintf(out, "%s%s\n", server->ready ? "" : "not ready: ", server->text);
}

static void print_metrics(FILE *out, struct ls_http_server *server, bool open) {
    ls_monitor_lock(&server->monitor);
    bool ready = server->ready;
    ls_monitor_unlock(&server->monitor);
    ls_metrics_print(out, &(struct ls_metrics_facts){.activity = &server->runtime->activity,
                                                     .task = server->task,
                                                     .ready = ready,
                                                     .open = open,
                                                     .now = ls_now()});
}

/* True if the lines of a request's head say by Accept that the caller reads OpenMetrics; curl and promtool do not. */
static bool wants_open_metrics(const char *lines) {
    const size_t name = strlen("accept:"), type = strlen(LS_METRICS_OPEN);
    for (const char *line = strchr(lines, '\n'); line; line = strchr(line, '\n')) {
        size_t length = strcspn(++line, "\r\n");
        if (length < name || !ls_plain_same_piece(line, name, "accept:")) continue;
        for (size_t i = name; i + type <= length; i++)
            if (ls_plain_same_piece(line + i, type, LS_METRICS_OPEN)) return true;
    }
    return false;
}

/* Writes the body of the answer to a path; the status. open: the metrics as OpenMetrics. */
static const char *print_body(FILE *out, struct ls_http_server *server, const char *path, bool open,
                              const char **type) {
    bool ready = true;
    *type = "text/plain; charset=utf-8";
    if (strcmp(path, "/metrics") == 0) {
        *type = ls_metrics_type(open);
        print_metrics(out, server, open);
    } else if (strcmp(path, "/livez") == 0 || strcmp(path, "/readyz") == 0) {
        print_state(out, server, &ready);
        if (strcmp(path, "/livez") == 0) ready = true; /* who waits for others is alive */
    } else {
        (void)fputs("there are /metrics, /livez and /readyz\n", out);
        return "404 Not Found";
    }
    return ready ? "200 OK" : "503 Service Unavailable";
}

/* ---- one request ---- */

/* Writes the answer to a request's head. */
static void answer_request(void *context, char *request, FILE *answer) {
    struct ls_http_server *server = context;
    const char *type = "text/plain; charset=utf-8", *status = "405 Method Not Allowed";
    char *text = NULL, *rest = NULL;
    size_t size = 0;
    const char *method = strtok_r(request, " ", &rest), *path = strtok_r(NULL, " ?\r\n", &rest);
    bool head_only = method && strcmp(method, "HEAD") == 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return;
    if (path && (head_only || strcmp(method, "GET") == 0))
        status = print_body(out, server, path, wants_open_metrics(rest), &type);
    else
        (void)fputs("only GET and HEAD are answered\n", out);
    if (!fclose(out)) {
        (void)fprintf(answer,
                      "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                      "Connection: close\r\n\r\n",
                      status, type, size);
        if (!head_only) (void)fwrite(text, 1, size, answer);
    }
    free(text);
}

/* ---- the file ---- */

/* A disk that fails is told of once; the training goes on. */
static void write_file(struct ls_http_server *server) {
    struct ls_whole_file file = {0};
    ls_status status = ls_whole_file_open(server->file, &file);
    if (!status) {
        print_metrics(file.out, server, false); /* node_exporter reads no other */
        status = ls_whole_file_close(&file, ferror(file.out) ? ls_whole_file_fail(&file) : LS_OK);
    }
    if (status && !server->complained) ls_log_warning(&server->runtime->log, "LOCKSTEP_METRICS_FILE: %s", ls_error());
    server->complained = status != LS_OK;
}

static void *run_http(void *argument) {
    struct ls_http_server *server = argument;
    int64_t next = server->file ? ls_now() : LS_NEVER;
    do {
        if (ls_now() < next) continue;
        write_file(server);
        next = ls_now() + FILE_INTERVAL;
    } while (ls_http_callers_turn(server->callers, server->fd, server->wake, next));
    if (server->file) write_file(server);
    return NULL;
}

/* ---- making ---- */

/* NULL alone. */
static const struct ls_task *own_task(const struct ls_cluster_view *spec) {
    return spec && spec->cluster_mode ? ls_cluster_view_task(spec, spec->type, spec->index) : NULL;
}

/* Counts the tasks of TF_CONFIG before this one: chief and workers, parameter servers, evaluator. on_host: those of
 * this one's host alone. */
static int earlier_tasks(const struct ls_cluster_view *spec, bool on_host) {
    const struct ls_task *own = own_task(spec);
    int count = 0;
    for (const struct ls_task *task = spec->tasks; task < own; task++)
        count += !on_host || strcmp(task->host, own->host) == 0;
    return count;
}

/* TF_CONFIG does not say which of tasks that move are on this host: their launcher does. */
static int place_on_host(const struct ls_runtime *runtime) {
    const char *local = *runtime->settings.addresses ? ls_launcher_variable("LOCAL_RANK") : NULL;
    long number = local ? strtol(local, NULL, 10) : -1;
    return number >= 0 && number <= UINT16_MAX ? (int)number : earlier_tasks(runtime->config, true);
}

static ls_status fail_address(const struct ls_runtime *runtime, const char *why) {
    return ls_fail(LS_INVALID_ARGUMENT, "LOCKSTEP_HTTP '%s': %s; write HOST:PORT, as in 0.0.0.0:9400",
                   runtime->settings.http, why);
}

/* "host" and a port; "[::1]:9400" has brackets, ":9400" no host. */
static ls_status split_address(const struct ls_runtime *runtime, char *host, size_t size, int *port) {
    const char *from = runtime->settings.http, *colon = strrchr(from, ':');
    char *end;
    if (!colon) return fail_address(runtime, "there is no port");
    long number = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || number < 0 || number > 65535) return fail_address(runtime, "the port is no number");
    size_t length = (size_t)(colon - from);
    if (length >= 2 && *from == '[' && from[length - 1] == ']') from++, length -= 2;
    if (length >= size) return fail_address(runtime, "the host is too long");
    memcpy(host, from, length);
    host[length] = 0;
    *port = (int)number;
    if (*port && own_task(runtime->config)) *port += place_on_host(runtime);
    return *port > 65535 ? fail_address(runtime, "the host has more tasks than ports are left") : LS_OK;
}

static int open_address(const struct addrinfo *address) {
    int one = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (!bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, SOMAXCONN)) {
        ls_forked_closes(fd);
        return fd;
    }
    int cause = errno;
    (void)close(fd);
    errno = cause;
    return -1;
}

/* A number or a name of this machine: the address is not looked up elsewhere. */
static ls_status listen_http(struct ls_http_server *server) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST};
    char host[256], port_text[16];
    int port = 0;
    struct addrinfo *found = NULL;
    ls_status status = split_address(server->runtime, host, sizeof(host), &port);
    if (status) return status;
    const char *number = strcmp(host, "localhost") ? host : "127.0.0.1";
    (void)snprintf(port_text, sizeof(port_text), "%d", port);
    if (getaddrinfo(*number ? number : NULL, port_text, &hints, &found))
        return fail_address(server->runtime, "the host is no address of numbers, nor localhost");
    server->fd = open_address(found);
    int cause = errno;
    freeaddrinfo(found);
    if (server->fd < 0 && !own_task(server->runtime->config)) { /* another strategy of this process has it, it may be */
        ls_log_warning(&server->runtime->log, "LOCKSTEP_HTTP '%s': port %d cannot be had, and is not served: %s",
                       server->runtime->settings.http, port, strerror(cause));
        return LS_OK;
    }
    if (server->fd < 0)
        return ls_fail(LS_FAILED_PRECONDITION, "LOCKSTEP_HTTP '%s': port %d cannot be had: %s",
                       server->runtime->settings.http, port, strerror(cause));
    struct sockaddr_storage own;
    socklen_t size = sizeof(own);
    if (getsockname(server->fd, (struct sockaddr *)&own, &size) ||
        getnameinfo((struct sockaddr *)&own, size, host, sizeof(host), port_text, sizeof(port_text),
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return LS_OK;
    ls_log_debug(&server->runtime->log, "LOCKSTEP_HTTP: /metrics, /livez and /readyz at port %s of %s", port_text,
                 host);
    return LS_OK;
}

/* %r becomes the rank; without it several workers write NAME.rank0.EXT, NAME.rank1.EXT, ..., as LOCKSTEP_TRACE. */
static ls_status find_file(struct ls_http_server *server) {
    const char *path = server->runtime->settings.metrics_file, *mark = strstr(path, "%r");
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.'), *end = path + strlen(path);
    bool several = own_task(server->runtime->config) && server->runtime->config->task_count > 1;
    int rank = several ? earlier_tasks(server->runtime->config, false) : 0, made;
    if (!*path) return LS_OK;
    if (!mark && dot && (!slash || dot > slash)) end = dot;
    if (mark)
        made = asprintf(&server->file, "%.*s%d%s", (int)(mark - path), path, rank, mark + 2);
    else if (several)
        made = asprintf(&server->file, "%.*s.rank%d%s", (int)(end - path), path, rank, end);
    else
        made = asprintf(&server->file, "%s", path);
    if (made < 0) server->file = NULL;
    return made < 0 ? ls_fail_memory("a path", strlen(path)) : LS_OK;
}

static ls_status start_http(struct ls_http_server *server) {
    ls_status status = find_file(server);
    if (!status && *server->runtime->settings.http) status = listen_http(server);
    if (status || (server->fd < 0 && !server->file)) return status;
    server->wake = eventfd(0, EFD_CLOEXEC);
    server->callers = ls_http_callers_new(answer_request, server);
    if (!server->callers) return ls_fail_memory("callers of LOCKSTEP_HTTP", 0);
    if (server->wake < 0) return ls_fail(LS_RESOURCE_EXHAUSTED, "LOCKSTEP_HTTP: %s", strerror(errno));
    status = ls_thread_start(&server->thread, "ls-http", run_http, server);
    server->started = !status;
    return status;
}

static void name_task(struct ls_http_server *server) {
    const struct ls_task *task = own_task(server->runtime->config);
    if (task) (void)snprintf(server->task, sizeof(server->task), "%s", task->name);
}

ls_status ls_http_server_new(const struct ls_runtime *runtime, struct ls_http_server **server) {
    if (!*runtime->settings.http && !*runtime->settings.metrics_file) return LS_OK;
    LS_NEW(struct ls_http_server, made, "a server of metrics");
    *made = (struct ls_http_server){.runtime = runtime, .fd = -1, .wake = -1, .text = "joins the others"};
    name_task(made);
    ls_status status = ls_monitor_init(&made->monitor);
    if (!status) status = start_http(made);
    return LS_HAND_OVER(status, server, made, ls_http_server_free(made));
}

void ls_http_server_say(struct ls_http_server *server, bool ready, const char *text) {
    if (!server) return;
    LS_HOLD(&server->monitor);
    server->ready = ready;
    (void)snprintf(server->text, sizeof(server->text), "%s", text);
}

void ls_http_server_tell_wait(void *context, const char *missing) {
    const struct ls_runtime *runtime = context;
    char text[TEXT];
    (void)snprintf(text, sizeof(text), "waits for %.*s", TEXT - 16, missing);
    ls_http_server_say(runtime->http, false, text);
}

void ls_http_server_free(struct ls_http_server *server) {
    const uint64_t one = 1;
    if (!server) return;
    if (server->started && write(server->wake, &one, sizeof(one)) == sizeof(one))
        (void)pthread_join(server->thread, NULL);
    if (server->wake >= 0) (void)close(server->wake);
    if (server->fd >= 0) (void)close(server->fd);
    ls_http_callers_free(server->callers);
    ls_monitor_destroy(&server->monitor);
    free(server->file);
    ls_free(server);
}
