/* Links between two processes of one host: a ring of bytes each way, in memory that both map, and a connected socket. A
 * byte over the socket wakes who sleeps, and its end tells that the other process has gone; what that one has written
 * is read before. A link takes 128 KiB of memory, and no system call where neither end sleeps. */
#pragma once
#include "collective/link/transport.h"

#define LS_SHM_LINK_ADDRESS 32 /* bytes by which the other process finds the memory */

struct ls_shm_link;
/* Makes the memory, or opens that of the other process. NULL: there is none, and the socket has to do. */
struct ls_shm_link *ls_shm_link_offer(unsigned char address[LS_SHM_LINK_ADDRESS]);
struct ls_shm_link *ls_shm_link_accept(const unsigned char address[LS_SHM_LINK_ADDRESS]);
/* One that is not connected. NULL: nothing. */
void ls_shm_link_free(struct ls_shm_link *shm);
/* Both processes have the memory. Takes socket, a link over a socket, and shm. Nobody else can open the memory then. */
struct ls_link *ls_shm_link_connect(struct ls_shm_link *shm, struct ls_link *socket);
