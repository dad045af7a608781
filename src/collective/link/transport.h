/* The interface of a transport between two workers. A link is one ordered, reliable stream of bytes in both directions.
 * Collective owns the interface. tcp.c and shm.c (processes of one host) implement it here; cluster may add more. */
#pragma once
#include <lockstep/lockstep.h>
#include <poll.h>
#include <sys/types.h>
#include <sys/uio.h>

struct ls_link;
struct ls_link_ops {
    const char *name; /* of the transport: "tcp", "shm" */
    /* Never block. Bytes moved, 0 when it would block, -1 when the link is dead (errno says why; end of stream is
     * ECONNRESET). Called by one thread at a time. */
    ssize_t (*send)(struct ls_link *link, const struct iovec *pieces, int count);
    ssize_t (*receive)(struct ls_link *link, void *data, size_t size);
    /* Fills slot with what poll() is to wait for, so that it ends with these events: POLLIN, POLLOUT or both. After it
     * any event of a slot without POLLOUT may be either. Returns false if there is nothing to wait for. */
    bool (*poll)(struct ls_link *link, short events, struct pollfd *slot);
    void (*close)(struct ls_link *link); /* frees the link */
    /* NULL, or: poll() need not tell of less than so many bytes to read. 1, as at first: it tells of any. */
    void (*wake_at)(struct ls_link *link, size_t bytes);
    /* NULL, or replaces POLLIN: true if there are bytes to receive, or the end. */
    bool (*readable)(struct ls_link *link);
};
struct ls_link {
    const struct ls_link_ops *ops;
};
