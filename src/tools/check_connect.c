/* lockstep check --connect, behind tools.h: asks every task of TF_CONFIG who it is and says what is wrong. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/difference.h"
#include "base/text.h"
#include "cluster/message.h"
#include "resolver/cluster_view.h"
#include "resolver/resolver.h"
#include "tools/probe.h"
#include "base/plain.h"

/* The finding about one task. */
struct finding {
    const char *state; /* for machines: "ok", ... */
    char why[LS_ERROR_SIZE];
    char version[64], phase[32], task[64], cluster[13];
};

static void compare_cluster(const struct ls_cluster_view *config, const char *cluster, struct finding *finding) {
    struct ls_difference difference;
    if (!ls_line_difference_find(config->canonical, cluster, &difference)) return;
    finding->state = "other_cluster";
    (void)snprintf(finding->why, sizeof(finding->why),
                   "it has another TF_CONFIG cluster: %s is '%s' here and '%s' there", difference.field,
                   difference.first, difference.second);
}

static void compare_clusters(const struct ls_cluster_view *config, const struct ls_probe *probe, const char *cluster,
                             struct finding *finding) {
    finding->state = "ok";
    if (strcmp(finding->task, probe->task->name)) {
        finding->state = "other_task";
        (void)snprintf(finding->why, sizeof(finding->why),
                       "it says that it is %s: its task in TF_CONFIG does not fit the host that it runs on",
                       finding->task);
    }
    compare_cluster(config, cluster, finding);
    if (strcmp(finding->version, ls_version()) || ls_probe_number(probe, "protocol") != LS_PROTOCOL_VERSION) {
        finding->state = "other_version";
        (void)snprintf(finding->why, sizeof(finding->why),
                       "it is Lockstep %s with protocol %lld; here are %s and %u: start all from the same build",
                       finding->version, (long long)ls_probe_number(probe, "protocol"), ls_version(),
                       LS_PROTOCOL_VERSION);
    }
}

static void judge_probe(const struct ls_cluster_view *config, const struct ls_probe *probe, struct finding *finding) {
    static const char *const states[] = {"", "unreachable", "silent", "foreign"};
    *finding = (struct finding){.state = ""};
    if (probe->state != LS_PROBE_ANSWERED) {
        finding->state = states[probe->state];
        (void)snprintf(finding->why, sizeof(finding->why), "%s", probe->why);
        return;
    }
    LS_CLEANUP(ls_free_pointer) char *cluster = ls_probe_cluster(probe);
    (void)ls_probe_text(probe, "version", finding->version, sizeof(finding->version));
    (void)ls_probe_text(probe, "phase", finding->phase, sizeof(finding->phase));
    (void)ls_probe_text(probe, "task", finding->task, sizeof(finding->task));
    ls_probe_digest(cluster ? cluster : "", finding->cluster);
    compare_clusters(config, probe, cluster ? cluster : "", finding);
}

static void print_check_connect_json(FILE *out, int rank, const struct ls_probe *probe, const struct finding *finding) {
    ls_json_print(out, "%-s{'rank': %d, 'task': %s, 'address': %s, 'state': %s, 'why': %s", rank ? ", " : "", rank,
                  probe->task->name, probe->task->address, finding->state, finding->why);
    if (probe->state == LS_PROBE_ANSWERED)
        ls_json_print(out,
                      ", 'version': %s, 'phase': %s, 'says_it_is': %s, 'cluster': %s, 'generation': %lld, "
                      "'round_trip_ms': %.3f",
                      finding->version, finding->phase, finding->task, finding->cluster,
                      (long long)ls_probe_number(probe, "generation"), (double)probe->round_trip / 1e6);
    (void)fputc('}', out);
}

static void print_check_connect_text(FILE *out, int rank, const struct ls_probe *probe, const struct finding *finding) {
    char trip[32] = "-";
    if (probe->state == LS_PROBE_ANSWERED)
        (void)ls_plain_text(trip, sizeof(trip), "%.3f ms", (double)probe->round_trip / 1e6);
    (void)fprintf(out, "%4d  %-10s  %-24s  %10s  %-7s  %-12s  %s%s\n", rank, probe->task->name, probe->task->address,
                  trip, *finding->version ? finding->version : "-", *finding->cluster ? finding->cluster : "-",
                  *finding->why ? finding->why : "fine, ", *finding->why ? "" : finding->phase);
}

static void print_report(FILE *out, const struct ls_cluster_view *config, const struct ls_probe *probes, bool json,
                         bool *fine) {
    struct finding finding;
    char digest[13];
    *fine = true;
    ls_probe_digest(config->canonical, digest);
    if (json)
        (void)fprintf(out, "{\"version\": \"%s\", \"cluster\": \"%s\", \"peers\": [", ls_version(), digest);
    else
        (void)fprintf(out, "lockstep %s, cluster %s\n%4s  %-10s  %-24s  %10s  %-7s  %-12s  %s\n", ls_version(), digest,
                      "rank", "task", "address", "round trip", "version", "cluster", "state");
    for (int rank = 0; rank < ls_probes_count(config); rank++) {
        judge_probe(config, &probes[rank], &finding);
        *fine = *fine && !*finding.why;
        if (json)
            print_check_connect_json(out, rank, &probes[rank], &finding);
        else
            print_check_connect_text(out, rank, &probes[rank], &finding);
    }
    if (json) (void)fprintf(out, "], \"fine\": %s}\n", *fine ? "true" : "false");
}

static ls_status report_findings(const struct ls_cluster_view *config, double seconds, bool json, char **text,
                                 bool *fine) {
    struct ls_probe *probes = NULL;
    ls_status status = ls_probes_new(config, &probes);
    if (!status) status = ls_probe_all(probes, ls_probes_count(config), seconds);
    if (!status) status = LS_TEXT(out, print_report(out, config, probes, json, fine), "a report", text);
    ls_probes_free(probes, ls_probes_count(config));
    return status;
}

ls_status ls_tools_check_connect(const char *tf_config, double seconds, bool json, char **text, bool *fine) {
    LS_NEED(text, fine);
    struct ls_cluster_view *config = NULL;
    ls_status status = ls_resolver_read(tf_config, &config, NULL);
    if (!status && (!config->cluster_mode || !ls_cluster_view_member(config, 0)))
        status =
            ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG names no cluster with a chief or workers: nobody to connect to");
    if (!status && config->meet_port)
        status = ls_fail(LS_INVALID_ARGUMENT,
                         "rank 0 hands out the addresses of this job's workers when they start, at %s: nobody to "
                         "connect to before",
                         config->tasks[0].address);
    if (!status) status = report_findings(config, seconds, json, text, fine);
    ls_cluster_view_free(config);
    return status;
}
