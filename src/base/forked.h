/* Sockets that a child of fork closes: other workers learn of this process's end when its sockets are closed, and a
 * child such as a worker of torch's DataLoader would keep them open. */
#pragma once

/* A child of fork closes this socket. Closing it first needs no call: a child knows a socket by its inode. Any
 * thread. */
void ls_forked_closes(int fd);
/* Differs between a process and its child: what both have is the parent's alone. The first call comes before the fork.
 */
unsigned ls_forked_times(void);
