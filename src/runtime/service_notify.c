/* The word to the service manager. The thread that says that the process runs shows that it is not frozen; each wait of
 * the process has its own deadline. */
#include "runtime/serving.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/monitor.h"
#include "base/new.h"
#include "base/thread.h"

struct ls_service_notify {
    int fd;
    struct sockaddr_un address;
    socklen_t size;
    struct ls_monitor monitor;
    bool watched, stopping;
    int64_t interval; /* between two signs; 0: none are wanted */
    pthread_t thread;
};

static void send_line(const struct ls_service_notify *notify, const char *text) {
    (void)sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address, notify->size);
}

static void *watch_service(void *argument) {
    struct ls_service_notify *notify = argument;
    LS_HOLD(&notify->monitor);
    while (!notify->stopping) {
        send_line(notify, "WATCHDOG=1");
        int64_t until = ls_now() + notify->interval;
        while (!notify->stopping && ls_monitor_wait(&notify->monitor, until)) continue;
    }
    return NULL;
}

/* A path, or after '@' a name that stands in no folder. */
static bool find_address(struct ls_service_notify *notify, const char *path) {
    size_t length = strlen(path);
    if ((*path != '/' && *path != '@') || length < 2 || length >= sizeof(notify->address.sun_path)) return false;
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, path, length);
    if (*path == '@') notify->address.sun_path[0] = 0;
    notify->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    return true;
}

/* The manager may mean another process. */
static int64_t find_interval(void) {
    const char *limit = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long long microseconds = limit ? atoll(limit) : 0;
    if (pid && atoll(pid) != getpid()) return 0;
    return microseconds > 0 ? (int64_t)microseconds * LS_MICROSECOND / 2 : 0;
}

static ls_status start_watch(struct ls_service_notify *notify) {
    notify->interval = find_interval();
    if (!notify->interval) return LS_OK;
    ls_status status = ls_thread_start(&notify->thread, "ls-notify", watch_service, notify);
    notify->watched = !status;
    return status;
}

ls_status ls_service_notify_new(struct ls_service_notify **notify) {
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || !*path) return LS_OK;
    const struct timeval patience = {.tv_usec = 100000}; /* a manager that does not read is not waited for */
    LS_NEW(struct ls_service_notify, made, "the word to the service manager");
    made->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (made->fd >= 0) (void)setsockopt(made->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (made->fd < 0 || !find_address(made, path) || ls_monitor_init(&made->monitor)) {
        if (made->fd >= 0) (void)close(made->fd);
        ls_free(made);
        return LS_OK;
    }
    ls_status status = start_watch(made);
    return LS_HAND_OVER(status, notify, made, ls_service_notify_free(made));
}

static void say_status(struct ls_service_notify *notify, const char *before, const char *text) {
    char line[LS_ERROR_SIZE + 64];
    if (!notify) return;
    (void)snprintf(line, sizeof(line), "%sSTATUS=%s", before, text);
    for (char *at = line + strlen(before); *at; at++)
        if (*at == '\n') *at = ' ';
    send_line(notify, line);
}

void ls_service_notify_ready(struct ls_service_notify *notify, const char *text) {
    say_status(notify, "READY=1\n", text);
}

void ls_service_notify_status(struct ls_service_notify *notify, const char *text) {
    say_status(notify, "", text);
}

void ls_service_notify_free(struct ls_service_notify *notify) {
    if (!notify) return;
    send_line(notify, "STOPPING=1");
    ls_monitor_flag(&notify->monitor, &notify->stopping);
    if (notify->watched) (void)pthread_join(notify->thread, NULL);
    ls_monitor_destroy(&notify->monitor);
    (void)close(notify->fd);
    ls_free(notify);
}
