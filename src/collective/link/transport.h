/* The interface of a transport between two workers. A link is one ordered, reliable stream of bytes in both directions.
 * Collective owns the interface. tcp.c and local.c (threads of one process) implement it here; cluster may add more. */
#pragma once
#include <lockstep/lockstep.h>
#include <sys/types.h>
#include <sys/uio.h>

struct ls_link;
struct ls_link_ops {
    const char *name; /* of the transport: "tcp", "local", "grpc" */
    /* Never block. Bytes moved, 0 when it would block, -1 when the link is dead (errno says why; end of stream is
     * ECONNRESET). Called by one thread at a time. */
    ssize_t (*send)(struct ls_link *link, const struct iovec *pieces, int count);
    ssize_t (*receive)(struct ls_link *link, void *data, size_t size);
    /* The descriptor to poll for POLLIN and POLLOUT; NULL with wait. */
    int (*fd)(const struct ls_link *link);
    void (*close)(struct ls_link *link); /* frees the link */
    /* NULL, or: poll() need not tell of less than so many bytes to read. 1, as at first: it tells of any. */
    void (*wake_at)(struct ls_link *link, size_t bytes);
    /* All three are NULL, or all links of a group are of this kind.
     * True if all bytes sent have left this process: a collective ends only then. */
    bool (*flushed)(struct ls_link *link);
    /* Replaces poll(): returns when something happens to a link of this kind, or sooner. */
    void (*wait)(struct ls_link *link, int milliseconds);
    /* Replaces POLLIN: true if there are bytes to receive, or the end. */
    bool (*readable)(struct ls_link *link);
};
struct ls_link {
    const struct ls_link_ops *ops;
};
