/* Links over TCP. */
#pragma once
#include "collective/link/transport.h"

/* Takes a connected stream socket (on success; on failure it stays the caller's): sets it non-blocking, no delay. */
ls_status ls_tcp_link_new(int fd, struct ls_link **link);
