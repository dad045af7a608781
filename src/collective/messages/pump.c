/* A queue for each rank is in the mailbox. A link is made when the first message wants it. */
#include "collective/messages/pump.h"

#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "collective/group_private.h"

#define PATIENCE (50 * LS_MICROSECOND)

struct ls_pump ls_pump_of(struct ls_group *group) {
    return (struct ls_pump){.group = group, .wake = -1, .grace = LS_NEVER};
}

/* ---- moving ---- */

void ls_pump_queue(struct ls_group *group, int to, struct ls_outgoing *message) {
    struct ls_mail_to *box = &group->mailbox->to[to];
    *box->end = message;
    box->end = &message->next;
}

static void drop_first(struct ls_mail_to *to) {
    struct ls_outgoing *message = to->first;
    to->first = message->next;
    if (!to->first) to->end = &to->first;
    if (message->release) message->release(message);
}

void ls_pump_clear(struct ls_group *group, int to) {
    while (group->mailbox->to[to].first) drop_first(&group->mailbox->to[to]);
}

/* Writes once, of the first message of the queue; false: nothing has moved. */
static bool write_some(struct ls_mail_to *to) {
    struct ls_outgoing *message = to->first;
    size_t front = message->front_size, sent = message->sent, head = sent < front ? front - sent : 0;
    size_t at = sent + head - front;
    const struct iovec pieces[2] = {
        {(void *)(uintptr_t)(message->front + front - head), head},
        {message->size ? (void *)(uintptr_t)(message->body + at) : NULL, message->size - at}};
    int first = head ? 0 : 1, count = at < message->size ? 2 : 1;
    ssize_t moved = to->link->ops->send(to->link, pieces + first, count - first);
    if (moved < 0) to->error = errno ? errno : ECONNRESET;
    if (moved <= 0) return false;
    message->sent += (size_t)moved;
    if (message->sent == front + message->size) drop_first(to);
    return true;
}

static ls_status write_to(struct ls_group *group, int rank, bool *moved) {
    struct ls_mail_to *to = &group->mailbox->to[rank];
    struct ls_link_source *source = group->mailbox->source;
    if (!to->first || to->error) return LS_OK;
    ls_status status = to->link ? LS_OK : source->ops->take(source, rank, &to->link);
    if (status) ls_group_sever(group);
    while (!status && to->link && !to->error && to->first && write_some(to)) *moved = true;
    return status;
}

ls_status ls_pump_write(struct ls_group *group, int to) {
    bool moved;
    return write_to(group, to, &moved);
}

ls_status ls_pump_move(struct ls_pump *pump, bool *moved) {
    struct ls_group *group = pump->group;
    ls_status status = LS_OK;
    *moved = false;
    for (int i = 0; i < group->mailbox->size && !status; i++) status = write_to(group, i, moved);
    return status ? status : ls_mailbox_drain(group->mailbox, pump->wanted, moved);
}

bool ls_pump_gives_up(struct ls_pump *pump, bool trouble) {
    if (trouble && pump->grace == LS_NEVER) pump->grace = ls_now() + LS_CAUSE_TIMEOUT;
    return pump->grace != LS_NEVER && ls_now() >= pump->grace;
}

/* ---- waiting ---- */

static int64_t fill_outbound(struct ls_mailbox *mailbox, int rank, struct pollfd *slot) {
    struct ls_mail_to *to = &mailbox->to[rank];
    *slot = (struct pollfd){.fd = -1};
    if (!to->first || to->error) return LS_NEVER;
    if (!to->link) return mailbox->source->ops->poll(mailbox->source, rank, slot);
    return ls_mailbox_slot(to->link, 0, POLLOUT, slot) ? LS_NEVER : ls_now();
}

/* Fills all slots: inbound links, outbound ones, the abort flag, and what wakes. The own rank's place has the news of
 * inbound links that are new. */
static int64_t fill_polls(const struct ls_pump *pump, int64_t until) {
    struct ls_mailbox *mailbox = pump->group->mailbox;
    struct pollfd *polls = mailbox->polls;
    int size = mailbox->size, other = (mailbox->rank + 1) % size;
    for (int i = 0; i < size; i++) {
        const struct ls_mail_from *from = &mailbox->from[i];
        struct ls_link *link = ls_mailbox_reads(mailbox, i, pump->wanted) ? from->link : NULL;
        if (!ls_mailbox_slot(link, from->error, POLLIN, &polls[i])) until = ls_now();
        until = ls_deadline_earlier(until, fill_outbound(mailbox, i, &polls[size + i]));
    }
    (void)mailbox->source->ops->poll(mailbox->source, size + other, &polls[mailbox->rank]);
    polls[2 * size] = (struct pollfd){.fd = ls_abort_fd(pump->group->executor.abort), .events = POLLIN};
    polls[2 * size + 1] = (struct pollfd){.fd = pump->wake, .events = POLLIN};
    return until;
}

static void sleep_until(const struct ls_pump *pump, int64_t until) {
    struct ls_mailbox *mailbox = pump->group->mailbox;
    int timeout = ls_poll_timeout(fill_polls(pump, ls_deadline_earlier(until, pump->grace)), 1000);
    mailbox->look = true;
    if (poll(mailbox->polls, 2 * (nfds_t)mailbox->size + 2, timeout) >= 0)
        mailbox->look = mailbox->polls[mailbox->rank].revents != 0;
}

void ls_pump_wait(struct ls_pump *pump, bool moved, int64_t until) {
    if (moved) {
        pump->idle = 0;
        return;
    }
    if (!pump->idle) pump->idle = ls_now();
    if (ls_now() - pump->idle < PATIENCE)
        (void)sched_yield();
    else
        sleep_until(pump, until);
}
