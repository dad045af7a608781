/* One monitor for all: the program is never asked by two threads at once. */
#include "runtime/user_request.h"

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/new.h"
#include "base/monitor.h"
#include "base/thread.h"
#include "cluster/leave.h"
#include "runtime/runtime.h"
#include "runtime/serving.h"

#define LOOK      (50 * LS_MILLISECOND)  /* between two questions */
#define LOOK_LATE (500 * LS_MILLISECOND) /* likewise, in a wait of many seconds */

struct asked {
    ls_request_fn *request; /* NULL if nobody is asked */
    void *context;
};

struct ls_user_request {
    struct ls_runtime *runtime;
    struct ls_serving *server; /* the runtime's when the thread begins, which ends before it; NULL without one */
    struct ls_monitor monitor; /* guards what follows */
    struct asked asked, outer; /* outer: the strategy's, while a fit has its own */
    ls_request heard;          /* and not taken yet */
    int64_t stop_since;        /* time at which LS_STOP was first heard, or 0 */
    bool fitting, agreed, ending, started;
    pthread_t thread;
};

static void ask_user(struct ls_user_request *user_request) {
    if (!user_request->asked.request) return;
    ls_request request = user_request->asked.request(user_request->asked.context);
    if (request > user_request->heard) user_request->heard = request;
    if (user_request->heard == LS_STOP && !user_request->stop_since) user_request->stop_since = ls_now();
}

/* The time since which this process waits for others, or for its data. It is 0 without a wait and at a wait's begin. */
static int64_t waiting_since(const struct ls_activity *activity) {
    const int64_t waits[] = {ls_activity_get(&activity->since), ls_activity_get(&activity->waiting),
                             ls_activity_get(&activity->reading)};
    int64_t since = 0;
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
        if (waits[i] && (!since || waits[i] < since)) since = waits[i];
    return since && ls_now() >= since + LOOK ? since : 0;
}

/* The time counts from the later of the wait's begin and the stop: a wait that began long before the stop still gets
 * LS_STOP_TIMEOUT, in which the others may reach the step that carries the request. A process without any collective so
 * far has no step that could carry it, and gets no time. */
static bool is_overdue(const struct ls_user_request *user_request, int64_t waiting) {
    int64_t from = waiting > user_request->stop_since ? waiting : user_request->stop_since;
    bool joining = !ls_activity_get(&user_request->runtime->activity.collectives);
    return user_request->stop_since && !user_request->agreed && waiting &&
           ls_now() >= from + (joining ? 0 : LS_STOP_TIMEOUT);
}

/* The others are told before this process' own calls end. */
static void give_up_waits(const struct ls_runtime *runtime) {
    if (runtime->cluster)
        ls_leave_cancel(runtime->cluster);
    else
        ls_abort_raise(runtime->abort, LS_CANCELLED, "this process was asked to stop");
}

/* A sixteenth of the wait so far: a thousand workers of one host that wait for each other leave it its processors. */
static int64_t pause_request(int64_t waiting) {
    int64_t pause = waiting ? (ls_now() - waiting) / 16 : LOOK;
    return pause < LOOK ? LOOK : pause < LOOK_LATE ? pause : LOOK_LATE;
}

/* Raises the flag again and again: an abort of another cause may have come first, and is forgotten when the next
 * generation forms. */
static void *watch_requests(void *argument) {
    struct ls_user_request *user_request = argument;
    LS_HOLD(&user_request->monitor);
    struct ls_serving *server = user_request->server;
    while (!user_request->ending) {
        int64_t waiting = server ? 0 : waiting_since(&user_request->runtime->activity);
        if (waiting || server) ask_user(user_request);
        if (server && user_request->stop_since) ls_serving_retire(server, user_request->stop_since);
        if (is_overdue(user_request, waiting)) give_up_waits(user_request->runtime);
        (void)ls_monitor_wait(&user_request->monitor, ls_now() + pause_request(waiting));
    }
    return NULL;
}

static ls_status start_watching(struct ls_user_request *user_request) {
    if (user_request->started || !user_request->asked.request) return LS_OK;
    user_request->server = user_request->runtime->server;
    ls_status status = ls_thread_start(&user_request->thread, "ls-request", watch_requests, user_request);
    user_request->started = !status;
    return status;
}

ls_status ls_user_request_new(struct ls_runtime *runtime, ls_request_fn *request, void *context,
                              struct ls_user_request **user_request) {
    LS_NEW(struct ls_user_request, made, "a user_request");
    made->runtime = runtime;
    made->asked = (struct asked){request, context};
    ls_status status = ls_monitor_init(&made->monitor);
    if (!status && (runtime->cluster || runtime->server)) ask_user(made); /* from now on others are to be told */
    if (!status) status = start_watching(made);
    return LS_HAND_OVER(status, user_request, made, ls_user_request_free(made));
}

void ls_user_request_free(struct ls_user_request *user_request) {
    if (!user_request) return;
    ls_monitor_lock(&user_request->monitor);
    user_request->ending = true;
    ls_monitor_broadcast(&user_request->monitor);
    ls_monitor_unlock(&user_request->monitor);
    if (user_request->started) (void)pthread_join(user_request->thread, NULL);
    ls_monitor_destroy(&user_request->monitor);
    ls_free(user_request);
}

ls_status ls_user_request_begin(struct ls_user_request *user_request, ls_request_fn *request, void *context) {
    LS_HOLD(&user_request->monitor);
    user_request->outer = user_request->asked;
    if (request) user_request->asked = (struct asked){request, context};
    user_request->fitting = true;
    return start_watching(user_request);
}

/* A fit's request ends with the fit. The strategy's own request asks again. */
void ls_user_request_end(struct ls_user_request *user_request) {
    LS_HOLD(&user_request->monitor);
    user_request->asked = user_request->outer;
    user_request->heard = LS_GO_ON;
    user_request->stop_since = 0;
    user_request->fitting = false;
}

ls_request ls_user_request_take(struct ls_user_request *user_request) {
    LS_HOLD(&user_request->monitor);
    ask_user(user_request);
    ls_request heard = user_request->heard;
    if (heard != LS_STOP) user_request->heard = LS_GO_ON;
    return heard;
}

void ls_user_request_agree(struct ls_user_request *user_request, bool agreed) {
    LS_HOLD(&user_request->monitor);
    user_request->agreed = agreed;
    if (!user_request->stop_since) user_request->stop_since = ls_now();
}

ls_status ls_user_request_end_loss(struct ls_user_request *user_request, ls_status status) {
    if (status != LS_UNAVAILABLE) return status;
    LS_HOLD(&user_request->monitor);
    ask_user(user_request);
    if (!user_request->stop_since) return status;
    give_up_waits(user_request->runtime);
    return LS_CANCELLED;
}

ls_status ls_user_request_check(struct ls_user_request *user_request) {
    if (user_request->runtime->server) return LS_OK; /* its thread ends, and who waits for that hears it */
    if (ls_abort_raised(user_request->runtime->abort)) return ls_abort_status(user_request->runtime->abort);
    LS_HOLD(&user_request->monitor);
    if (!user_request->fitting) ask_user(user_request);
    if (!user_request->stop_since || user_request->fitting) return LS_OK;
    give_up_waits(user_request->runtime);
    return ls_abort_status(user_request->runtime->abort);
}
