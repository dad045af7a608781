/* Waiting: for whom, since when, and when to give up. When a link breaks or a frame differs, a short grace passes
 * first, in which the cause may still be heard of: the abort flag with the group's own message, or the frame of a rank
 * that made another call. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "collective/executor.h"

#define PATIENCE (100 * LS_MICROSECOND) /* longer than it takes to be woken: a sleeper should not make others sleep */
#define SLICE    LS_MILLISECOND
enum { FORGIVEN = 4, MOST_SKIPPED = 31, AFTER_SLICE = 1000 };

void ls_executor_trouble(struct ls_executor *executor, const struct ls_peer *peer, ls_status status) {
    if (executor->grace == LS_NEVER) executor->grace = ls_now() + LS_CAUSE_TIMEOUT;
    if (!status && executor->lost < 0) executor->lost = (int)(peer - executor->peers);
    if (!status || executor->trouble) return;
    executor->trouble = status;
    (void)snprintf(executor->message, sizeof(executor->message), "%s", ls_error());
}

void ls_executor_be_patient(struct ls_executor *executor) {
    executor->patient = true;
    if (executor->deadline != LS_NEVER) executor->deadline += LS_CAUSE_TIMEOUT;
}

/* ---- for whom ---- */

typedef bool peer_test(const struct ls_peer *peer);

static bool is_absent(const struct ls_peer *peer) {
    return !peer->heard && peer->role == LS_ROLE_PARTNER;
}
static bool owes_data(const struct ls_peer *peer) {
    return peer->receiving >= 0;
}
static bool takes_no_data(const struct ls_peer *peer) {
    return peer->sending >= 0 || peer->frame_sent < LS_FRAME_SIZE;
}

/* "rank 1" or "ranks 1, 4" of those that pass; false when none does. */
static bool name_ranks(const struct ls_executor *executor, peer_test *test, char *text, size_t size) {
    size_t used = 0;
    int found = 0;
    for (int i = 0; i < executor->size; i++) found += i != executor->rank && test(&executor->peers[i]);
    used += (size_t)snprintf(text, size, found == 1 ? "rank" : "ranks");
    const char *separator = " ";
    for (int i = 0; i < executor->size && used < size; i++) {
        if (i == executor->rank || !test(&executor->peers[i])) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%d", separator, i);
        separator = ", ";
    }
    return found > 0;
}

/* Those who have not come at all are the likelier cause than those who wait for them in turn. */
static void whom(const struct ls_executor *executor, char *text, size_t size) {
    char ranks[256];
    const char *what = "nothing to wait for";
    if (name_ranks(executor, is_absent, ranks, sizeof(ranks)))
        what = executor->patient ? "has not come to this call, or waits for others of its host"
                                 : "has not come to this call";
    else if (name_ranks(executor, owes_data, ranks, sizeof(ranks)))
        what = "came, but its data is not all here";
    else if (name_ranks(executor, takes_no_data, ranks, sizeof(ranks)))
        what = "takes no data";
    (void)snprintf(text, size, "%s (%s)", ranks, what);
}

/* ---- giving up ---- */

static ls_status lost_link(const struct ls_executor *executor) {
    char call[LS_FRAME_NAME + 64];
    ls_frame_describe(&executor->call->frame, call, sizeof(call));
    const struct ls_peer *peer = &executor->peers[executor->lost];
    int error = peer->read_error ? peer->read_error : peer->write_error;
    return ls_fail(LS_UNAVAILABLE, "%s: lost the connection to rank %d: %s", call, executor->lost, strerror(error));
}

static ls_status too_late(const struct ls_executor *executor) {
    char call[LS_FRAME_NAME + 64], ranks[360];
    ls_frame_describe(&executor->call->frame, call, sizeof(call));
    whom(executor, ranks, sizeof(ranks));
    return ls_fail(LS_DEADLINE_EXCEEDED, "%s: waited %g s, the limit, for %s", call, executor->timeout, ranks);
}

static void report(struct ls_executor *executor) {
    char call[LS_FRAME_NAME + 64], ranks[360];
    ls_frame_describe(&executor->call->frame, call, sizeof(call));
    whom(executor, ranks, sizeof(ranks));
    ls_log_info(executor->log, "waiting for %s in %s for %.1f s", ranks, call, ls_seconds_since(executor->started));
    executor->next_report = ls_deadline_in(executor->report_interval);
}

static bool frames_sent(const struct ls_executor *executor) {
    for (int i = 0; i < executor->size; i++) {
        const struct ls_peer *peer = &executor->peers[i];
        if (i != executor->rank && peer->frame_sent < LS_FRAME_SIZE && !peer->write_error) return false;
    }
    return true;
}

ls_status ls_executor_verdict(struct ls_executor *executor) {
    if (ls_abort_raised(executor->abort)) return ls_abort_status(executor->abort);
    int64_t now = executor->now = ls_now();
    bool over = now >= executor->grace;
    /* our own frame must have left, so that the others see the difference too */
    if (executor->trouble && (over || frames_sent(executor)))
        return ls_fail(executor->trouble, "%s", executor->message);
    if (over) return lost_link(executor);
    if (now >= executor->deadline) return too_late(executor);
    if (now >= executor->next_report) report(executor);
    return LS_OK;
}

