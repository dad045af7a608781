/* lockstep top, behind tools.h: asks one worker for the cluster and then all of them twice, some time apart; the rates
 * are what happened between. A step ends on all ranks together, so the rank that spends least of the time in
 * collectives is the one that the others wait for: what it spends there is the wire's, what others spend more is
 * waiting. */
#include <lockstep/tools.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadlines.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/status.h"
#include "base/text.h"
#include "resolver/cluster_view.h"
#include "resolver/tf_config.h"
#include "tools/probe.h"
#include "tools/top.h"

#define ASK_SECONDS ((double)LS_TOP_TIMEOUT / (double)LS_SECOND) /* for answers */
#define NOTABLE     0.05 /* share of the time that others wait, from which a rank is called a straggler */

/* ---- the cluster, from one address ---- */

static ls_status parse_one(const char *address, struct ls_cluster_view **config) {
    if (!address) return ls_fail(LS_INVALID_ARGUMENT, "the address is missing: write host:port");
    if (strlen(address) >= 300 || ls_cluster_view_of_address(address, config))
        return ls_fail(LS_INVALID_ARGUMENT, "'%.300s' is no address: write host:port", address);
    return LS_OK;
}

/* The tasks of one type as a map: indices may have gaps. */
static void print_cluster_tasks(FILE *out, const char *cluster, const char *type) {
    char prefix[32];
    bool first = true;
    (void)snprintf(prefix, sizeof(prefix), "cluster.%s[", type);
    for (const char *line = cluster; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, prefix, strlen(prefix))) continue;
        const char *index = line + strlen(prefix), *end = strstr(index, "]=");
        if (!end) continue;
        (void)fprintf(out, "%s\"%.*s\": \"%.*s\"", first ? "" : ", ", (int)(end - index), index,
                      (int)strcspn(end + 2, "\n"), end + 2);
        first = false;
    }
}

static char *spell_config(const char *cluster, const char *task) {
    static const char *const types[] = {"chief", "worker", "ps"};
    char *text = NULL;
    size_t size = 0, type = strcspn(task, ":");
    FILE *out = strpbrk(cluster, "\"\\") || strpbrk(task, "\"\\") ? NULL : open_memstream(&text, &size);
    if (!out) return NULL;
    for (size_t i = 0; i < 3; i++) {
        (void)fprintf(out, i ? "}, \"%s\": {" : "{\"cluster\": {\"%s\": {", types[i]);
        print_cluster_tasks(out, cluster, types[i]);
    }
    (void)fprintf(out, "}}, \"task\": {\"type\": \"%.*s\", \"index\": %s}}", (int)type, task,
                  task[type] ? task + type + 1 : "");
    if (!fclose(out)) return text;
    free(text);
    return NULL;
}

static ls_status read_cluster(const struct ls_probe *probe, struct ls_cluster_view **config) {
    char task[64];
    LS_CLEANUP(ls_free_pointer) char *cluster = ls_probe_cluster(probe);
    char *text = cluster ? spell_config(cluster, ls_probe_text(probe, "task", task, sizeof(task))) : NULL;
    ls_status status = text ? ls_tf_config_parse(text, config) : LS_DATA_LOSS;
    free(text);
    return status ? ls_fail(LS_DATA_LOSS, "the answer of '%s' names no cluster", probe->task->address) : LS_OK;
}

static ls_status find_cluster(const char *address, struct ls_cluster_view **config) {
    struct ls_cluster_view *one = NULL;
    ls_status status = parse_one(address, &one);
    if (status) return status;
    struct ls_probe probe = {.task = ls_cluster_view_member(one, 0)};
    status = ls_probe_all(&probe, 1, ASK_SECONDS);
    if (!status && probe.state != LS_PROBE_ANSWERED)
        status = ls_fail(LS_UNAVAILABLE, "no worker answers at '%s': %s", address, probe.why);
    if (!status) status = read_cluster(&probe, config);
    ls_probe_free(&probe);
    ls_cluster_view_free(one);
    return status;
}

/* ---- two answers to rates ---- */

/* Nanoseconds in collectives, the present one included. */
static int64_t inside(const struct ls_probe *probe) {
    int64_t since = ls_probe_number(probe, "since");
    return ls_probe_number(probe, "inside") + (since ? ls_probe_number(probe, "now") - since : 0);
}

static int64_t grown(const struct ls_top_row *row, const char *field) {
    return ls_probe_number(row->now, field) - ls_probe_number(row->before, field);
}

static void fill_row(struct ls_top_row *row, const struct ls_probe *before, const struct ls_probe *now) {
    *row = (struct ls_top_row){.before = before, .now = now};
    if (before->state != LS_PROBE_ANSWERED || now->state != LS_PROBE_ANSWERED) return;
    int64_t since = ls_probe_number(now, "since");
    row->seconds = (double)grown(row, "now") / (double)LS_SECOND;
    row->known = row->seconds > 0 && ls_probe_number(now, "started") == ls_probe_number(before, "started");
    if (!row->known) return;
    row->inside = (double)(inside(now) - inside(before)) / (double)LS_SECOND / row->seconds;
    row->inside = row->inside < 0 ? 0 : row->inside > 1 ? 1 : row->inside;
    row->steps = grown(row, "step");
    row->calls = grown(row, "collectives");
    row->bytes = grown(row, "bytes");
    if (since) row->stuck = (double)(ls_probe_number(now, "now") - since) / (double)LS_SECOND;
}

