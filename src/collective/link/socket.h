/* Links over stream sockets, shared by tcp.c and local.c. */
#pragma once
#include "collective/link/transport.h"

ssize_t ls_socket_send(struct ls_link *link, const struct iovec *pieces, int count);
ssize_t ls_socket_receive(struct ls_link *link, void *data, size_t size);
bool ls_socket_poll(struct ls_link *link, short events, struct pollfd *slot);
void ls_socket_wake_at(struct ls_link *link, size_t bytes);
void ls_socket_close(struct ls_link *link);
/* Makes a link of fd with the given table, whose slots are the functions above. Takes fd on success. */
ls_status ls_socket_link_new(const struct ls_link_ops *ops, int fd, struct ls_link **link);

/* Links over TCP. */

/* Takes a connected stream socket (on success; on failure it stays the caller's): sets it non-blocking, no delay.
 */
ls_status ls_tcp_link_new(int fd, struct ls_link **link);

/* Links between ranks that are threads of one process. */

/* Two ends of one in-process link, for ranks that are threads of one process. */
ls_status ls_local_link_pair(struct ls_link *ends[2]);
