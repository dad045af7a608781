/* A parameter server's part: it makes the calls that the workers make. */
#pragma once
#include "collective/group.h"
#include "collective/run/frame.h"

/* Says whether the server is to go on; any other status than LS_OK ends it, and is returned. */
typedef ls_status ls_serve_watch_fn(void *context);
/* Makes a call that has to do with arrays that the server keeps, and so no all-reduce of the workers. */
struct ls_keeping {
    ls_status (*call)(void *context, struct ls_group *group, const struct ls_frame *frame);
    void *context;
};
/* Serves in a group of workers and servers, of which this rank is a server, until a call fails or watch says so. Asks
 * watch about ten times a second between calls. UNAVAILABLE: a connection broke. */
ls_status ls_group_serve(struct ls_group *group, ls_serve_watch_fn *watch, void *context,
                         const struct ls_keeping *keeping);
