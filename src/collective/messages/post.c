/* A queue of letters for each rank, and one loop: write what is queued, read what has come, judge, wait. */
#include "collective/messages/post.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/memory.h"
#include "base/status.h"
#include "collective/call.h"
#include "collective/run/mailbox.h"

#define PATIENCE (50 * LS_MICROSECOND)

struct queued {
    struct queued *next;
    unsigned char front[LS_FRAME_SIZE + LS_POST_HEAD];
    unsigned char *body;
    size_t size, sent; /* of the body; of front and body */
};
struct outbox {
    struct queued *first, **end;
};
struct ls_post {
    struct ls_group *group;
    struct ls_mailbox *mailbox;
    struct outbox *boxes; /* [size] */
    struct pollfd *polls; /* [2 * size + 1]: inbound links, outbound ones, the abort flag */
    char name[LS_FRAME_NAME];
    int turn;      /* the rank whose letters are looked for first */
    int64_t idle;  /* since when nothing has moved; 0: it has */
    int64_t grace; /* when to give up after a link's end; LS_NEVER: none has ended */
    int lost;      /* the rank of that link */
};

ls_status ls_post_new(struct ls_group *group, const char *name, struct ls_post **post) {
    size_t size = (size_t)group->executor.size;
    struct ls_post *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("letters", sizeof(*made));
    *made = (struct ls_post){.group = group, .mailbox = group->mailbox, .grace = LS_NEVER, .lost = -1};
    (void)snprintf(made->name, sizeof(made->name), "%s", name);
    made->boxes = ls_alloc_array(size, sizeof(*made->boxes));
    made->polls = ls_alloc_array(2 * size + 1, sizeof(*made->polls));
    if (!made->boxes || !made->polls) {
        ls_post_free(made);
        return ls_fail_memory("letters", size * sizeof(*made->boxes));
    }
    for (size_t i = 0; i < size; i++) made->boxes[i].end = &made->boxes[i].first;
    *post = made;
    return LS_OK;
}

static void drop_first(struct outbox *box) {
    struct queued *queued = box->first;
    box->first = queued->next;
    if (!box->first) box->end = &box->first;
    ls_free(queued->body);
    ls_free(queued);
}

void ls_post_free(struct ls_post *post) {
    if (!post) return;
    for (int i = 0; post->boxes && i < post->group->executor.size; i++)
        while (post->boxes[i].first) drop_first(&post->boxes[i]);
    ls_free(post->boxes);
    ls_free(post->polls);
    ls_free(post);
}

double ls_post_report_interval(const struct ls_post *post) {
    return post->group->executor.report_interval;
}

/* ---- sending ---- */

static void write_front(const struct ls_post *post, int to, const unsigned char *head, struct queued *queued) {
    const struct ls_executor *executor = &post->group->executor;
    struct ls_frame frame = {.generation = post->group->generation,
                             .sequence = post->mailbox->to[to].sequence++,
                             .count = LS_POST_HEAD + queued->size,
                             .bytes = LS_POST_HEAD + queued->size,
                             .rank = executor->rank,
                             .size = executor->size,
                             .root = -1,
                             .kind = LS_KIND_SEND,
                             .dtype = LS_UINT8};
    ls_frame_name(&frame, post->name);
    ls_frame_encode(&frame, queued->front);
    memcpy(queued->front + LS_FRAME_SIZE, head, LS_POST_HEAD);
}

/* Of the first letter of the queue; false: nothing has moved. */
static bool write_some(struct ls_mail_to *to, struct outbox *box) {
    struct queued *queued = box->first;
    size_t front = sizeof(queued->front), sent = queued->sent, head = sent < front ? front - sent : 0;
    size_t at = sent + head - front;
    const struct iovec pieces[2] = {{queued->front + front - head, head},
                                    {queued->body ? queued->body + at : NULL, queued->size - at}};
    int first = head ? 0 : 1, count = at < queued->size ? 2 : 1;
    ssize_t moved = to->link->ops->send(to->link, pieces + first, count - first);
    if (moved < 0) to->error = errno ? errno : ECONNRESET;
    if (moved <= 0) return false;
    queued->sent += (size_t)moved;
    if (queued->sent == front + queued->size) drop_first(box);
    return true;
}

