/* Pull: from arrays that parameter servers keep. A call in a group of workers and servers, as push.h. */
#pragma once
#include "collective/group.h"

/* Ranges of servers, to the workers. */
struct ls_pulled {
    const struct ls_stripe *owned; /* [servers] bytes of the array */
    const unsigned char *from;     /* a server: its range */
};
struct ls_pull {
    const char *name;
    const struct ls_pulled *parts; /* [count] in the order in which they go */
    size_t count;
    int to;               /* the worker that gets them; -1: all */
    unsigned char *array; /* a worker */
};
ls_status ls_group_pull(struct ls_group *group, const struct ls_pull *pull);
