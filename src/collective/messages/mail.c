/* A send and a receive, each with one loop: move, judge, wait. Both read from all ranks while they wait. */
#include "collective/messages/mail.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "collective/call.h"
#include "collective/messages/pump.h"

enum { NEVER_GIVES_WAY = -2, LOOKS_ONLY = -1 }; /* instead of the descriptor that a receive gives way to */

struct mail {
    struct ls_pump pump;
    struct ls_mailbox *mailbox;
    struct ls_frame frame;
    int to; /* -1 in a receive */
    unsigned char header[LS_FRAME_SIZE];
    struct ls_outgoing message; /* of a send */
    int64_t started, deadline, next_report;
};

static const struct ls_executor *executor_of(const struct mail *mail) {
    return &mail->pump.group->executor;
}

static int other_of(const struct mail *mail) {
    return mail->pump.wanted ? mail->pump.wanted->from : mail->to;
}

static bool is_complete(const struct mail *mail) {
    return mail->pump.wanted ? mail->pump.wanted->done : !mail->mailbox->to[mail->to].first;
}

/* ---- judging ---- */

/* "receive 'activations' from rank 1" */
static void describe_message(const struct mail *mail, char *text, size_t size) {
    (void)snprintf(text, size, "%s '%s' %s rank %d", mail->pump.wanted ? "receive" : "send", mail->frame.name,
                   mail->pump.wanted ? "from" : "to", other_of(mail));
}

/* Writes what is known of the other rank's side. */
static void explain_wait(const struct mail *mail, char *text, size_t size) {
    const struct ls_mailbox *mailbox = mail->mailbox;
    const struct ls_mail_from *from = &mailbox->from[other_of(mail)];
    if (!mail->pump.wanted && mailbox->to[mail->to].link && ls_mailbox_is_full(mailbox))
        (void)snprintf(text, size, "it takes no data; this rank reads none before it has received some of %zu bytes",
                       mailbox->kept);
    else if (!mail->pump.wanted && mailbox->to[mail->to].link)
        (void)snprintf(text, size, "it takes no data");
    else if (!mail->pump.wanted)
        mailbox->source->ops->reason(mailbox->source, mail->to, text, size);
    else if (from->arriving && !from->arriving->data)
        (void)snprintf(text, size, "its data is not all here");
    else if (from->first)
        (void)snprintf(text, size, "'%s' has come from it, and is not received", from->first->frame.name);
    else
        (void)snprintf(text, size, "it has sent nothing more");
}

static ls_status give_up_waiting(const struct mail *mail) {
    char call[LS_FRAME_NAME + 64], why[256];
    describe_message(mail, call, sizeof(call));
    explain_wait(mail, why, sizeof(why));
    return ls_fail(LS_DEADLINE_EXCEEDED, "%s: waited %g s, the limit (%s)", call, executor_of(mail)->timeout, why);
}

static void report_waiting(struct mail *mail) {
    char call[LS_FRAME_NAME + 64], why[256];
    describe_message(mail, call, sizeof(call));
    explain_wait(mail, why, sizeof(why));
    mail->next_report = ls_deadline_in(executor_of(mail)->report_interval);
    ls_log_info(executor_of(mail)->log, "waiting in %s for %.1f s (%s)", call, ls_seconds_since(mail->started), why);
}

static int error_of(const struct mail *mail) {
    return mail->pump.wanted ? mail->mailbox->from[mail->pump.wanted->from].error : mail->mailbox->to[mail->to].error;
}

static ls_status fail_severed(struct mail *mail) {
    char call[LS_FRAME_NAME + 64];
    describe_message(mail, call, sizeof(call));
    ls_group_sever(mail->pump.group);
    return ls_fail(LS_UNAVAILABLE, "%s: lost the connection: %s", call, strerror(error_of(mail)));
}

static bool has_left(const struct mail *mail) {
    const int *members = executor_of(mail)->members;
    int other = other_of(mail);
    return ls_abort_left_before(executor_of(mail)->abort, UINT64_MAX) == (members ? members[other] : other);
}

/* From cause to symptom, as ls_wait_verdict. The end of a link is a trouble, and so is the end of the other rank. */
static ls_status find_verdict(struct mail *mail) {
    const struct ls_executor *executor = executor_of(mail);
    if (ls_abort_raised(executor->abort)) return ls_abort_status(executor->abort);
    int64_t now = ls_now();
    bool left = has_left(mail), over = ls_pump_gives_up(&mail->pump, left || error_of(mail));
    if (over && left) {
        char call[LS_FRAME_NAME + 64];
        describe_message(mail, call, sizeof(call));
        return ls_fail(LS_FAILED_PRECONDITION, "%s: that rank has finished: its program makes fewer calls", call);
    }
    if (over) return fail_severed(mail);
    if (now >= mail->deadline) return give_up_waiting(mail);
    if (now >= mail->next_report) report_waiting(mail);
    return LS_OK;
}

/* ---- the calls ---- */

static bool can_be_read(int descriptor) {
    struct pollfd slot = {.fd = descriptor, .events = POLLIN};
    return poll(&slot, 1, 0) > 0;
}

