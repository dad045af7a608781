/* A link over a connected stream socket of any family: never blocks, never raises SIGPIPE. */
#include "collective/link/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/new.h"

struct socket_link {
    struct ls_link link; /* first: the handle is a pointer to it */
    int fd, low_water;   /* SO_RCVLOWAT */
};

static int fd_of(const struct ls_link *link) {
    return ((const struct socket_link *)link)->fd;
}

static bool would_block(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

ssize_t ls_socket_send(struct ls_link *link, const struct iovec *pieces, int count) {
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = (size_t)count};
    ssize_t sent;
    do sent = sendmsg(fd_of(link), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && would_block() ? 0 : sent;
}

ssize_t ls_socket_receive(struct ls_link *link, void *data, size_t size) {
    ssize_t received;
    do received = recv(fd_of(link), data, size, MSG_DONTWAIT);
    while (received < 0 && errno == EINTR);
    if (received < 0 && would_block()) return 0;
    if (received) return received;
    errno = ECONNRESET; /* end of stream: the peer closed its end */
    return -1;
}

bool ls_socket_poll(struct ls_link *link, short events, struct pollfd *slot) {
    *slot = (struct pollfd){.fd = fd_of(link), .events = events};
    return true;
}

void ls_socket_wake_at(struct ls_link *link, size_t bytes) {
    struct socket_link *socket = (struct socket_link *)link;
    int low_water = (int)bytes;
    if (low_water == socket->low_water) return;
    socket->low_water = low_water;
    (void)setsockopt(socket->fd, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof(low_water));
}

void ls_socket_close(struct ls_link *link) {
    (void)close(fd_of(link));
    ls_free(link);
}

ls_status ls_socket_link_new(const struct ls_link_ops *ops, int fd, struct ls_link **link) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return ls_fail(LS_INTERNAL, "cannot make descriptor %d a link: %s", fd, strerror(errno));
    LS_NEW(struct socket_link, made, "a link");
    *made = (struct socket_link){.link = {ops}, .fd = fd, .low_water = 1};
    *link = &made->link;
    return LS_OK;
}
