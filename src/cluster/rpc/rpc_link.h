/* A data link carries bytes between two workers over gRPC. The dialling side shows its preface in the call's initial
 * metadata; the other side answers with metadata of its own, or cancels.
 *
 * The sender copies bytes into an outbox. One message is on its way at a time; when it is out, all that has gathered in
 * the outbox becomes the next one, up to 512 KiB. Send takes no more while the outbox is full. The receiver asks gRPC
 * for the next message only while its inbox has room, for 64 messages or 4 MiB. While it does not ask, gRPC does not
 * enlarge the window of the HTTP/2 stream (RFC 9113, section 5.2), so the sender's message stays under way, its outbox
 * fills, and its user waits. */
#pragma once
#include "cluster/rpc/rpc.h"
#include "cluster/rpc/rpc_private.h"

/* Takes fd, a connection to a worker, also on failure, and opens a data link on it that shows the preface. Send and
 * receive are for when it is open, and never with the monitor held. It may be closed after ls_rpc_free too. */
ls_status ls_rpc_link_open(struct ls_rpc *rpc, int fd, const char *target, const void *preface, size_t size,
                           struct ls_link **link);
/* Takes call, which has just arrived with this metadata. With nothing held. */
void ls_rpc_link_accept(struct ls_rpc *rpc, grpc_call *call, const grpc_metadata_array *metadata);
/* With the monitor held. */
void ls_rpc_links_cancel(struct ls_rpc *rpc);

enum ls_rpc_link_state { LS_RPC_LINK_OPENING, LS_RPC_LINK_OPEN, LS_RPC_LINK_CLOSED };
enum ls_rpc_link_state ls_rpc_link_state(struct ls_link *link);