static ls_status write_to(struct ls_post *post, int rank, bool *moved) {
    struct ls_mail_to *to = &post->mailbox->to[rank];
    struct ls_link_source *source = post->mailbox->source;
    struct outbox *box = &post->boxes[rank];
    if (!box->first || to->error) return LS_OK;
    ls_status status = to->link ? LS_OK : source->ops->take(source, rank, &to->link);
    if (status) ls_group_sever(post->group);
    while (!status && to->link && !to->error && box->first && write_some(to, box)) *moved = true;
    return status;
}

ls_status ls_post_send(struct ls_post *post, int to, const unsigned char head[LS_POST_HEAD], void *body, size_t size) {
    struct queued *queued = ls_alloc(sizeof(*queued));
    bool moved;
    if (!queued) {
        ls_free(body);
        return ls_fail_memory("a letter", sizeof(*queued));
    }
    queued->body = body;
    queued->size = size;
    write_front(post, to, head, queued);
    *post->boxes[to].end = queued;
    post->boxes[to].end = &queued->next;
    return write_to(post, to, &moved);
}

static ls_status write_queued(struct ls_post *post, bool *moved) {
    ls_status status = LS_OK;
    for (int i = 0; i < post->group->executor.size && !status; i++) status = write_to(post, i, moved);
    return status;
}

/* ---- judging ---- */

static int find_ended(const struct ls_post *post) {
    const struct ls_mailbox *mailbox = post->mailbox;
    for (int i = 0; i < mailbox->size; i++)
        if ((mailbox->from[i].error && !mailbox->from[i].first) || mailbox->to[i].error) return i;
    return -1;
}

/* After the end of a link a grace passes in which the cause may come. */
static ls_status find_loss(struct ls_post *post) {
    struct ls_abort *abort = post->group->executor.abort;
    if (ls_abort_raised(abort)) return ls_abort_status(abort);
    if (post->lost < 0) post->lost = find_ended(post);
    if (post->lost < 0) return LS_OK;
    if (post->grace == LS_NEVER) post->grace = ls_now() + LS_CAUSE_TIMEOUT;
    if (ls_now() < post->grace) return LS_OK;
    const struct ls_mailbox *mailbox = post->mailbox;
    int error = mailbox->from[post->lost].error ? mailbox->from[post->lost].error : mailbox->to[post->lost].error;
    ls_group_sever(post->group);
    return ls_fail(LS_UNAVAILABLE, "%s: lost the connection to rank %d: %s", post->name, post->lost, strerror(error));
}

/* ---- waiting ---- */

/* At the own rank's place is the news of inbound links that are new. */
static int64_t fill_polls(const struct ls_post *post, int64_t until) {
    struct ls_mailbox *mailbox = post->mailbox;
    struct ls_link_source *source = mailbox->source;
    struct pollfd *polls = post->polls;
    int size = mailbox->size, other = (mailbox->rank + 1) % size;
    for (int i = 0; i < size; i++) {
        int64_t at = until;
        if (!ls_mailbox_slot(mailbox->from[i].link, mailbox->from[i].error, POLLIN, &polls[i])) at = ls_now();
        polls[size + i] = (struct pollfd){.fd = -1};
        if (at < until) until = at;
        if (!post->boxes[i].first || mailbox->to[i].error) continue;
        if (!mailbox->to[i].link)
            at = source->ops->poll(source, i, &polls[size + i]);
        else if (!ls_mailbox_slot(mailbox->to[i].link, 0, POLLOUT, &polls[size + i]))
            at = ls_now();
        if (at < until) until = at;
    }
    (void)source->ops->poll(source, size + other, &polls[mailbox->rank]);
    polls[2 * size] = (struct pollfd){.fd = ls_abort_fd(post->group->executor.abort), .events = POLLIN};
    return until;
}

