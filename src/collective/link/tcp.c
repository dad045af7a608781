/* A link over a connected stream socket: never blocks, never raises SIGPIPE. Socket buffers are left to the kernel's
 * autotuning, which measured as fast as any fixed size. */
#include "collective/link/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/new.h"

struct tcp_link {
    struct ls_link link; /* first: the handle is a pointer to it */
    int fd, low_water;   /* SO_RCVLOWAT */
};

static int fd_of(const struct ls_link *link) {
    return ((const struct tcp_link *)link)->fd;
}

static bool would_block(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

static ssize_t tcp_send(struct ls_link *link, const struct iovec *pieces, int count) {
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = (size_t)count};
    ssize_t sent;
    do sent = sendmsg(fd_of(link), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && would_block() ? 0 : sent;
}

static ssize_t tcp_receive(struct ls_link *link, void *data, size_t size) {
    ssize_t received;
    do received = recv(fd_of(link), data, size, MSG_DONTWAIT);
    while (received < 0 && errno == EINTR);
    if (received < 0 && would_block()) return 0;
    if (received) return received;
    errno = ECONNRESET; /* end of stream: the peer closed its end */
    return -1;
}

static bool tcp_poll(struct ls_link *link, short events, struct pollfd *slot) {
    *slot = (struct pollfd){.fd = fd_of(link), .events = events};
    return true;
}

static void tcp_wake_at(struct ls_link *link, size_t bytes) {
    struct tcp_link *tcp = (struct tcp_link *)link;
    int low_water = (int)bytes;
    if (low_water == tcp->low_water) return;
    tcp->low_water = low_water;
    (void)setsockopt(tcp->fd, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof(low_water));
}

static void tcp_close(struct ls_link *link) {
    (void)close(fd_of(link));
    ls_free(link);
}

static const struct ls_link_ops tcp_ops = {
    .name = "tcp",
    .send = tcp_send,
    .receive = tcp_receive,
    .poll = tcp_poll,
    .wake_at = tcp_wake_at,
    .close = tcp_close,
};

ls_status ls_tcp_link_new(int fd, struct ls_link **link) {
    int flags = fcntl(fd, F_GETFL), on = 1;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return ls_fail(LS_INTERNAL, "cannot make descriptor %d a link: %s", fd, strerror(errno));
    LS_NEW(struct tcp_link, made, "a link");
    *made = (struct tcp_link){.link = {&tcp_ops}, .fd = fd, .low_water = 1};
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only makes it faster */
    *link = &made->link;
    return LS_OK;
}
