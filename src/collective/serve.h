/* A parameter server's part: it makes the calls that the workers make. */
#pragma once
#include "collective/group.h"

/* Says whether the server is to go on; any other status than LS_OK ends it, and is returned. */
typedef ls_status ls_serve_watch_fn(void *context);
/* Serves in a group of workers and servers, of which this rank is a server, until a call fails or watch says so. Asks
 * watch about ten times a second between calls. UNAVAILABLE: a connection broke. */
ls_status ls_group_serve(struct ls_group *group, ls_serve_watch_fn *watch, void *context);
