/* Inbound messages: a frame, then its bytes, one after the other on each link. */
#include "collective/run/mailbox.h"

#include <errno.h>
#include <string.h>

#include "base/new.h"

#define DEFAULT_LIMIT ((size_t)1 << 30)
enum { MOST_READS = 16 }; /* of one link in a row */

ls_status ls_mailbox_new(const struct ls_mailbox *like, struct ls_mailbox **mailbox) {
    size_t count = (size_t)like->size;
    LS_NEW(struct ls_mailbox, made, "a mailbox");
    *made = *like;
    made->source = NULL;
    if (!made->limit) made->limit = DEFAULT_LIMIT;
    made->to = ls_alloc_array(count, sizeof(*made->to));
    made->from = ls_alloc_array(count, sizeof(*made->from));
    made->polls = ls_alloc_array(2 * count + 2, sizeof(*made->polls));
    if (!made->to || !made->from || !made->polls) {
        ls_mailbox_free(made);
        return ls_fail_memory("a mailbox", count * sizeof(*made->from));
    }
    for (int i = 0; i < like->size; i++) made->from[i].end = &made->from[i].first;
    for (int i = 0; i < like->size; i++) made->to[i].end = &made->to[i].first;
    made->source = like->source;
    *mailbox = made;
    return LS_OK;
}

static void free_mail(struct ls_mail *mail) {
    if (mail) ls_free(mail->data);
    ls_free(mail);
}

static void free_from(struct ls_mail_from *from) {
    if (from->link) from->link->ops->close(from->link);
    free_mail(from->arriving);
    while (from->first) {
        struct ls_mail *next = from->first->next;
        free_mail(from->first);
        from->first = next;
    }
}

void ls_mailbox_free(struct ls_mailbox *mailbox) {
    if (!mailbox) return;
    for (int i = 0; mailbox->to && i < mailbox->size; i++)
        if (mailbox->to[i].link) mailbox->to[i].link->ops->close(mailbox->to[i].link);
    for (int i = 0; mailbox->from && i < mailbox->size; i++) free_from(&mailbox->from[i]);
    if (mailbox->source) mailbox->source->ops->close(mailbox->source);
    ls_free(mailbox->to);
    ls_free(mailbox->from);
    ls_free(mailbox->polls);
    ls_free(mailbox);
}

bool ls_mailbox_is_full(const struct ls_mailbox *mailbox) {
    return mailbox->kept >= mailbox->limit;
}

bool ls_mailbox_reads(const struct ls_mailbox *mailbox, int rank, const struct ls_mail_wanted *wanted) {
    return !ls_mailbox_is_full(mailbox) || mailbox->from[rank].arriving ||
           (wanted && !wanted->done && wanted->from == rank);
}

/* ---- one message ---- */

static bool is_wanted(const struct ls_mail_wanted *wanted, int from, const struct ls_frame *frame) {
    return wanted && !wanted->done && wanted->from == from && wanted->frame->name_digest == frame->name_digest;
}

/* A message has none. */
static const char *name_algorithm(int algorithm) {
    return algorithm ? "one" : "none";
}

/* Type and count of what is here or on its way, against what is wanted. */
static ls_status compare_mail(const struct ls_mailbox *mailbox, const struct ls_mail_wanted *wanted,
                              const struct ls_frame *frame) {
    struct ls_frame expected = *wanted->frame;
    expected.sequence = frame->sequence;
    return ls_frame_compare(&expected, frame, mailbox->rank, wanted->from, name_algorithm);
}

static ls_status check_mail(const struct ls_mailbox *mailbox, int from, const struct ls_frame *frame) {
    size_t element = ls_dtype_size((ls_dtype)frame->dtype);
    if (frame->kind == LS_KIND_SEND && frame->rank == from && frame->size == mailbox->size &&
        frame->generation == mailbox->generation && frame->count <= PTRDIFF_MAX / element &&
        frame->bytes == frame->count * element)
        return LS_OK;
    return ls_fail(LS_DATA_LOSS, "what came from rank %d is no message of this group (%s of %llu elements, %llu bytes)",
                   from, ls_frame_collective_name(frame->kind), (unsigned long long)frame->count,
                   (unsigned long long)frame->bytes);
}

