/* Takes the connections that wait at the listening sockets of a poll() loop. poll() reports such a socket for as long
 * as somebody waits there. So the sockets are left out of it for a while where accept4 fails for want of descriptors or
 * memory, and where connections come one by one without end. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/clock.h"

/* poll() reports unread bytes for ever. A stranger that has sent a part is looked at again after so long. */
#define LS_LOOK_AGAIN       (10 * LS_MILLISECOND)
#define LS_LOOK_AGAIN_CROWD (100 * LS_MILLISECOND)

struct ls_accept {      /* begins as zeros */
    int64_t at, window; /* left out until at; the turns of a window are counted until its end */
    int turns, taken;   /* taken: in this turn */
};
/* Returns true if the sockets belong into the next poll(). Otherwise *until is when they do, if that is sooner. */
bool ls_accept_is_open(const struct ls_accept *accept, int64_t now, int64_t *until);
/* A connection, non-blocking, which a child of fork closes; address: of its other end, or NULL. -1 ends the turn:
 * nobody waits, or it is time to look at those that have come. */
int ls_accept_next(struct ls_accept *accept, int listening, struct sockaddr_storage *address);
/* The one of both for one of so many strangers. */
int64_t ls_accept_look_again(int count);
/* Before or after a turn with so many strangers: those of a crowd last some milliseconds, so a flood costs few. */
void ls_accept_rest(int count);
/* So many connections of strangers may be here: `most`, or what a quarter of the process' descriptors is enough for. */
int ls_accept_most(int most, int descriptors_each);