static void sleep_until(const struct ls_post *post, int64_t until) {
    struct ls_mailbox *mailbox = post->mailbox;
    if (post->grace < until) until = post->grace;
    int timeout = ls_poll_timeout(fill_polls(post, until), 1000);
    mailbox->look = true;
    if (poll(post->polls, 2 * (nfds_t)mailbox->size + 1, timeout) >= 0)
        mailbox->look = post->polls[mailbox->rank].revents != 0;
}

static void wait_a_while(struct ls_post *post, bool moved, int64_t until) {
    if (moved) {
        post->idle = 0;
        return;
    }
    if (!post->idle) post->idle = ls_now();
    if (ls_now() - post->idle < PATIENCE)
        (void)sched_yield();
    else
        sleep_until(post, until);
}

/* ---- taking ---- */

static bool take_letter(struct ls_post *post, struct ls_letter *letter) {
    struct ls_mailbox *mailbox = post->mailbox;
    for (int i = 0; i < mailbox->size; i++) {
        int rank = (post->turn + i) % mailbox->size;
        if (!ls_mailbox_take(mailbox, rank, &letter->bytes, &letter->size)) continue;
        letter->from = rank;
        post->turn = (rank + 1) % mailbox->size;
        return true;
    }
    return false;
}

static ls_status check_letter(const struct ls_post *post, struct ls_letter *letter) {
    if (letter->size >= LS_POST_HEAD) return LS_OK;
    ls_free(ls_steal(letter->bytes));
    return ls_fail(LS_DATA_LOSS, "%s: %zu bytes came from rank %d, fewer than open a letter", post->name, letter->size,
                   letter->from);
}

static ls_status move(struct ls_post *post, bool *moved) {
    *moved = false;
    ls_status status = write_queued(post, moved);
    if (!status) status = ls_mailbox_drain(post->mailbox, NULL, moved);
    return status ? status : find_loss(post);
}

ls_status ls_post_next(struct ls_post *post, int64_t until, struct ls_letter *letter, bool *found) {
    bool moved;
    post->mailbox->look = true;
    for (;;) {
        ls_status status = move(post, &moved);
        *found = !status && take_letter(post, letter);
        if (*found) status = check_letter(post, letter);
        if (status) return ls_call_finish(post->group, status);
        if (*found || ls_now() >= until) return LS_OK;
        wait_a_while(post, moved, until);
    }
}

ls_status ls_post_await(struct ls_post *post, const char *what, struct ls_letter *letter) {
    const struct ls_executor *executor = &post->group->executor;
    int64_t started = ls_now(), deadline = ls_deadline_after(started, executor->timeout);
    int64_t report = ls_deadline_after(started, executor->report_interval);
    for (bool found = false;;) {
        ls_status status = ls_post_next(post, report < deadline ? report : deadline, letter, &found);
        if (status || found) return status;
        if (ls_now() >= deadline)
            return ls_call_finish(post->group, ls_fail(LS_DEADLINE_EXCEEDED, "%s: waited %g s for %s, the limit",
                                                       post->name, executor->timeout, what));
        ls_log_info(executor->log, "waiting for %.1f s for %s", ls_seconds_since(started), what);
        report = ls_deadline_in(executor->report_interval);
    }
}

static bool is_out(const struct ls_post *post) {
    for (int i = 0; i < post->mailbox->size; i++)
        if (post->boxes[i].first) return false;
    return true;
}

ls_status ls_post_flush(struct ls_post *post) {
    double limit = post->group->executor.timeout;
    int64_t deadline = ls_deadline_in(limit);
    bool moved;
    for (;;) {
        ls_status status = move(post, &moved);
        if (!status && is_out(post)) return LS_OK;
        if (!status && ls_now() >= deadline)
            status = ls_fail(LS_DEADLINE_EXCEEDED, "%s: a rank takes nothing for %g s, the limit", post->name, limit);
        if (status) return ls_call_finish(post->group, status);
        wait_a_while(post, moved, deadline);
    }
}
