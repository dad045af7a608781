/* The script of --host-discovery-script: which hosts there are now. It is run each second, and never waited for once
 * the run has begun. */
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

#include <lockstep/tools.h>

#include "launch/run_worker.h"

#define LS_RUN_DISCOVER 1.0 /* seconds from one end of the script to its next start */

struct ls_discovery {
    const char *script;
    double limit; /* seconds that the script may take */
    const struct ls_launch *launch;
    pid_t pid; /* of the script, also its process group; 0: it does not run */
    int out;
    double end, next; /* of the running one, it is killed; of the next one */
    char *text;       /* [used] what it has printed */
    size_t used;
    ls_tools_slots *hosts; /* [count] the last list; freed with ls_memory_free */
    int count;
    char why[700]; /* why the last one has failed; empty: it has not */
};
enum ls_discovered { LS_DISCOVERED_NOTHING, LS_DISCOVERED_HOSTS, LS_DISCOVERED_FAILURE };

void ls_discover_fill(const struct ls_discovery *discover, struct pollfd *polled);
/* The time at which ls_discover_step has something to do, whatever comes. */
double ls_discover_next_at(const struct ls_discovery *discover);
/* Starts the script where it is time, and reads what it prints, without waiting. A failure leaves the list. */
enum ls_discovered ls_discover_step(struct ls_discovery *discover);
int ls_discover_slots(const struct ls_discovery *discover);
void ls_discover_end(struct ls_discovery *discover);
