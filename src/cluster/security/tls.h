/* TLS 1.3 over a connected socket, through libssl. No function waits. Both ends show a certificate, and each checks the
 * other's (ls_certificate_verify) after the handshake, before a byte of its user goes or comes. The end that was
 * dialled then sends its verdict, so that a refused caller learns the reason (docs/security.md, "TLS"). */
#pragma once
#include <lockstep/lockstep.h>
#include <sys/types.h>

struct ls_tls_identity;
/* Texts in PEM, of which only authority is needed after the call, and borrowed. certificate, key NULL, both: none is
 * shown. INVALID_ARGUMENT where libssl refuses them. */
ls_status ls_tls_identity_new(const char *certificate, const char *key, const char *authority,
                              struct ls_tls_identity **identity);
void ls_tls_identity_free(struct ls_tls_identity *identity);

enum ls_tls_state {
    LS_TLS_READS,     /* goes on when the socket can be read, ... */
    LS_TLS_WRITES,    /* ... written */
    LS_TLS_OPEN,      /* both have agreed */
    LS_TLS_GONE,      /* the other end has closed the connection */
    LS_TLS_FAILED,    /* the other end's bytes are no TLS that this end could use */
    LS_TLS_UNTRUSTED, /* this end refuses the other's certificate, and has said so */
    LS_TLS_REFUSED    /* the other end refuses this one's certificate */
};
struct ls_tls;
/* One connection; fd is borrowed. name: the DNS name that the dialled end must have, "" for any of the authority; NULL:
 * this end was dialled, and any of the authority will do. NULL: no memory. */
struct ls_tls *ls_tls_new(const struct ls_tls_identity *identity, int fd, const char *name);
/* Goes on towards OPEN, as far as that needs no waiting. */
enum ls_tls_state ls_tls_open(struct ls_tls *tls);
/* Returns the reason why it is not open, after UNTRUSTED and REFUSED in words that go on from "the certificate". */
const char *ls_tls_why(const struct ls_tls *tls);
/* True when the other end began with this text. Only its first 5 bytes are compared: libssl reads one record's header
 * and stops if that is no TLS. */
bool ls_tls_began_with(const struct ls_tls *tls, const char *text);
/* Receive and send on an open one, as recv and send do: -1 with EAGAIN where they would wait, or the socket's error, 0
 * at the end. The bytes that send has refused with EAGAIN must be sent again before any others, because libssl may have
 * encrypted them already. One thread at a time. */
ssize_t ls_tls_receive(struct ls_tls *tls, void *data, size_t size);
ssize_t ls_tls_send(struct ls_tls *tls, const void *data, size_t size);
/* The other end's certificate and its chain, in PEM; the caller frees. NULL: it has shown none. */
char *ls_tls_certificate(const struct ls_tls *tls);
/* Says goodbye to the other end. Not the socket. */
void ls_tls_free(struct ls_tls *tls);
