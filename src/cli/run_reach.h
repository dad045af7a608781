/* Reaches the hosts: starts the remote shells, and waits until each agent has said who it is. */
#pragma once
#include "cli/run_hosts.h"

/* All at once. False after a line on standard error for each host that cannot be had. */
bool ls_reach(struct ls_run_hosts *hosts);
/* Takes a whole line, without its end, that the shell or the agent has written for people; NULL if there is none. It
 * lives until the next call. */
char *ls_reach_line(struct ls_host *host);
