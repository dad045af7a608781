/* Links over TCP. Socket buffers are left to the kernel's autotuning, which measured as fast as any fixed size. */
#include "collective/link/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static const struct ls_link_ops tcp_ops = {
    .name = "tcp",
    .send = ls_socket_send,
    .receive = ls_socket_receive,
    .poll = ls_socket_poll,
    .wake_at = ls_socket_wake_at,
    .close = ls_socket_close,
};

ls_status ls_tcp_link_new(int fd, struct ls_link **link) {
    ls_status status = ls_socket_link_new(&tcp_ops, fd, link);
    if (status) return status;
    int on = 1; /* only makes it faster: a socket that has it not still works */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return LS_OK;
}
