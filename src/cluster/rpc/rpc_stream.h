/* A control stream carries messages of the protocol to one worker, in order (docs/protocol.md, "Messages"). */
#pragma once
#include "cluster/rpc/rpc.h"
#include "cluster/rpc/rpc_private.h"

/* Takes fd, a connection to a worker, also on failure, and opens a stream on it; target: what gRPC calls it. */
ls_status ls_rpc_stream_open(struct ls_rpc *rpc, int fd, const char *target, struct ls_rpc_stream **stream);
/* Copies and queues a message; order is kept. Does not wait. */
ls_status ls_rpc_stream_send(struct ls_rpc_stream *stream, const void *data, size_t size);
/* True when gRPC has taken all messages that were sent on it. */
bool ls_rpc_stream_is_idle(const struct ls_rpc_stream *stream);
/* Seconds since the other side's kernel last answered on a stream that this side has opened; -1: not known. */
double ls_rpc_stream_unanswered(const struct ls_rpc_stream *stream);
/* No more messages from this side: an outgoing stream closes once the other side has read them all; an incoming one
 * waits for the other side to close. closed() follows in both cases. */
void ls_rpc_stream_finish(struct ls_rpc_stream *stream);
/* Cancels; no further callback, the stream must not be used again. */
void ls_rpc_stream_drop(struct ls_rpc_stream *stream);
/* Streams that were finished and have not closed yet. */
int ls_rpc_streams_finishing(const struct ls_rpc *rpc);
/* True when an outgoing stream has ended because the kernel of the other side's host closed its connection (FIN or
 * RST), as it does when the process there ends. A stream that the process reset, or that timed out, does not count. The
 * survivor may then use that process' vote (docs/protocol.md, "Who may form a generation"). */
bool ls_rpc_stream_closed_by_kernel(const struct ls_rpc_stream *stream);
/* Writes the reason of an outgoing stream's end, in gRPC's words. */
void ls_rpc_stream_reason(const struct ls_rpc_stream *stream, char *text, size_t size);
/* A pointer of the caller's, NULL at first. A stream without one is a stranger's, and is closed after silence_timeout.
 */
void ls_rpc_stream_set_user(struct ls_rpc_stream *stream, void *user);
void *ls_rpc_stream_user(const struct ls_rpc_stream *stream);
/* Takes memory, which is freed with the stream, and gives it back; NULL at first. */
void ls_rpc_stream_attach(struct ls_rpc_stream *stream, void *memory);
void *ls_rpc_stream_attachment(const struct ls_rpc_stream *stream);
/* Of an incoming stream. */
const struct ls_rpc_caller *ls_rpc_stream_caller(const struct ls_rpc_stream *stream);
bool ls_rpc_stream_incoming(const struct ls_rpc_stream *stream);
/* Takes call, which has just arrived; false when there is no room. */
bool ls_rpc_stream_accept(struct ls_rpc *rpc, grpc_call *call);
void ls_rpc_streams_cancel(struct ls_rpc *rpc);
/* Closes the streams whose deadline has passed. */
void ls_rpc_streams_sweep(struct ls_rpc *rpc);
