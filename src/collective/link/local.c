/* Links between ranks that are threads of one process: a pair of connected Unix sockets, so that a wait is the same
 * poll() as between hosts. */
#include "collective/link/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"

static const struct ls_link_ops local_ops = {
    .name = "local",
    .send = ls_socket_send,
    .receive = ls_socket_receive,
    .poll = ls_socket_poll,
    .close = ls_socket_close,
};

ls_status ls_local_link_pair(struct ls_link *ends[2]) {
    int fds[2];
    struct ls_link *first = NULL, *second = NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
        return ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make a pair of sockets: %s", strerror(errno));
    ls_status status = ls_socket_link_new(&local_ops, fds[0], &first);
    if (!status) status = ls_socket_link_new(&local_ops, fds[1], &second);
    if (!status) {
        ends[0] = first;
        ends[1] = second;
        return LS_OK;
    }
    if (first)
        first->ops->close(first);
    else
        (void)close(fds[0]);
    (void)close(fds[1]);
    return status;
}
