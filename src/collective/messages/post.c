/* One loop: move, judge, wait. */
#include "collective/messages/post.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/new.h"
#include "collective/call.h"
#include "collective/messages/pump.h"

struct queued {
    struct ls_outgoing message;
    unsigned char front[LS_FRAME_SIZE + LS_POST_HEAD];
    unsigned char *body;
};
struct ls_post {
    struct ls_pump pump;
    struct ls_mailbox *mailbox;
    char name[LS_FRAME_NAME];
    int turn; /* the rank whose letters are looked for first */
    int lost; /* the first rank whose link has ended; -1: none has */
};

ls_status ls_post_new(struct ls_group *group, const char *name, struct ls_post **post) {
    LS_NEW(struct ls_post, made, "letters");
    *made = (struct ls_post){.pump = ls_pump_of(group), .mailbox = group->mailbox, .lost = -1};
    (void)snprintf(made->name, sizeof(made->name), "%s", name);
    *post = made;
    return LS_OK;
}

void ls_post_free(struct ls_post *post) {
    if (!post) return;
    for (int i = 0; i < post->mailbox->size; i++) ls_pump_clear(post->pump.group, i);
    ls_free(post);
}

double ls_post_report_interval(const struct ls_post *post) {
    return post->pump.group->executor.report_interval;
}

/* ---- sending ---- */

static void write_front(const struct ls_post *post, int to, const unsigned char *head, struct queued *queued) {
    const struct ls_executor *executor = &post->pump.group->executor;
    struct ls_frame frame = {.generation = post->pump.group->config.generation,
                             .sequence = post->mailbox->to[to].sequence++,
                             .count = LS_POST_HEAD + queued->message.size,
                             .bytes = LS_POST_HEAD + queued->message.size,
                             .rank = executor->rank,
                             .size = executor->size,
                             .root = -1,
                             .kind = LS_KIND_SEND,
                             .dtype = LS_UINT8};
    ls_frame_name(&frame, post->name);
    ls_frame_encode(&frame, queued->front);
    memcpy(queued->front + LS_FRAME_SIZE, head, LS_POST_HEAD);
}

static void release_letter(struct ls_outgoing *message) {
    struct queued *queued = (struct queued *)message; /* it is the first field */
    ls_free(queued->body);
    ls_free(queued);
}

ls_status ls_post_send(struct ls_post *post, int to, const unsigned char head[LS_POST_HEAD], void *body, size_t size) {
    struct queued *queued = ls_alloc(sizeof(*queued));
    if (!queued) {
        ls_free(body);
        return ls_fail_memory("a letter", sizeof(*queued));
    }
    queued->body = body;
    queued->message = (struct ls_outgoing){.front = queued->front,
                                           .front_size = sizeof(queued->front),
                                           .body = body,
                                           .size = size,
                                           .release = release_letter};
    write_front(post, to, head, queued);
    ls_pump_queue(post->pump.group, to, &queued->message);
    return ls_pump_write(post->pump.group, to);
}

/* ---- judging ---- */

static int find_ended(const struct ls_post *post) {
    const struct ls_mailbox *mailbox = post->mailbox;
    for (int i = 0; i < mailbox->size; i++)
        if ((mailbox->from[i].error && !mailbox->from[i].first) || mailbox->to[i].error) return i;
    return -1;
}

static ls_status find_loss(struct ls_post *post) {
    struct ls_abort *abort = post->pump.group->executor.abort;
    if (ls_abort_raised(abort)) return ls_abort_status(abort);
    if (post->lost < 0) post->lost = find_ended(post);
    if (post->lost < 0) return LS_OK;
    if (!ls_pump_gives_up(&post->pump, true)) return LS_OK;
    const struct ls_mailbox *mailbox = post->mailbox;
    int error = mailbox->from[post->lost].error ? mailbox->from[post->lost].error : mailbox->to[post->lost].error;
    ls_group_sever(post->pump.group);
    return ls_fail(LS_UNAVAILABLE, "%s: lost the connection to rank %d: %s", post->name, post->lost, strerror(error));
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
    ls_status status = ls_pump_move(&post->pump, moved);
    return status ? status : find_loss(post);
}

ls_status ls_post_next(struct ls_post *post, int64_t until, struct ls_letter *letter, bool *found) {
    bool moved;
    post->mailbox->look = true;
    for (;;) {
        ls_status status = move(post, &moved);
        *found = !status && take_letter(post, letter);
        if (*found) status = check_letter(post, letter);
        if (status) return ls_call_finish(post->pump.group, status);
        if (*found || ls_now() >= until) return LS_OK;
        ls_pump_wait(&post->pump, moved, until);
    }
}

ls_status ls_post_await(struct ls_post *post, const char *what, struct ls_letter *letter) {
    const struct ls_executor *executor = &post->pump.group->executor;
    int64_t started = ls_now(), deadline = ls_deadline_after(started, executor->timeout);
    int64_t report = ls_deadline_after(started, executor->report_interval);
    for (bool found = false;;) {
        ls_status status = ls_post_next(post, ls_deadline_earlier(report, deadline), letter, &found);
        if (status || found) return status;
        if (ls_now() >= deadline)
            return ls_call_finish(post->pump.group, ls_fail(LS_DEADLINE_EXCEEDED, "%s: waited %g s for %s, the limit",
                                                            post->name, executor->timeout, what));
        ls_log_info(executor->log, "waiting for %.1f s for %s", ls_seconds_since(started), what);
        report = ls_deadline_in(executor->report_interval);
    }
}

static bool is_out(const struct ls_post *post) {
    for (int i = 0; i < post->mailbox->size; i++)
        if (post->mailbox->to[i].first) return false;
    return true;
}

ls_status ls_post_flush(struct ls_post *post) {
    double limit = post->pump.group->executor.timeout;
    int64_t deadline = ls_deadline_in(limit);
    bool moved;
    for (;;) {
        ls_status status = move(post, &moved);
        if (!status && is_out(post)) return LS_OK;
        if (!status && ls_now() >= deadline)
            status = ls_fail(LS_DEADLINE_EXCEEDED, "%s: a rank takes nothing for %g s, the limit", post->name, limit);
        if (status) return ls_call_finish(post->pump.group, status);
        ls_pump_wait(&post->pump, moved, deadline);
    }
}
