/* A group's links are made one by one, each when a call first needs it: a source makes them. Both ends of a link want
 * it, because the schedule of their call says so. Collective owns the interface, cluster implements it. All functions
 * are called by one thread at a time. A one-way source has twice as many places as ranks: rank is a link to it, and
 * size + rank the one from it, which its sender makes. */
#pragma once
#include <poll.h>
#include <stdint.h>

#include "collective/link/transport.h"

struct ls_link_source;
struct ls_link_source_ops {
    /* Forgets that links have come, of which poll() tells for all ranks together: one that comes after it ends a poll()
     * again. It goes before the takes of all links that are awaited. */
    void (*clear)(struct ls_link_source *source);
    /* Goes on making the link to rank, as far as that takes no waiting. *link is the link once it is there, and the
     * caller owns it; until then it is NULL. UNAVAILABLE: it cannot be made. */
    ls_status (*take)(struct ls_link_source *source, int rank, struct ls_link **link);
    /* Fills slot with what poll() is to wait for before the next take; returns until when it may wait at most. */
    int64_t (*poll)(struct ls_link_source *source, int rank, struct pollfd *slot);
    /* Writes why the link is not there yet. */
    void (*reason)(struct ls_link_source *source, int rank, char *text, size_t size);
    void (*close)(struct ls_link_source *source); /* frees the source, not the links that it has given */
};
struct ls_link_source {
    const struct ls_link_source_ops *ops;
    const char *name; /* of the links' transport: "tcp" */
};
