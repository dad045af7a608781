/* Links over TCP. Socket buffers are left to the kernel's autotuning, which measured as fast as any fixed size; cubic
 * where the kernel has it, since bbr, the default of some, is slower inside a rack. */
#include "collective/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "collective/socket.h"

static const struct ls_link_ops tcp_ops = {
    .name = "tcp",
    .send = ls_socket_send,
    .receive = ls_socket_receive,
    .fd = ls_socket_fd,
    .close = ls_socket_close,
};

ls_status ls_tcp_link_new(int fd, struct ls_link **link) {
    ls_status status = ls_socket_link_new(&tcp_ops, fd, link);
    if (status) return status;
    static const char cubic[] = "cubic";
    int on = 1; /* both only make it faster: a socket that has neither still works */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cubic, sizeof(cubic) - 1);
    return LS_OK;
}