/* ---- looking again ---- */

/* Bytes that end the wait of some peer; 0: only room to send is waited for. */
static size_t goal_of(const struct ls_executor *executor) {
    size_t goal = 0;
    for (int i = 0; i < executor->size; i++) {
        const struct ls_peer *peer = &executor->peers[i];
        if (peer->role != LS_ROLE_PARTNER || !peer->read_blocked || peer->read_error) continue;
        size_t bytes = ls_executor_awaits(executor, peer);
        if (!goal || bytes < goal) goal = bytes;
    }
    return goal;
}

static bool begin_wait(struct ls_executor *executor) {
    executor->wait_started = executor->now;
    executor->goal = goal_of(executor);
    executor->moved = 0;
    if (!executor->skip) return true;
    executor->skip--;
    return false;
}

/* How many waits do without looking after so many looks in vain, one after the other. */
static int skip_after(int in_vain) {
    int over = in_vain - FORGIVEN;
    return over <= 0 ? 0 : over < 5 ? (1 << over) - 1 : MOST_SKIPPED;
}

static void note_in_vain(struct ls_executor *executor) {
    executor->in_vain++;
    executor->skip = skip_after(executor->in_vain);
}

/* To be put to sleep and woken costs more than a small message takes, so a wait begins with looking again and again,
 * for a moment. Between two looks the processor goes to whoever wants it: with more workers than processors that is
 * the one who is waited for. Who looks in vain again and again does so less and less often: whoever waits for slow
 * links sleeps. And so does, for many waits, whoever gave the processor to somebody that computes: to those it is given
 * for a slice of milliseconds, while who sleeps is woken in front of them. */
static bool look_again(struct ls_executor *executor) {
    if (!executor->wait_started) executor->looking = begin_wait(executor);
    if (!executor->looking) return false;
    if (executor->now - executor->wait_started > PATIENCE) {
        note_in_vain(executor);
        executor->looking = false;
        return false;
    }
    for (int i = 0; i < executor->size; i++)
        if (executor->peers[i].role == LS_ROLE_PARTNER)
            executor->peers[i].read_blocked = executor->peers[i].write_blocked = false;
    (void)sched_yield();
    return true;
}

/* A few bytes of many are in vain too: the link is slower than the looking. */
void ls_executor_moved(struct ls_executor *executor) {
    if (executor->wait_started && executor->looking) {
        if (executor->moved < executor->goal)
            note_in_vain(executor);
        else
            executor->in_vain = 0;
    }
    executor->wait_started = 0;
}

/* ---- sleeping ---- */

static int64_t earliest(const struct ls_executor *executor) {
    int64_t at = executor->deadline < executor->next_report ? executor->deadline : executor->next_report;
    return at < executor->grace ? at : executor->grace;
}

static void fill(struct pollfd *poll, const struct ls_executor *executor, const struct ls_peer *peer) {
    struct ls_link *link = peer->link;
    bool read = peer->read_blocked && !peer->read_error, write = peer->write_blocked && !peer->write_error;
    *poll = (struct pollfd){.fd = -1};
    if (!read && !write) return;
    if (read && link->ops->wake_at) link->ops->wake_at(link, ls_executor_awaits(executor, peer));
    poll->fd = link->ops->fd(link);
    poll->events = (short)((read ? POLLIN : 0) | (write ? POLLOUT : 0));
}

static void wait_by_link(const struct ls_executor *executor, struct ls_link *link) {
    link->ops->wait(link, ls_poll_timeout(earliest(executor), 1000));
    for (int i = 0; i < executor->size; i++) executor->peers[i].read_blocked = executor->peers[i].write_blocked = false;
}

void ls_executor_wait(struct ls_executor *executor) {
    struct pollfd *polls = executor->polls;
    struct ls_link *link = executor->peers[!executor->rank].link; /* of any peer */
    if (link->ops->wait) {
        wait_by_link(executor, link);
        return;
    }
    if (look_again(executor)) return;
    for (int i = 0; i < executor->size; i++)
        if (i != executor->rank) fill(&polls[i], executor, &executor->peers[i]);
    polls[executor->rank] = (struct pollfd){.fd = ls_abort_fd(executor->abort), .events = POLLIN};
    int timeout = ls_poll_timeout(earliest(executor), 1000);
    if (poll(polls, (nfds_t)executor->size, timeout) <= 0) return;
    for (int i = 0; i < executor->size; i++) {
        if (i == executor->rank || !polls[i].revents) continue;
        short hang_up = POLLHUP | POLLERR | POLLNVAL;
        if (polls[i].revents & (POLLIN | hang_up)) executor->peers[i].read_blocked = false;
        if (polls[i].revents & (POLLOUT | hang_up)) executor->peers[i].write_blocked = false;
    }
}
