/* What TF_CONFIG says, as one JSON object and as text for people; behind `lockstep check`. Opens no port. */
#include <lockstep/tools.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/need.h"
#include "base/text.h"
#include "resolver/resolver.h"
#include "resolver/cluster_view.h"

static const enum ls_task_type roles[] = {LS_TASK_CHIEF, LS_TASK_WORKER, LS_TASK_PS, LS_TASK_EVALUATOR};
#define ROLE_COUNT (sizeof(roles) / sizeof(roles[0]))

/* The environment as it was read. */
struct reading {
    struct ls_cluster_view *config; /* NULL on failure */
    struct ls_resolution resolution;
    ls_status status;
};
typedef void print_fn(FILE *stream, const struct reading *reading);

static void put_addresses(FILE *stream, const struct ls_cluster_view *config, enum ls_task_type type) {
    bool first = true;
    for (int i = 0; i < config->task_count; i++) {
        if (config->tasks[i].type != type) continue;
        ls_json_print(stream, "%-s%s", first ? "" : ", ", config->tasks[i].address);
        first = false;
    }
}

static void put_cluster(FILE *stream, const struct ls_cluster_view *config) {
    bool first = true;
    (void)fputs(", \"cluster\": {", stream);
    for (size_t i = 0; i < ROLE_COUNT; i++) {
        if (!ls_cluster_view_count(config, roles[i])) continue;
        (void)fprintf(stream, "%s\"%s\": [", first ? "" : ", ", ls_cluster_view_type_name(roles[i]));
        put_addresses(stream, config, roles[i]);
        (void)fputc(']', stream);
        first = false;
    }
    (void)fputc('}', stream);
}

/* The group's leader; NULL for local mode, for an evaluator, and where no chief or worker is listed. */
static const struct ls_task *leader(const struct ls_cluster_view *config) {
    return config->type == LS_TASK_EVALUATOR ? NULL : ls_cluster_view_member(config, 0);
}

static void put_identity(FILE *stream, const struct ls_cluster_view *config) {
    const struct ls_task *first = leader(config);
    bool clustered = config->cluster_mode;
    ls_json_print(stream,
                  ", 'task_type': %s, 'task_index': %.0f, 'is_chief': %i, 'num_workers': %d, 'id_in_cluster': %.0f, "
                  "'collective_leader': %s",
                  clustered ? ls_cluster_view_type_name(config->type) : NULL, clustered ? config->index : (double)NAN,
                  config->is_chief, config->num_workers,
                  config->id_in_cluster < 0 ? (double)NAN : config->id_in_cluster, first ? first->name : NULL);
}

static void print_json_error(FILE *stream, ls_status status) {
    ls_json_print(stream,
                  "{'valid': false, 'mode': null, 'task_type': null, 'task_index': null, 'is_chief': null, "
                  "'num_workers': null, 'id_in_cluster': null, 'collective_leader': null, 'cluster': null, "
                  "'source': null, 'ignored': [], 'warnings': [], 'error': {'code': %s, 'message': %s}}",
                  ls_status_name(status), ls_error());
}

static void put_sources(FILE *stream, const struct ls_resolution *resolution) {
    ls_json_print(stream, ", 'source': %s, 'ignored': [", resolution->source);
    for (int i = 0; i < resolution->ignored_count; i++)
        ls_json_print(stream, "%-s{'source': %s, 'why': %s}", i ? ", " : "", resolution->ignored[i].source,
                      resolution->ignored[i].why);
    (void)fputc(']', stream);
}

static void print_check_json(FILE *stream, const struct reading *reading) {
    const struct ls_cluster_view *config = reading->config;
    if (reading->status) {
        print_json_error(stream, reading->status);
        return;
    }
    (void)fprintf(stream, "{\"valid\": true, \"mode\": \"%s\"", config->cluster_mode ? "cluster" : "local");
    put_identity(stream, config);
    put_cluster(stream, config);
    put_sources(stream, &reading->resolution);
    (void)fputs(", \"warnings\": [", stream);
    for (int i = 0; i < config->warning_count; i++) ls_json_print(stream, "%-s%s", i ? ", " : "", config->warnings[i]);
    (void)fputs("]}", stream);
}

static void print_duty(FILE *stream, const struct ls_cluster_view *config) {
    const struct ls_task *first = leader(config);
    if (config->type == LS_TASK_EVALUATOR)
        (void)fputs("an evaluator stands alone: chief of a cluster of one, no rank among the workers\n", stream);
    else if (config->type == LS_TASK_PS)
        (void)fputs("a parameter server has no rank among the workers\n", stream);
    else
        (void)fprintf(stream, "rank %d of %d%s; the leader is %s:%d\n", config->id_in_cluster, config->num_workers,
                      config->is_chief ? ", chief" : "", ls_cluster_view_type_name(first->type), first->index);
}

static void print_cluster(FILE *stream, const struct ls_cluster_view *config) {
    (void)fprintf(stream, "this task  %s:%d\n           ", ls_cluster_view_type_name(config->type), config->index);
    print_duty(stream, config);
    (void)fputs("cluster\n", stream);
    for (int i = 0; i < config->task_count; i++) {
        const struct ls_task *task = &config->tasks[i];
        bool own = task->type == config->type && task->index == config->index;
        (void)fprintf(stream, "           %s:%d  %s%s\n", ls_cluster_view_type_name(task->type), task->index,
                      task->address, own ? "  (this task)" : "");
    }
}

static void print_check_text(FILE *stream, const struct reading *reading) {
    const struct ls_cluster_view *config = reading->config;
    const struct ls_resolution *resolution = &reading->resolution;
    bool launched = !reading->status && config->cluster_mode && strcmp(resolution->source, "tf_config") != 0;
    if (reading->status) {
        bool own = strncmp(ls_error(), "TF_CONFIG", strlen("TF_CONFIG")) == 0;
        (void)fprintf(stream, "%s  invalid\nerror      %s\n", own ? "TF_CONFIG" : "cluster  ", ls_error());
        return;
    }
    if (launched)
        (void)fprintf(stream, "source     %s\n", resolution->source);
    else
        (void)fputs("TF_CONFIG  valid\n", stream);
    for (int i = 0; i < resolution->ignored_count; i++)
        (void)fprintf(stream, "not read   %s: %s\n", resolution->ignored[i].source, resolution->ignored[i].why);
    if (config->cluster_mode)
        print_cluster(stream, config);
    else
        (void)fputs("mode       local: no cluster is given, so this process trains alone, rank 0 of 1\n", stream);
    for (int i = 0; i < config->warning_count; i++) (void)fprintf(stream, "warning    %s\n", config->warnings[i]);
}

static ls_status print_reading(const char *tf_config, print_fn *print, char **text) {
    struct reading reading = {0};
    ls_status printed = LS_OK;
    reading.status = ls_resolver_read(tf_config, &reading.config, &reading.resolution);
    if (!reading.status || reading.status == LS_INVALID_ARGUMENT)
        printed = LS_TEXT(out, print(out, &reading), "a report", text);
    ls_cluster_view_free(reading.config);
    return printed ? printed : reading.status;
}

ls_status ls_tools_check_json(const char *tf_config, char **json) {
    LS_NEED(json);
    return print_reading(tf_config, print_check_json, json);
}

ls_status ls_tools_check_text(const char *tf_config, char **text) {
    LS_NEED(text);
    return print_reading(tf_config, print_check_text, text);
}
