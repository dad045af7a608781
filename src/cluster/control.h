/* All that arrives on control streams. */
#pragma once
#include "cluster/cluster_private.h"
#include "cluster/stream.h"

/* Callbacks, with the monitor held. */
void ls_control_message(void *context, struct ls_control_stream *stream, const void *data, size_t size);
void ls_control_closed(void *context, struct ls_control_stream *stream);