static void fill_table(struct ls_top_table *table, const struct ls_probe *before, const struct ls_probe *now) {
    table->straggler = -1;
    table->least = 1;
    for (int rank = 0; rank < ls_probes_count(table->config); rank++)
        fill_row(&table->rows[rank], &before[rank], &now[rank]);
    for (int rank = 0; rank < table->config->num_workers; rank++) {
        const struct ls_top_row *row = &table->rows[rank];
        table->unknown += !row->known;
        if (!row->known) continue;
        if (row->inside > table->most) table->most = row->inside;
        if (row->inside >= table->least) continue;
        table->least = row->inside;
        table->straggler = rank;
    }
    if (table->most - table->least < NOTABLE) table->straggler = -1;
}

/* ---- telling ---- */

double ls_top_up(const struct ls_probe *probe) {
    return (double)(ls_probe_number(probe, "now") - ls_probe_number(probe, "started")) / (double)LS_SECOND;
}

int64_t ls_top_generation(const struct ls_top_table *table) {
    int64_t newest = 0;
    for (int rank = 0; rank < table->config->num_workers; rank++)
        if (table->rows[rank].known && ls_probe_number(table->rows[rank].now, "generation") > newest)
            newest = ls_probe_number(table->rows[rank].now, "generation");
    return newest;
}

/* A parameter server has no steps. */
static void print_json_row(FILE *out, const struct ls_top_table *table, int rank) {
    const struct ls_top_row *row = &table->rows[rank];
    const struct ls_probe *now = row->now;
    bool works = rank < table->config->num_workers, first = !rank || rank == table->config->num_workers;
    char phase[32];
    ls_json_print(out, "%-s{'task': %s, 'known': %i", first ? "" : ", ", now->task->name, row->known);
    if (works) ls_json_print(out, ", 'rank': %d", rank);
    if (row->known)
        ls_json_print(out,
                      ", 'phase': %s, 'generation': %lld, 'seconds': %.6f, 'collectives': %lld, 'bytes': %lld, "
                      "'bytes_per_second': %.0f, 'resident': %lld, 'up': %.3f",
                      ls_probe_text(now, "phase", phase, sizeof(phase)), (long long)ls_probe_number(now, "generation"),
                      row->seconds, (long long)ls_probe_number(now, "collectives"),
                      (long long)ls_probe_number(now, "bytes"), (double)row->bytes / row->seconds,
                      (long long)ls_probe_number(now, "resident"), ls_top_up(now));
    if (row->known && works)
        ls_json_print(out,
                      ", 'step': %lld, 'steps': %lld, 'compute': %.6f, 'wait': %.6f, 'wire': %.6f, 'restarts': %lld, "
                      "'present_collective_seconds': %.6f",
                      (long long)ls_probe_number(now, "step"), (long long)row->steps, 1 - row->inside,
                      row->inside - table->least, table->least, (long long)ls_probe_number(now, "restarts"),
                      row->stuck);
    (void)fputc('}', out);
}

static void print_top_json(FILE *out, const struct ls_top_table *table) {
    int workers = table->config->num_workers;
    ls_json_print(out, "{'workers': %d, 'generation': %lld, 'straggler': %.0f, 'ranks': [", workers,
                  (long long)ls_top_generation(table), table->straggler < 0 ? (double)NAN : table->straggler);
    for (int rank = 0; rank < workers; rank++) print_json_row(out, table, rank);
    (void)fputs("], \"servers\": [", out);
    for (int i = 0; i < table->config->num_servers; i++) print_json_row(out, table, workers + i);
    (void)fputs("]}\n", out);
}

/* ---- the whole ---- */

/* screen: NULL asks for JSON. */
static ls_status tell_table(const struct ls_top_table *table, const struct ls_top_screen *screen, char **text) {
    return LS_TEXT(out, screen ? ls_top_print(out, table, screen) : print_top_json(out, table), "a table", text);
}

static ls_status ask_twice(const struct ls_cluster_view *config, double seconds, struct ls_probe *before,
                           struct ls_probe *now) {
    int64_t second = ls_deadline_in(seconds);
    int count = ls_probes_count(config);
    ls_status status = ls_probe_all(before, count, ASK_SECONDS);
    while (!status && ls_now() < second) (void)poll(NULL, 0, ls_poll_timeout(second, 1000));
    return status ? status : ls_probe_all(now, count, ASK_SECONDS);
}

static ls_status watch_tasks(const struct ls_cluster_view *config, double seconds, const struct ls_top_screen *screen,
                             char **text) {
    struct ls_probe *before = NULL, *now = NULL;
    int count = ls_probes_count(config);
    LS_CLEANUP(ls_free_pointer) struct ls_top_row *rows = ls_alloc_array((size_t)count, sizeof(*rows));
    ls_status status = rows ? LS_OK : ls_fail_memory("a table", (size_t)count * sizeof(*rows));
    if (!status) status = ls_probes_new(config, &before);
    if (!status) status = ls_probes_new(config, &now);
    if (!status) status = ask_twice(config, seconds, before, now);
    if (!status) {
        struct ls_top_table table = {.config = config, .rows = rows};
        fill_table(&table, before, now);
        status = tell_table(&table, screen, text);
    }
    ls_probes_free(before, count);
    ls_probes_free(now, count);
    return status;
}

ls_status ls_tools_top(const char *address, double seconds, bool json, int columns, int lines, bool ascii,
                       char **text) {
    LS_NEED(text);
    const struct ls_top_screen screen = {columns, lines, ascii};
    struct ls_cluster_view *config = NULL;
    ls_status status = find_cluster(address, &config);
    if (!status) status = watch_tasks(config, seconds, json ? NULL : &screen, text);
    ls_cluster_view_free(config);
    return status;
}
