/* The messages between two ranks: an outbound link to each rank that this one has sent to, and an inbound link from
 * each that has sent to it. A sender makes the link, so a message goes before anybody waits for it. A rank that waits,
 * in a send or a receive, reads from all inbound links meanwhile. It keeps messages that it has not asked for yet. So
 * no order of sends and receives holds two ranks up that both wait in one of them, up to a limit: a full box reads only
 * from the rank that is waited for. Memory: two links of a pair at most, 256 bytes a rank of the group, and the bytes
 * that have come and are not received: the limit, and one message a rank. One thread calls at a time. */
#pragma once
#include <poll.h>

#include "collective/link/link_source.h"
#include "collective/run/frame.h"

struct ls_mail {
    struct ls_mail *next;
    struct ls_frame frame;
    unsigned char *data; /* NULL: it goes straight to who waits for it */
};

/* The mail from one rank. */
struct ls_mail_from {
    struct ls_link *link; /* NULL before it has sent something */
    int error;            /* errno of the link's end; 0 if alive */
    unsigned char header[LS_FRAME_SIZE];
    size_t header_filled;
    struct ls_mail *arriving;     /* its header is here */
    unsigned char *to;            /* where its bytes go */
    size_t filled;                /* of them */
    struct ls_mail *first, **end; /* what is here, and not received */
};

/* A message on its way out. */
struct ls_outgoing {
    struct ls_outgoing *next;
    const unsigned char *front, *body;            /* [front_size], [size] */
    size_t front_size, size, sent;                /* sent: of both */
    void (*release)(struct ls_outgoing *message); /* when it is in no queue any more; may be NULL */
};

struct ls_mail_to {
    struct ls_link *link;
    int error;
    uint64_t sequence; /* of the next message */
    struct ls_outgoing *first, **end;
};

/* A receive that waits. */
struct ls_mail_wanted {
    int from;
    const struct ls_frame *frame; /* as its sender writes it, but for the sequence */
    unsigned char *data;
    bool done;
};

struct ls_mailbox {
    int rank, size;
    uint64_t generation;
    struct ls_link_source *source; /* one-way, owned; NULL if size is 1 */
    struct ls_mail_to *to;         /* [size] */
    struct ls_mail_from *from;     /* [size] */
    struct pollfd *polls;          /* [2 * size + 2] */
    bool look;                     /* for inbound links that are new */
    size_t kept, limit;            /* bytes that are not received; from which on the box is full */
    uint64_t come;                 /* messages from other ranks that were kept, ever; ... */
    uint64_t told;                 /* ... when a wait for one of them gave way the last time */
};

/* like has rank, size, generation, source, which is taken on success, and limit; 0 means 1 GiB. */
ls_status ls_mailbox_new(const struct ls_mailbox *like, struct ls_mailbox **mailbox);
void ls_mailbox_free(struct ls_mailbox *mailbox);
bool ls_mailbox_is_full(const struct ls_mailbox *mailbox);
/* Returns false if what that rank sends stays on its way until something is received. */
bool ls_mailbox_reads(const struct ls_mailbox *mailbox, int rank, const struct ls_mail_wanted *wanted);
/* Reads from all inbound links without waiting; wanted may be NULL. *moved: something has come. An error is one of a
 * message: it differs from the one that is wanted under its name, there is no memory for it, or the box is full of
 * others of the rank that is waited for. */
ls_status ls_mailbox_drain(struct ls_mailbox *mailbox, struct ls_mail_wanted *wanted, bool *moved);
/* Hands over the oldest message with the wanted name that is here, and says so in wanted->done. */
ls_status ls_mailbox_find(struct ls_mailbox *mailbox, struct ls_mail_wanted *wanted);
/* Takes out the oldest message of a rank, whatever its name; *data is freed with ls_free. Returns false if there is
 * none. */
bool ls_mailbox_take(struct ls_mailbox *mailbox, int from, unsigned char **data, size_t *size);
/* A message from this rank to itself. */
ls_status ls_mailbox_keep(struct ls_mailbox *mailbox, const struct ls_frame *frame, const void *data);
/* The poll() of a link's interface; nothing is to be waited for where there is no link, or it has ended. */
bool ls_mailbox_slot(struct ls_link *link, int error, short events, struct pollfd *slot);
