/* A dial makes one connection to one task, and never waits. One thread uses it: it calls ls_dial_step when the
 * descriptor of ls_dial_poll is ready or its time has come. */
#pragma once
#include <lockstep/lockstep.h>
#include <poll.h>

#include "cluster/net/relay.h"
#include "cluster/security/certificate.h"
#include "resolver/cluster_view.h"

struct ls_name_lookup;
struct addrinfo;
enum ls_dial_verdict {
    LS_DIAL_UNKNOWN,
    LS_DIAL_WITHOUT_TLS, /* a worker without TLS is there */
    LS_DIAL_UNTRUSTED,   /* its certificate is refused here, ... */
    LS_DIAL_REFUSED      /* ... or this worker's there: why has words that go on from "the certificate" */
};
struct ls_dial {
    struct ls_name_lookup *resolve;         /* of the present round: under way, or the owner of its addresses */
    const struct addrinfo *next;            /* address to try after the present one */
    int fd;                                 /* connecting; -1 when not */
    int64_t deadline, retry_at;             /* of the present connect; of the next round */
    int64_t pause;                          /* before the next round: 10 ms, doubling up to 1 s */
    char why[256];                          /* the last round's failure, in words; "" before */
    bool absent;                            /* it was that the host says that nobody listens there */
    const struct ls_tls_identity *identity; /* NULL: without TLS; else borrowed, as the relay */
    struct ls_relay *relay;
    char name[LS_CERTIFICATE_NAME]; /* that the other end's certificate must have; empty: any */
    struct ls_tls *tls;             /* of fd, which is connected; NULL: it is not */
    bool writes;                    /* it waits for room to write */
    enum ls_dial_verdict verdict;   /* of the last round */
};
/* With an identity all connections have TLS: ls_dial_step then returns the inner end of a relay. task: whose
 * certificate the other end must have; NULL: anybody's. */
void ls_dial_init(struct ls_dial *dial, const struct ls_tls_identity *identity, struct ls_relay *relay,
                  const struct ls_task *task);
/* Goes on as far as it can. Returns a connected socket, which the caller takes, or -1: not yet. */
int ls_dial_step(struct ls_dial *dial, const char *host, int port);
/* The connection that ls_dial_step made has failed. Keeps why, and pauses before the next round. */
void ls_dial_fail(struct ls_dial *dial, const char *why);
/* Ends the pause before the next round. */
void ls_dial_hurry(struct ls_dial *dial);
/* Starts anew without a pause. */
void ls_dial_reset(struct ls_dial *dial);
/* Fills *slot with the descriptor to wait for (fd -1: none). Returns the time to wait until. */
int64_t ls_dial_poll(const struct ls_dial *dial, struct pollfd *slot);
