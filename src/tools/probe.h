/* Asking a worker from outside who it is and how it does, over the one port, without being part of anything: the 8
 * bytes "LSPROBE\n" are answered with lines "field=value" of which the first is "lockstep=1" and the last "end=1", and
 * the connection closes. cluster/probe_server.c is the worker's side, probe.c the asking one. */
#pragma once
#include "cluster/net/dial.h"
#include "resolver/cluster_view.h"

enum ls_probe_state {
    LS_PROBE_UNDER_WAY,
    LS_PROBE_UNREACHABLE, /* why has the reason, also for the next two */
    LS_PROBE_SILENT,      /* connected, but no answer in time */
    LS_PROBE_FOREIGN,     /* what answers is no Lockstep worker, or one that does not know probes */
    LS_PROBE_ANSWERED
};
struct ls_probe {
    const struct ls_task *task; /* borrowed */
    enum ls_probe_state state;
    char why[256];
    char *answer;       /* a text once state is ANSWERED */
    int64_t round_trip; /* nanoseconds from asking to the answer's first byte */
    size_t size, capacity;
    struct ls_dial dial;
    int fd;
    int64_t asked;
};
/* Asks all tasks at once; probes[count] with task set and all else zero. Returns when all have ended, after seconds at
 * the latest. */
ls_status ls_probe_all(struct ls_probe *probes, int count, double seconds);
void ls_probe_free(struct ls_probe *probe);
/* A field of an answer: the text, "" if it lacks the field; the number, 0 likewise. */
const char *ls_probe_text(const struct ls_probe *probe, const char *field, char *text, size_t size);
int64_t ls_probe_number(const struct ls_probe *probe, const char *field);
/* The lines "cluster.*" of an answer, which are its last before "end=1". Caller frees; NULL without memory. */
char *ls_probe_cluster(const struct ls_probe *probe);
/* Of a canonical cluster: the first 12 hex digits of its SHA-256. */
void ls_probe_digest(const char *cluster, char digest[13]);

/* From the tasks of a cluster: one probe for each that trains, by rank, then one for each parameter server. Caller
 * frees with ls_probes_free. */
int ls_probes_count(const struct ls_cluster_view *config);
ls_status ls_probes_new(const struct ls_cluster_view *config, struct ls_probe **probes);
void ls_probes_free(struct ls_probe *probes, int count);
