/* A source of links that were made before. */
#include "collective/given.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "collective/link/tcp.h"
#include "harness.h"

struct given {
    struct ls_link_source source; /* first */
    int size;
    struct ls_link *links[];
};

static void clear(struct ls_link_source *source) {
    (void)source;
}

static ls_status take(struct ls_link_source *source, int rank, struct ls_link **link) {
    struct given *given = (struct given *)source;
    *link = ls_steal(given->links[rank]);
    return LS_OK;
}

static int64_t wait_for(struct ls_link_source *source, int rank, struct pollfd *slot) {
    (void)source, (void)rank;
    *slot = (struct pollfd){.fd = -1};
    return LS_NEVER;
}

static void reason(struct ls_link_source *source, int rank, char *text, size_t size) {
    (void)source, (void)rank;
    (void)snprintf(text, size, "there is none");
}

static void end(struct ls_link_source *source) {
    struct given *given = (struct given *)source;
    for (int i = 0; i < given->size; i++)
        if (given->links[i]) given->links[i]->ops->close(given->links[i]);
    free(given);
}

static const struct ls_link_source_ops given_ops = {clear, take, wait_for, reason, end};

struct ls_link_source *given_links(struct ls_link *const *links, int size) {
    struct given *given = calloc(1, sizeof(*given) + (size_t)size * sizeof(*links));
    ck_assert_ptr_nonnull(given);
    given->source.ops = &given_ops;
    given->source.name = "none";
    given->size = size;
    for (int i = 0; i < size; i++) {
        given->links[i] = links[i];
        if (links[i]) given->source.name = links[i]->ops->name;
    }
    return &given->source;
}

void local_pair(struct ls_link *ends[2]) {
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 0; i < 2; i++) assert_ok(ls_tcp_link_new(fds[i], &ends[i]));
}
