/* A caller asks, is answered and is closed, all within LS_REQUEST_TIMEOUT. The port has no token: anybody may call, and
 * say nothing. So there are MOST callers at most, and the oldest that has not asked gives way to a new one. The thread
 * reads at once all that has come, for poll() tells of unread bytes for ever. It looks again at a part of a request
 * after LS_LOOK_AGAIN. */
#include "runtime/http_server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/accept.h"
#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"

enum { MOST = 128, MOST_REQUEST = 4096 };

struct caller {
    int fd;
    int64_t deadline, look_at; /* look_at: not polled until then */
    char *head;                /* what has come of its request, a string; NULL: nothing */
    size_t filled;
    char *answer; /* NULL: it has not asked */
    size_t size, sent;
};

struct ls_http_callers {
    ls_http_answer_fn *answer;
    void *context; /* borrowed */
    struct ls_accept accept;
    struct caller callers[MOST]; /* the oldest first */
    int count, most;
};

static void close_caller(struct caller *caller) {
    (void)close(caller->fd);
    ls_free(caller->head);
    free(caller->answer); /* of open_memstream */
}

/* ---- one caller; true: it is to be closed ---- */

static bool answer_caller(struct ls_http_callers *callers, struct caller *caller) {
    FILE *out = open_memstream(&caller->answer, &caller->size);
    if (!out) return true;
    callers->answer(callers->context, caller->head, out);
    return fclose(out) != 0;
}

/* The end of a request's head may lie across what came before and what has come now. */
static bool has_asked(const struct caller *caller, size_t before) {
    const char *from = caller->head + (before > 3 ? before - 3 : 0);
    return strstr(from, "\r\n\r\n") || strstr(from, "\n\n");
}

static bool hear_caller(struct ls_http_callers *callers, struct caller *caller) {
    if (!caller->head && !(caller->head = ls_alloc(MOST_REQUEST))) return true;
    size_t before = caller->filled;
    ssize_t got = recv(caller->fd, caller->head + before, MOST_REQUEST - 1 - before, MSG_DONTWAIT);
    if (got <= 0) return !got || (errno != EAGAIN && errno != EINTR);
    caller->filled += (size_t)got;
    caller->head[caller->filled] = 0;
    caller->look_at = ls_now() + ls_accept_look_again(callers->count);
    if (has_asked(caller, before)) return answer_caller(callers, caller);
    return caller->filled == MOST_REQUEST - 1;
}

static bool tell_caller(struct caller *caller) {
    ssize_t sent =
        send(caller->fd, caller->answer + caller->sent, caller->size - caller->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno != EAGAIN && errno != EINTR;
    caller->sent += (size_t)sent;
    return caller->sent == caller->size;
}

static bool serve_caller(struct ls_http_callers *callers, struct caller *caller, short events) {
    if (events && !caller->answer && hear_caller(callers, caller)) return true;
    if (caller->answer && tell_caller(caller)) return true;
    return ls_now() >= caller->deadline;
}

/* ---- all of them ---- */

static void dismiss_oldest(struct ls_http_callers *callers) {
    int leaves = 0;
    if (callers->count < callers->most) return;
    while (leaves < callers->count && callers->callers[leaves].answer) leaves++;
    if (leaves == callers->count) leaves = 0;
    struct caller *caller = &callers->callers[leaves];
    close_caller(caller);
    callers->count--;
    memmove(caller, caller + 1, (size_t)(callers->count - leaves) * sizeof(*caller));
}

static void accept_callers(struct ls_http_callers *callers, int listening) {
    for (int fd; (fd = ls_accept_next(&callers->accept, listening, NULL)) >= 0;) {
        dismiss_oldest(callers);
        struct caller *caller = &callers->callers[callers->count++];
        *caller = (struct caller){.fd = fd, .deadline = ls_now() + LS_REQUEST_TIMEOUT};
    }
}

/* Those that come after the poll are heard at the next turn. */
static void serve_all(struct ls_http_callers *callers, const struct pollfd *slots) {
    int kept = 0;
    for (int i = 0; i < callers->count; i++) {
        struct caller *caller = &callers->callers[i];
        if (serve_caller(callers, caller, slots[i].revents))
            close_caller(caller);
        else
            callers->callers[kept++] = *caller;
    }
    callers->count = kept;
}

/* Fills the slots of the callers. Returns the time to poll until. */
static int64_t fill_polled(const struct ls_http_callers *callers, struct pollfd *slots, int64_t now, int64_t until) {
    for (int i = 0; i < callers->count; i++) {
        const struct caller *caller = &callers->callers[i];
        bool later = !caller->answer && now < caller->look_at;
        int64_t at = later ? caller->look_at : caller->deadline;
        slots[i] = (struct pollfd){.fd = later ? -1 : caller->fd, .events = caller->answer ? POLLOUT : POLLIN};
        if (at < until) until = at;
    }
    return until;
}

bool ls_http_callers_turn(struct ls_http_callers *callers, int listening, int wake, int64_t deadline) {
    struct pollfd slots[2 + MOST];
    int64_t now = ls_now(), until = fill_polled(callers, slots + 2, now, deadline);
    bool accepting = ls_accept_is_open(&callers->accept, now, &until);
    slots[0] = (struct pollfd){.fd = wake, .events = POLLIN};
    slots[1] = (struct pollfd){.fd = accepting ? listening : -1, .events = POLLIN};
    (void)poll(slots, (nfds_t)(2 + callers->count), ls_poll_timeout(until, 60000));
    if (slots[0].revents) return false;
    serve_all(callers, slots + 2);
    if (slots[1].revents) accept_callers(callers, listening);
    ls_accept_rest(callers->count);
    return true;
}

/* ---- the whole ---- */

struct ls_http_callers *ls_http_callers_new(ls_http_answer_fn *answer, void *context) {
    struct ls_http_callers *callers = ls_alloc(sizeof(*callers));
    if (!callers) return NULL;
    callers->answer = answer;
    callers->context = context;
    callers->most = ls_accept_most(MOST, 1);
    return callers;
}

void ls_http_callers_free(struct ls_http_callers *callers) {
    for (int i = 0; callers && i < callers->count; i++) close_caller(&callers->callers[i]);
    ls_free(callers);
}
