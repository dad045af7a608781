/* The sockets of this task: the addresses to listen on, and the options that every connection gets. */
#pragma once
#include <lockstep/lockstep.h>

#include "base/log.h"
#include "resolver/cluster_view.h"

#define LS_MAX_LISTEN   4
#define LS_ADDRESS_TEXT 64

/* Sets the options of a connection: no delay, cubic as congestion control, and half a minute until a host that vanished
 * without a FIN is given up. */
void ls_address_tune(int fd);
/* True for a socket that is connected to itself. */
bool ls_address_is_own_end(int fd);
/* True where both ends of a connection have one address, or loopback ones. */
bool ls_address_is_within_host(int fd);
/* Writes the address of this end or of the other one, "10.0.0.9:4711", or "somebody" if the system does not know it any
 * more. */
void ls_address_describe(int fd, bool own, char text[LS_ADDRESS_TEXT]);
/* A socket that keeps the port from others, and does not listen; -1: it is taken. */
int ls_address_hold(int port);
/* Opens the listening sockets of a task, non-blocking: on its own address where that is local and fits the
 * cluster, else on all interfaces, saying why. FAILED_PRECONDITION naming the port when it is in use. */
ls_status ls_address_listen(const struct ls_cluster_view *config, const struct ls_task *task, const struct ls_log *log,
                            int fds[LS_MAX_LISTEN], int *count);
void ls_address_close(const int *fds, int count);
