/* Waiting: the awaited ranks, the time of the wait, and its end. When a link breaks or a frame differs, a short grace
 * passes first. The cause may still arrive in it: the abort flag with the group's own message, or the frame of a rank
 * that made another call. */
#include "collective/run/wait.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "collective/run/executor.h"

#define PATIENCE (100 * LS_MICROSECOND) /* longer than a wake takes: a sleeper should not make its peers sleep */
#define SLICE    LS_MILLISECOND
enum { FORGIVEN = 4, MOST_SKIPPED = 31 };

void ls_wait_trouble(struct ls_executor *executor, const struct ls_executor_peer *peer, ls_status status) {
    if (executor->grace == LS_NEVER) executor->grace = ls_now() + LS_CAUSE_TIMEOUT;
    if (!status && executor->lost < 0) executor->lost = (int)(peer - executor->peers);
    ls_kept_error_first(&executor->trouble, status);
}

void ls_wait_be_patient(struct ls_executor *executor) {
    executor->patient = true;
    if (executor->deadline != LS_NEVER) executor->deadline += LS_CAUSE_TIMEOUT;
}

/* ---- for whom ---- */

typedef bool peer_test(const struct ls_executor_peer *peer);

static bool is_absent(const struct ls_executor_peer *peer) {
    return !peer->heard && ls_role_is_linked(peer->role);
}
static bool owes_data(const struct ls_executor_peer *peer) {
    return peer->receiving >= 0;
}
static bool is_awaited(const struct ls_executor_peer *peer) {
    return is_absent(peer) || owes_data(peer);
}
static bool takes_no_data(const struct ls_executor_peer *peer) {
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

/* The lowest of the ranks that have not come and have no link tells why. */
static void add_reason(const struct ls_executor *executor, char *text, size_t size) {
    char reason[200] = "";
    for (int i = 0; i < executor->size; i++) {
        const struct ls_executor_peer *peer = &executor->peers[i];
        if (i == executor->rank || !is_absent(peer) || peer->link) continue;
        size_t used = strlen(text);
        executor->source->ops->reason(executor->source, i, reason, sizeof(reason));
        (void)snprintf(text + used, size - used, "; the data connection to rank %d is not made yet: %s", i, reason);
        return;
    }
}

/* Names the ranks that have not come at all first: they are the likelier cause than the ranks that wait for them in
 * turn. */
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
    add_reason(executor, text, size);
}

/* ---- giving up ---- */

static ls_status lost_link(struct ls_executor *executor) {
    const struct ls_executor_peer *peer = &executor->peers[executor->lost];
    int error = peer->read_error ? peer->read_error : peer->write_error;
    atomic_store(&executor->severed, true);
    return ls_fail(LS_UNAVAILABLE, "%s: lost the connection to rank %d: %s",
                   ls_frame_describe(&executor->call->frame).text, executor->lost, strerror(error));
}

static ls_status too_late(const struct ls_executor *executor) {
    char ranks[640];
    whom(executor, ranks, sizeof(ranks));
    return ls_fail(LS_DEADLINE_EXCEEDED, "%s: waited %g s, the limit, for %s",
                   ls_frame_describe(&executor->call->frame).text, executor->timeout, ranks);
}

static ls_status fail_without(const struct ls_executor *executor, int rank) {
    return ls_fail(LS_FAILED_PRECONDITION,
                   "%s: rank %d has finished, and takes no part in it: its program makes fewer calls than this one's",
                   ls_frame_describe(&executor->call->frame).text, rank);
}

/* Of many ranks the first one speaks. When all wait for that one, the first of those who wait for it does. A rank that
 * has come waits for those that have not, though its own data may lack, too. A rank a call ahead of the first one waits
 * for it and speaks too: it cannot tell whether that one is frozen. */
static bool speaks(const struct ls_executor *executor) {
    peer_test *test = is_awaited;
    if (executor->size <= LS_LOG_FEW || !executor->rank) return true;
    for (int i = 0; i < executor->size; i++)
        if (i != executor->rank && is_absent(&executor->peers[i])) test = is_absent;
    for (int i = 0; i < executor->rank; i++)
        if (ls_role_is_linked(executor->peers[i].role) && !test(&executor->peers[i])) return false;
    return test(&executor->peers[0]);
}

static void report_awaited(struct ls_executor *executor) {
    char ranks[640];
    whom(executor, ranks, sizeof(ranks));
    ls_log_shared(executor->log, speaks(executor), LS_LOG_INFO, "waiting for %s in %s for %.1f s", ranks,
                  ls_frame_describe(&executor->call->frame).text, ls_seconds_since(executor->started));
    executor->next_report = ls_deadline_in(executor->report_interval);
}

