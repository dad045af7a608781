/* A relay stands between a connection and its user. It moves bytes between the socket of the network, the outer end,
 * and one half of a pair of local sockets, the inner end, which its user reads and writes as if it were the connection.
 * It does so for two reasons. TLS ends in the relay, so gRPC and the collectives see the bytes in the clear and need no
 * TLS of their own. And the relay counts a stranger's frames of HTTP/2 (http2_frames.h), so gRPC receives no more from
 * a stranger than a Hello takes (docs/security.md, "TLS" and "Strangers"). */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/security/tls.h"
#include "cluster/net/refusals.h"
#include "cluster/net/address.h"

struct ls_relay;
/* refusals: borrowed. */
ls_status ls_relay_new(struct ls_refusals *refusals, struct ls_relay **relay);
/* Takes fd, a connected socket, and tls, which is open (NULL: none), and returns the inner end, which the caller takes;
 * -1: there are no descriptors or no memory left, and both stay the caller's. most: bytes of HTTP/2 that may come
 * before it is trusted (http2_frames.h); 0: it is trusted. This and all functions below may be called from any thread.
 */
int ls_relay_add(struct ls_relay *relay, int fd, struct ls_tls *tls, size_t most);
/* A worker is behind the inner end with this number. */
void ls_relay_trust(struct ls_relay *relay, int inner);
/* Writes this side's address or the other's, "10.0.0.9:4711", or "somebody" if the relay has no connection of this
 * number. */
void ls_relay_describe(struct ls_relay *relay, int inner, bool own, char text[LS_ADDRESS_TEXT]);
/* Returns the other side's certificate and its chain, in PEM; the caller frees. NULL: none. */
char *ls_relay_certificate(struct ls_relay *relay, int inner);
/* Sends the bytes that were written to inner ends, for LS_LAST_WORD_TIMEOUT at most, and closes all connections. */
void ls_relay_free(struct ls_relay *relay);
