/* Somebody who speaks the protocol by hand, over gRPC, to a worker that runs. */
#pragma once
#include "base/monitor.h"
#include "cluster/message.h"
#include "cluster/net/relay.h"
#include "cluster/rpc/rpc.h"

struct stranger {
    struct ls_monitor monitor;
    struct ls_refusals refusals;
    struct ls_relay *relay;           /* with TLS */
    struct ls_tls_identity *identity; /* NULL without TLS */
    struct ls_rpc *rpc;
    /* of the last reply; verdict 0: the stream ended without one */
    bool answered;
    enum ls_verdict verdict;
    ls_status code;
    char text[1024];
    int ended; /* streams */
};

/* identity is taken; NULL for none, without TLS. */
void stranger_start(struct stranger *stranger, struct ls_tls_identity *identity);
void stranger_stop(struct stranger *stranger);
/* A connection to the port of 127.0.0.1, as soon as somebody listens there. */
int stranger_dial(int port);
/* Likewise, and with TLS to who has a certificate for the name; -1: it was refused, and why is in text. */
int stranger_dial_tls(struct stranger *stranger, int port, const char *name);
/* Sends a message on a stream and waits for the reply or the end. With the monitor held. */
void stranger_say(struct stranger *stranger, struct ls_rpc_stream *stream, const void *data, size_t size);
/* Seconds until a stream ends that has not ended yet; -1 after limit seconds. Without the monitor. */
double stranger_wait_end(struct stranger *stranger, double limit);
/* Dials the port for a data link, shows the bytes, and must be refused. */
void stranger_is_refused(struct stranger *stranger, int port, const char *target, const void *preface, size_t size);
