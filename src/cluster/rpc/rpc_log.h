/* The lines that gRPC logs by itself. */
#pragma once
#include "cluster/rpc/rpc_private.h"

/* gRPC's own lines do not reach stderr as they are. */
void ls_rpc_log_take(void);
