/* One connection being made to one task: name, addresses in turn, back-off, without ever waiting. Used by one thread,
 * which calls ls_dial_step when ls_dial_poll's descriptor is ready or its time has come. */
#pragma once
#include <lockstep/lockstep.h>
#include <poll.h>

struct ls_resolve;
struct addrinfo;
struct ls_dial {
    struct ls_resolve *resolve;  /* under way, or whose addresses are being tried */
    const struct addrinfo *next; /* address to try after the present one */
    int fd;                      /* connecting; -1 when not */
    int64_t deadline, retry_at;  /* of the present connect; of the next round */
    int64_t pause;               /* before the next round: 10 ms, doubling up to 1 s */
    char why[192];               /* why the last round failed, in words; "" before */
};
void ls_dial_init(struct ls_dial *dial);
/* Goes on as far as it can. Returns a connected socket, which the caller takes, or -1: not yet. */
int ls_dial_step(struct ls_dial *dial, const char *host, int port);
/* The connection was made but led to nothing: why, and a pause before the next round. */
void ls_dial_fail(struct ls_dial *dial, const char *why);
/* Starts anew without a pause. */
void ls_dial_reset(struct ls_dial *dial);
/* What to wait for: fills *slot (fd -1: nothing) and returns until when. */
int64_t ls_dial_poll(const struct ls_dial *dial, struct pollfd *slot);
