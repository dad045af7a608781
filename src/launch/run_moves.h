/* The places of lockstep run's workers: TF_CONFIG's cluster, the file of LOCKSTEP_ADDRESSES, and hosts that come later
 * or take ranks over. */
#pragma once
#include "launch/run_hosts.h"

/* A name by which only this machine finds itself. */
bool ls_moves_is_loopback(const char *name);
/* Gives each host that has answered an address, and notes where its ranks are. */
void ls_moves_address(struct ls_run_hosts *hosts);
/* Writes launch->cluster; false without memory. */
bool ls_moves_cluster(struct ls_run_hosts *hosts);
/* Tells all agents where all ranks are. */
void ls_moves_tell(struct ls_run_hosts *hosts);
/* The number of processes that may start on a named host: its slots without those of processes that run. */
int ls_moves_free(const struct ls_run_hosts *hosts, const ls_tools_slots *named, const struct ls_worker *workers);
/* Starts an agent on a host for count ranks that have ended, or were never started; ls_hosts_start then makes a rank
 * wait for it. NULL without memory or room. */
struct ls_host *ls_moves_place(struct ls_run_hosts *hosts, const ls_tools_slots *named, const int *ranks, int count,
                               const struct ls_worker *workers);
