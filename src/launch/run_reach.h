/* Reaches the hosts: starts the agents, most through a remote shell, and waits until each has said who it is. */
#pragma once
#include "launch/run_hosts.h"

/* All at once. False after a line on standard error for each host that cannot be had. */
bool ls_reach(struct ls_run_hosts *hosts);
/* Starts the agent of one host, which asks for the ports that the host had. */
void ls_reach_start(struct ls_run_hosts *hosts, struct ls_host *host);
/* Takes what has come from it: the host is ready then, or has a why. */
void ls_reach_answer(struct ls_run_hosts *hosts, struct ls_host *host);
/* Takes a whole line, without its end, that the shell or the agent has written for people; NULL if there is none. It
 * lives until the next call. */
char *ls_reach_line(struct ls_host *host);
