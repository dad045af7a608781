/* All that arrives on control streams. */
#pragma once
#include "cluster/cluster_private.h"
#include "cluster/rpc/rpc_stream.h"

/* Callbacks, with the monitor held. */
void ls_control_message(void *context, struct ls_rpc_stream *stream, const void *data, size_t size);
void ls_control_closed(void *context, struct ls_rpc_stream *stream);