static void tell_stall(struct ls_executor *executor) {
    unsigned char bytes[LS_FRAME_SIZE];
    const struct ls_frame *frame = &executor->call->frame;
    ls_frame_encode(frame, bytes);
    executor->stalled(executor->context, frame->sequence, bytes);
    executor->stall_at = LS_NEVER;
}

static bool frames_sent(const struct ls_executor *executor) {
    for (int i = 0; i < executor->size; i++) {
        const struct ls_executor_peer *peer = &executor->peers[i];
        if (i != executor->rank && peer->frame_sent < LS_FRAME_SIZE && !peer->write_error) return false;
    }
    return true;
}

/* The rank that is known not to come; -1 if there is none. A rank tells how many calls of the whole group it has made.
 * The calls of a set have other numbers: there it is one that has finished and sends nothing for a grace. */
static int find_left(struct ls_executor *executor) {
    const int *members = executor->members;
    if (!members && !executor->apart) return ls_abort_left_before(executor->abort, executor->call->frame.sequence);
    int left = ls_abort_left_before(executor->abort, UINT64_MAX), found = 0;
    while (left >= 0 && found < executor->size && (members ? members[found] : found) != left) found++;
    if (left < 0 || found == executor->size || !is_absent(&executor->peers[found])) return -1;
    if (!executor->left) executor->left = ls_now();
    return ls_now() - executor->left < LS_CAUSE_TIMEOUT ? -1 : found;
}

/* The order is that from cause to symptom. An abort has the group's message. A rank that has left on purpose explains a
 * closed link. A frame that differs explains why peers stop sending. A broken link and a deadline come last: they say
 * only that something is wrong. Trouble is reported after the grace at the latest. */
ls_status ls_wait_verdict(struct ls_executor *executor) {
    if (ls_abort_raised(executor->abort)) return ls_abort_status(executor->abort);
    int left = find_left(executor);
    if (left >= 0) return fail_without(executor, left);
    int64_t now = executor->now = ls_now();
    bool over = now >= executor->grace;
    /* this rank's own frame must have left, so that the peers see the difference too */
    if (executor->trouble.status && (over || frames_sent(executor))) return ls_kept_error_raise(&executor->trouble);
    if (over) return lost_link(executor);
    if (now >= executor->deadline) return too_late(executor);
    if (now >= executor->next_report) report_awaited(executor);
    if (now >= executor->stall_at) tell_stall(executor);
    return LS_OK;
}

/* ---- looking again ---- */

static struct ls_executor_peer *heeded(const struct ls_executor *executor, int index) {
    return &executor->peers[executor->heeded[index]];
}

/* The bytes that end the wait of some peer; 0 if only room to send is awaited. The smallest of the peers' awaited
 * bytes: any peer with that many ends the wait. ls_wait_moved compares it with the bytes that came, to learn whether
 * polling was worth it. */
static size_t goal_of(const struct ls_executor *executor) {
    size_t goal = 0;
    for (int i = 0; i < executor->heeded_count; i++) {
        const struct ls_executor_peer *peer = heeded(executor, i);
        if (!ls_role_is_linked(peer->role) || !peer->read_blocked || peer->read_error) continue;
        size_t bytes = ls_executor_awaits(executor, peer);
        if (!goal || bytes < goal) goal = bytes;
    }
    return goal;
}

static bool looks_now(struct ls_wait_habit *habit) {
    if (!habit->skip) return true;
    habit->skip--;
    return false;
}

static bool begin_waiting(struct ls_executor *executor) {
    executor->wait_started = executor->now;
    executor->goal = goal_of(executor);
    executor->moved = 0;
    return looks_now(&executor->habit);
}

/* The number of waits that sleep at once, after in_vain fruitless polls in a row. For in_vain = 5, 6, 7, 8 the answer
 * is 1, 3, 7, 15, and 31 from 9 on. The growth is exponential backoff: a link that is slow stays so, and a poll in 32
 * waits is enough to see that it became fast. */
static int skip_after(int in_vain) {
    int over = in_vain - FORGIVEN;
    return over <= 0 ? 0 : over < 5 ? (1 << over) - 1 : MOST_SKIPPED;
}

static void note_in_vain(struct ls_wait_habit *habit) {
    habit->in_vain++;
    habit->skip = skip_after(habit->in_vain);
}

