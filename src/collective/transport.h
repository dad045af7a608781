/* What moves bytes between two workers: a link is one ordered, reliable stream of bytes in both directions. Collective
 * owns the interface; tcp.c and local.c (threads of one process) implement it here, cluster may add more. */
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
    /* The descriptor to poll for POLLIN and POLLOUT; -1 with wait. */
    int (*fd)(const struct ls_link *link);
    void (*close)(struct ls_link *link); /* frees the link */
    /* NULL, or: poll() need not tell of less than so many bytes to read. 1, as at first: it tells of any. */
    void (*wake_at)(struct ls_link *link, size_t bytes);
    /* Both NULL, or a group's links are all of this kind.
     * Whether all that was sent has left this process: a collective ends only then. */
    bool (*flushed)(struct ls_link *link);
    /* In place of poll(): until something happens to a link of this kind, or sooner. */
    void (*wait)(struct ls_link *link, int milliseconds);
};
struct ls_link {
    const struct ls_link_ops *ops;
};

/* Takes a connected stream socket (on success; on failure it stays the caller's): sets it non-blocking, no delay.
 */
ls_status ls_tcp_link_new(int fd, struct ls_link **link);
/* Two ends of one in-process link, for ranks that are threads of one process. */
ls_status ls_local_link_pair(struct ls_link *ends[2]);