/* Not where bytes are in the place of the message: they would stay there. Messages that came in a send, or in a look
 * for another one, are news as well: the caller may have looked for them before. */
static bool gives_way(const struct mail *mail) {
    const struct ls_mailbox *mailbox = mail->mailbox;
    if (mail->pump.wake == NEVER_GIVES_WAY) return false;
    const struct ls_mail *arriving = mailbox->from[mail->pump.wanted->from].arriving;
    if (arriving && !arriving->data) return false;
    return mail->pump.wake == LOOKS_ONLY || mailbox->come != mailbox->told || can_be_read(mail->pump.wake);
}

static ls_status move_until_done(struct mail *mail) {
    const struct ls_executor *executor = executor_of(mail);
    mail->started = ls_now();
    mail->deadline = ls_deadline_after(mail->started, executor->timeout);
    mail->next_report = ls_deadline_after(mail->started, executor->report_interval);
    mail->mailbox->look = true;
    for (;;) {
        bool moved;
        ls_status status = ls_pump_move(&mail->pump, &moved);
        if (status || is_complete(mail)) return status;
        status = find_verdict(mail);
        if (status || gives_way(mail)) return status;
        ls_pump_wait(&mail->pump, moved, ls_deadline_earlier(mail->deadline, mail->next_report));
    }
}

static ls_status check_message(const struct ls_group *group, const ls_send_options *call) {
    ls_status status = ls_call_check_name(call->name);
    if (!status) status = ls_call_check_bytes(call->name, call->dtype, call->count);
    if (status) return status;
    if (call->to < 0 || call->to >= group->executor.size)
        return ls_fail(LS_INVALID_ARGUMENT, "message '%s': rank %d is no rank of a group of %d", call->name, call->to,
                       group->executor.size);
    return call->count && !call->data ? ls_call_missing_memory(call->name, "data") : LS_OK;
}

static struct mail begin_message(struct ls_group *group, const char *name, int sender, ls_dtype dtype, size_t count) {
    struct mail mail = {.pump = ls_pump_of(group),
                        .mailbox = group->mailbox,
                        .to = -1,
                        .frame = {.generation = group->config.generation,
                                  .count = count,
                                  .bytes = count * ls_dtype_size(dtype),
                                  .rank = sender,
                                  .size = group->executor.size,
                                  .root = -1,
                                  .kind = LS_KIND_SEND,
                                  .dtype = (int32_t)dtype}};
    mail.pump.wake = NEVER_GIVES_WAY;
    ls_frame_name(&mail.frame, name);
    return mail;
}

ls_status ls_mail_send(struct ls_group *group, const ls_send_options *call) {
    int to = call->to;
    ls_status status = check_message(group, call);
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    struct mail mail = begin_message(group, call->name, group->executor.rank, call->dtype, call->count);
    mail.frame.sequence = group->mailbox->to[to].sequence++;
    if (to == group->executor.rank)
        return ls_call_finish(group, ls_mailbox_keep(group->mailbox, &mail.frame, call->data));
    mail.to = to;
    mail.message = (struct ls_outgoing){
        .front = mail.header, .front_size = LS_FRAME_SIZE, .body = call->data, .size = (size_t)mail.frame.bytes};
    ls_frame_encode(&mail.frame, mail.header);
    ls_pump_queue(group, to, &mail.message);
    status = move_until_done(&mail);
    ls_pump_clear(group, to);
    return ls_call_finish(group, status);
}

/* A slip that this rank alone can see. */
static ls_status fail_unsent(const struct mail *mail) {
    return ls_fail(LS_FAILED_PRECONDITION, "receive '%s': this rank, %d, has sent itself no such message",
                   mail->frame.name, mail->frame.rank);
}

static ls_status receive_message(struct ls_group *group, const ls_receive_options *call, int wake, bool *received) {
    ls_status status = check_message(group, LS_SEND(call->name, call->data, call->count, call->dtype, call->from));
    if (status) return status;
    if (ls_abort_raised(group->executor.abort)) return ls_call_finish(group, ls_abort_status(group->executor.abort));
    struct mail mail = begin_message(group, call->name, call->from, call->dtype, call->count);
    struct ls_mail_wanted wanted = {.from = call->from, .frame = &mail.frame, .data = call->data};
    mail.pump.wanted = &wanted;
    mail.pump.wake = wake;
    status = ls_mailbox_find(group->mailbox, &wanted);
    bool own = call->from == group->executor.rank;
    if (own && !status && !wanted.done && wake == NEVER_GIVES_WAY) return fail_unsent(&mail);
    if (!own && !status && !wanted.done) status = move_until_done(&mail);
    if (wake != LOOKS_ONLY && wake != NEVER_GIVES_WAY && !wanted.done) group->mailbox->told = group->mailbox->come;
    if (!status) *received = wanted.done;
    return own ? status : ls_call_finish(group, status);
}

ls_status ls_mail_receive(struct ls_group *group, const ls_receive_options *call) {
    bool received = false;
    return receive_message(group, call, NEVER_GIVES_WAY, &received);
}

ls_status ls_mail_try_receive(struct ls_group *group, const ls_receive_options *call, int wake, bool *received) {
    return receive_message(group, call, wake < 0 ? LOOKS_ONLY : wake, received);
}