static ls_status make_mail(struct ls_mailbox *mailbox, const struct ls_frame *frame, bool keeps,
                           struct ls_mail **mail) {
    struct ls_mail *made = ls_alloc(sizeof(*made));
    if (made) made->frame = *frame;
    if (made && keeps) made->data = ls_alloc_aligned(frame->bytes ? (size_t)frame->bytes : 1);
    if (!made || (keeps && !made->data)) {
        free_mail(made);
        return ls_fail_memory("a message that nobody receives yet", (size_t)frame->bytes);
    }
    if (keeps) mailbox->kept += (size_t)frame->bytes + sizeof(*made);
    *mail = made;
    return LS_OK;
}

static void append_mail(struct ls_mail_from *from, struct ls_mail *mail) {
    *from->end = mail;
    from->end = &mail->next;
}

static void take_out(struct ls_mailbox *mailbox, struct ls_mail_from *from, struct ls_mail **at) {
    struct ls_mail *mail = *at;
    mailbox->kept -= (size_t)mail->frame.bytes + sizeof(*mail);
    *at = mail->next;
    if (from->end == &mail->next) from->end = at;
    free_mail(mail);
}

ls_status ls_mailbox_find(struct ls_mailbox *mailbox, struct ls_mail_wanted *wanted) {
    struct ls_mail_from *from = &mailbox->from[wanted->from];
    struct ls_mail **at = &from->first;
    while (*at && !is_wanted(wanted, wanted->from, &(*at)->frame)) at = &(*at)->next;
    if (!*at) return LS_OK;
    ls_status status = compare_mail(mailbox, wanted, &(*at)->frame);
    if (status) return status;
    if ((*at)->frame.bytes) memcpy(wanted->data, (*at)->data, (size_t)(*at)->frame.bytes);
    take_out(mailbox, from, at);
    wanted->done = true;
    return LS_OK;
}

bool ls_mailbox_take(struct ls_mailbox *mailbox, int rank, unsigned char **data, size_t *size) {
    struct ls_mail_from *from = &mailbox->from[rank];
    if (!from->first) return false;
    *data = ls_steal(from->first->data);
    *size = (size_t)from->first->frame.bytes;
    take_out(mailbox, from, &from->first);
    return true;
}

ls_status ls_mailbox_keep(struct ls_mailbox *mailbox, const struct ls_frame *frame, const void *data) {
    struct ls_mail *mail = NULL;
    ls_status status = make_mail(mailbox, frame, true, &mail);
    if (status) return status;
    if (frame->bytes) memcpy(mail->data, data, (size_t)frame->bytes);
    append_mail(&mailbox->from[mailbox->rank], mail);
    return LS_OK;
}

/* ---- links ---- */

/* Up to size bytes; 0 when there are none now, or never more. */
static size_t read_mail(struct ls_mail_from *from, void *to, size_t size) {
    ssize_t received = from->link->ops->receive(from->link, to, size);
    if (received < 0) from->error = errno ? errno : ECONNRESET;
    return received > 0 ? (size_t)received : 0;
}

static ls_status fail_full(const struct ls_mailbox *mailbox, int rank, const struct ls_frame *frame,
                           const struct ls_mail_wanted *wanted) {
    return ls_fail(LS_RESOURCE_EXHAUSTED,
                   "receive '%s' from rank %d: '%s' has come before it, and %zu bytes are kept that this rank, %d, has "
                   "not received (LOCKSTEP_MAIL_LIMIT is %zu)",
                   wanted->frame->name, rank, frame->name, mailbox->kept, mailbox->rank, mailbox->limit);
}

