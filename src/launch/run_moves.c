/* All workers get one TF_CONFIG for as long as the run lives. If they may move, its rows of those that are not started
 * yet lead nowhere, and a file on each host says where all are. An agent is never given more ranks: a host that
 * takes some over gets one more agent, as a row of its own in the table of hosts. */
#define _GNU_SOURCE
#include "launch/run_hosts.h"

#include <stdlib.h>
#include <string.h>

bool ls_moves_is_loopback(const char *name) {
    return !strcmp(name, "localhost") || !strcmp(name, "127.0.0.1") || !strcmp(name, "::1");
}

/* ---- Addresses -------------------------------------------------------------------------------------------------- */

static bool all_are_loopback(const struct ls_run_hosts *hosts) {
    for (int i = 0; i < hosts->count; i++) {
        const struct ls_host *host = &hosts->hosts[i];
        if (!host->retired && !host->here && !ls_moves_is_loopback(host->named.name)) return false;
    }
    return true;
}

static void note_ranks(struct ls_run_hosts *hosts, const struct ls_host *host) {
    bool bare = strchr(host->address, ':') != NULL;
    for (int i = 0; i < host->count; i++) {
        char *address = NULL;
        if (host->ranks[i] < 0 || host->ranks[i] >= hosts->launch->count) continue; /* with --check-hosts */
        if (asprintf(&address, bare ? "[%s]:%d" : "%s:%d", host->address, host->ports[i]) < 0) continue;
        free(hosts->addresses[host->ranks[i]]);
        hosts->addresses[host->ranks[i]] = address;
    }
}

/* The agent's answer to --network-interface; else where ssh has reached the host; else the name as it was given. This
 * machine is where another host has seen ssh come from; else its own name, which the others must know. */
void ls_moves_address(struct ls_run_hosts *hosts) {
    bool alone = all_are_loopback(hosts);
    for (int i = 0; i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        bool own = host->here || ls_moves_is_loopback(host->named.name);
        const char *address = !own ? host->named.name : alone ? "127.0.0.1" : *hosts->own ? hosts->own : host->machine;
        if (!host->ready) continue;
        if (!*host->address) (void)snprintf(host->address, sizeof(host->address), "%s", address);
        note_ranks(hosts, host);
    }
}

bool ls_moves_cluster(struct ls_run_hosts *hosts) {
    struct ls_launch *launch = hosts->launch;
    size_t size = 0;
    int workers = launch->count - launch->servers;
    FILE *out = open_memstream(&launch->cluster, &size);
    if (!out) return false;
    (void)fprintf(out, "{\"worker\":[");
    for (int i = 0; i < launch->count; i++) {
        (void)fputs(i == workers ? "],\"ps\":[" : i ? "," : "", out);
        if (hosts->addresses[i])
            (void)fprintf(out, "\"%s\"", hosts->addresses[i]);
        else
            (void)fprintf(out, "\"worker-%d.invalid:1\"", i);
    }
    (void)fprintf(out, "]}");
    return !fclose(out);
}

void ls_moves_tell(struct ls_run_hosts *hosts) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return;
    for (int i = 0; i < hosts->launch->count; i++)
        if (hosts->addresses[i]) (void)fprintf(out, "%d %s\n", i, hosts->addresses[i]);
    bool whole = !fclose(out);
    for (int i = 0; whole && i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        if (host->ready && host->in >= 0 && !host->retired) ls_frame_add(&host->to, LS_FRAME_PLACES, 0, text, size);
    }
    free(text);
}

/* ---- Ranks that move -------------------------------------------------------------------------------------------- */

static bool runs_on(const struct ls_run_hosts *hosts, const ls_tools_slots *named, const struct ls_worker *worker) {
    const struct ls_host *host = worker->ended ? NULL : ls_hosts_of(hosts, worker->rank);
    return host && !strcmp(host->named.name, named->name);
}

int ls_moves_free(const struct ls_run_hosts *hosts, const ls_tools_slots *named, const struct ls_worker *workers) {
    int taken = 0;
    for (int i = 0; i < hosts->launch->count; i++) taken += runs_on(hosts, named, &workers[i]);
    return named->slots - taken;
}

/* A row that nobody needs any more, or a new one; never the first, which has the launcher's input. */
static struct ls_host *find_row(struct ls_run_hosts *hosts) {
    for (int i = 1; i < hosts->count; i++) {
        struct ls_host *host = &hosts->hosts[i];
        if (host->retired && host->pid < 0) return ls_hosts_empty(host), host;
    }
    if (hosts->count == hosts->room) return NULL;
    struct ls_host *host = &hosts->hosts[hosts->count++];
    ls_hosts_empty(host);
    return host;
}

static void take_away(struct ls_run_hosts *hosts, int rank) {
    struct ls_host *host = ls_hosts_of(hosts, rank);
    int left = 0;
    if (!host) return;
    for (int i = 0; i < host->count; i++) {
        if (host->ranks[i] == rank) host->ranks[i] = LS_HOST_MOVED(rank);
        left += host->ranks[i] >= 0;
    }
    if (!left) ls_hosts_retire(host);
}

/* The lowest number that no process of that host has. */
static int find_local(const struct ls_run_hosts *hosts, const ls_tools_slots *named, const struct ls_worker *workers,
                      const struct ls_host *placed, int done) {
    for (int local = 0;; local++) {
        bool taken = false;
        for (int i = 0; i < done; i++) taken = taken || placed->locals[i] == local;
        for (int i = 0; i < hosts->launch->count; i++) {
            const struct ls_host *host = runs_on(hosts, named, &workers[i]) ? ls_hosts_of(hosts, i) : NULL;
            for (int j = 0; host && j < host->count; j++)
                taken = taken || (host->ranks[j] == i && host->locals[j] == local);
        }
        if (!taken) return local;
    }
}

struct ls_host *ls_moves_place(struct ls_run_hosts *hosts, const ls_tools_slots *named, const int *ranks, int count,
                               const struct ls_worker *workers) {
    for (int i = 0; i < count; i++) take_away(hosts, ranks[i]);
    struct ls_host *host = find_row(hosts);
    if (!host || !ls_hosts_room(host, count)) return NULL;
    for (int i = 0; i < count; i++) host->ranks[i] = -1;
    for (int i = 0; i < count; i++) host->locals[i] = find_local(hosts, named, workers, host, i);
    memcpy(host->ranks, ranks, (size_t)count * sizeof(*ranks));
    host->named = *named;
    host->here = ls_hosts_is_here(hosts->options, named);
    host->start = hosts->launch->start;
    host->joins = true;
    host->again.at = ls_launch_now();
    host->again.end = host->again.at + hosts->options->limit;
    return host;
}
