/* Sockets of this task: which address to listen on, and options that every connection gets. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "cluster/tf_config.h"

#define LS_MAX_LISTEN   4
#define LS_ADDRESS_TEXT 64

/* No delay, cubic as congestion control, and probes that find a host that vanished without a word within half a minute.
 */
void ls_socket_tune(int fd);
/* A connect to a free local port can meet itself; such a socket is nobody. */
bool ls_socket_is_own_end(int fd);
/* Who is at the other end, as "10.0.0.9:4711"; "somebody" where the system does not know any more. */
void ls_socket_describe(int fd, char text[LS_ADDRESS_TEXT]);
/* Likewise this end's. */
void ls_socket_describe_own(int fd, char text[LS_ADDRESS_TEXT]);
/* True for "localhost" and loopback numbers; a name that would have to be looked up counts as another host. */
bool ls_socket_is_loopback(const char *host);
/* Opens the listening sockets of rank's task, non-blocking: on its own address where that is local and fits the
 * cluster, else on all interfaces, saying why. FAILED_PRECONDITION naming the port when it is in use. */
ls_status ls_socket_listen(const struct ls_tf_config *config, int rank, const struct ls_log *log,
                           int fds[LS_MAX_LISTEN], int *count);