/* Polls for up to PATIENCE before a wait sleeps: being put to sleep and woken costs more than a small message takes.
 * Between two polls the thread yields the processor; with more workers than processors the awaited worker gets it.
 * After FORGIVEN fruitless polls the next waits sleep at once: 1, 3, 7 and so on. So a worker that waits for slow links
 * sleeps. A worker that yields to a thread that computes sleeps as well, for many waits: the scheduler gives the thread
 * a slice of milliseconds, but runs a woken worker before it. */
static bool look_again(struct ls_executor *executor) {
    if (!executor->wait_started) executor->looking = begin_waiting(executor);
    if (!executor->looking) return false;
    if (executor->now - executor->wait_started > PATIENCE) {
        note_in_vain(&executor->habit);
        executor->looking = false;
        return false;
    }
    for (int i = 0; i < executor->heeded_count; i++)
        if (ls_role_is_linked(heeded(executor, i)->role))
            heeded(executor, i)->read_blocked = heeded(executor, i)->write_blocked = false;
    (void)sched_yield();
    return true;
}

/* A few bytes of many are in vain too: the link is slower than the looking. */
void ls_wait_moved(struct ls_executor *executor) {
    if (executor->wait_started && executor->looking) {
        if (executor->moved < executor->goal)
            note_in_vain(&executor->habit);
        else
            executor->habit.in_vain = 0;
    }
    executor->wait_started = 0;
}

ls_status ls_wait_look(struct ls_executor *executor, int rank, struct ls_frame *frame, bool *whole) {
    int64_t until = ls_now() + PATIENCE;
    ls_status status = LS_OK;
    if (!executor->peers[rank].link || !looks_now(&executor->between)) return LS_OK;
    while (!status && !*whole && ls_now() < until && !ls_abort_raised(executor->abort)) {
        (void)sched_yield();
        status = ls_executor_peek(executor, rank, frame, whole);
    }
    if (*whole)
        executor->between.in_vain = 0;
    else
        note_in_vain(&executor->between);
    return status;
}

/* ---- sleeping ---- */

/* wake_at tells the kernel how many bytes are worth a wake (SO_RCVLOWAT of a socket). Without it a receiver of a large
 * block would wake for every packet. */
static bool fill_poll(struct pollfd *poll, const struct ls_executor *executor, const struct ls_executor_peer *peer) {
    struct ls_link *link = peer->link;
    bool read = peer->read_blocked && !peer->read_error, write = peer->write_blocked && !peer->write_error;
    if (!read && !write) return true;
    if (read && link->ops->wake_at) link->ops->wake_at(link, ls_executor_awaits(executor, peer));
    return link->ops->poll(link, (short)((read ? POLLIN : 0) | (write ? POLLOUT : 0)), poll);
}

/* Fills a slot for each heeded peer, and one for the abort flag. Returns until when to wait at most. */
static int64_t fill_all(const struct ls_executor *executor) {
    int64_t until = ls_deadline_earlier(ls_deadline_earlier(executor->deadline, executor->next_report),
                                        ls_deadline_earlier(executor->stall_at, executor->grace));
    for (int i = 0; i < executor->heeded_count; i++) {
        struct ls_executor_peer *peer = heeded(executor, i);
        struct pollfd *slot = &executor->polls[i];
        *slot = (struct pollfd){.fd = -1};
        if (peer->link && !fill_poll(slot, executor, peer)) {
            peer->read_blocked = peer->write_blocked = false;
            until = executor->now;
        }
        if (peer->link || !ls_role_is_linked(peer->role)) continue;
        until = ls_deadline_earlier(until, executor->source->ops->poll(executor->source, executor->heeded[i], slot));
    }
    executor->polls[executor->heeded_count] = (struct pollfd){.fd = ls_abort_fd(executor->abort), .events = POLLIN};
    return until;
}

/* poll() gets the links of the call, or what the source of a missing one waits for, and the abort flag's descriptor, so
 * that an abort of another thread ends the sleep at once. */
void ls_wait_for_links(struct ls_executor *executor) {
    struct pollfd *polls = executor->polls;
    if (look_again(executor)) return;
    int timeout = ls_poll_timeout(fill_all(executor), 1000);
    if (poll(polls, (nfds_t)executor->heeded_count + 1, timeout) <= 0) return;
    for (int i = 0; i < executor->heeded_count; i++) {
        short hang_up = POLLHUP | POLLERR | POLLNVAL;
        if (polls[i].revents & (POLLIN | hang_up)) heeded(executor, i)->read_blocked = false;
        if (polls[i].revents && (polls[i].revents & (POLLOUT | hang_up) || !(polls[i].events & POLLOUT)))
            heeded(executor, i)->write_blocked = false;
    }
}