/* One that is wanted goes to its place at once. */
static ls_status open_mail(struct ls_mailbox *mailbox, int rank, const struct ls_mail_wanted *wanted) {
    struct ls_mail_from *from = &mailbox->from[rank];
    struct ls_frame frame;
    ls_status status = ls_frame_decode(from->header, &frame);
    if (!status) status = check_mail(mailbox, rank, &frame);
    bool straight = !status && is_wanted(wanted, rank, &frame);
    if (straight) status = compare_mail(mailbox, wanted, &frame);
    if (!status && !straight && ls_mailbox_is_full(mailbox)) status = fail_full(mailbox, rank, &frame, wanted);
    if (!status) status = make_mail(mailbox, &frame, !straight, &from->arriving);
    if (status) return status;
    from->to = straight ? wanted->data : from->arriving->data;
    from->filled = 0;
    return LS_OK;
}

/* It goes to who waits for it even if its bytes came before. */
static ls_status end_mail(struct ls_mailbox *mailbox, int rank, struct ls_mail_wanted *wanted) {
    struct ls_mail_from *from = &mailbox->from[rank];
    struct ls_mail *mail = ls_steal(from->arriving);
    from->header_filled = 0;
    if (!mail->data) {
        wanted->done = true;
        free_mail(mail);
        return LS_OK;
    }
    append_mail(from, mail);
    mailbox->come++;
    return is_wanted(wanted, rank, &mail->frame) ? ls_mailbox_find(mailbox, wanted) : LS_OK;
}

/* Reads once; false: nothing has come. */
static bool read_once(struct ls_mailbox *mailbox, int rank, struct ls_mail_wanted *wanted, ls_status *status) {
    struct ls_mail_from *from = &mailbox->from[rank];
    bool opens = !from->arriving;
    size_t got = opens ? read_mail(from, from->header + from->header_filled, LS_FRAME_SIZE - from->header_filled)
                       : read_mail(from, from->to + from->filled, (size_t)from->arriving->frame.bytes - from->filled);
    if (!got) return false;
    *(opens ? &from->header_filled : &from->filled) += got;
    if (opens && from->header_filled == LS_FRAME_SIZE) *status = open_mail(mailbox, rank, wanted);
    if (!*status && from->arriving && from->filled == from->arriving->frame.bytes)
        *status = end_mail(mailbox, rank, wanted);
    return true;
}

static ls_status drain_one(struct ls_mailbox *mailbox, int rank, struct ls_mail_wanted *wanted, bool *moved) {
    const struct ls_mail_from *from = &mailbox->from[rank];
    ls_status status = LS_OK;
    for (int i = 0; i < MOST_READS && !status && !from->error; i++) {
        if (!ls_mailbox_reads(mailbox, rank, wanted) || !read_once(mailbox, rank, wanted, &status)) break;
        *moved = true;
    }
    return status;
}

/* A link that breaks is of concern to who waits for it. */
static void take_new(struct ls_mailbox *mailbox) {
    if (!mailbox->look || !mailbox->source) return;
    mailbox->look = false;
    mailbox->source->ops->clear(mailbox->source);
    for (int i = 0; i < mailbox->size; i++)
        if (i != mailbox->rank && !mailbox->from[i].link)
            (void)mailbox->source->ops->take(mailbox->source, mailbox->size + i, &mailbox->from[i].link);
}

ls_status ls_mailbox_drain(struct ls_mailbox *mailbox, struct ls_mail_wanted *wanted, bool *moved) {
    ls_status status = LS_OK;
    take_new(mailbox);
    for (int i = 0; i < mailbox->size && !status; i++)
        if (mailbox->from[i].link) status = drain_one(mailbox, i, wanted, moved);
    return status;
}

/* ---- waiting ---- */

bool ls_mailbox_slot(struct ls_link *link, int error, short events, struct pollfd *slot) {
    *slot = (struct pollfd){.fd = -1};
    return !link || error || link->ops->poll(link, events, slot);
}
