/* The listener owns the task's one port. It accepts connections, tells their kind by their first bytes and hands them
 * on. A control connection stays a stranger until its Hello is accepted. The number of strangers and the time of each
 * are limited (docs/security.md, "Strangers"). */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/net/preface.h"
#include "cluster/net/refusals.h"
#include "cluster/net/relay.h"

struct ls_listener;
/* The listener's thread makes all calls. Each takes fd, which with TLS is the inner end of the relay. */
struct ls_listener_config {
    const int *listening; /* [listening_count]; taken, also on failure */
    int listening_count;
    struct ls_refusals *refusals; /* borrowed, as the relay */
    struct ls_relay *relay;
    const struct ls_tls_identity *identity; /* NULL: without TLS; else borrowed */
    size_t hello_most;                      /* bytes that a control connection may say until it is trusted */
    void *context;
    /* control, data and probe NULL, all: only a rendezvous takes place here */
    void (*control)(void *context, int fd);                                /* HTTP/2, through the relay */
    bool (*data)(void *context, int fd, const struct ls_preface *preface); /* the preface was read; a worker's? */
    void (*probe)(void *context, int fd);                                  /* the request was read */
    void (*meet)(void *context, int fd); /* an ask is to be read; NULL: this worker hands out no addresses */
    void (*differed)(void *context);     /* a caller has heard that only one of the two sides has TLS, and has closed */
};
ls_status ls_listener_new(const struct ls_listener_config *config, struct ls_listener **listener);
/* The control connection that was handed on as fd is a worker's. From any thread; does not wait. */
void ls_listener_trust(struct ls_listener *listener, int fd);
/* Closes the port and every connection that was not handed on. */
void ls_listener_free(struct ls_listener *listener);
