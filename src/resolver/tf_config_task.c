/* The task part of TF_CONFIG: which of the cluster's tasks this process is (multi_worker_util's validation, and what
 * TensorFlow leaves unchecked). */
#include "resolver/tf_config_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define INDEX_LIMIT 1000000000 /* beyond any cluster, and exact in a double */

static ls_status refuse_index(const cJSON *value, const char *why) {
    return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: task.index is %s: %s; write this task's number, counted from 0",
                   ls_tf_config_json_quote(value).text, why);
}

static ls_status read_tf_config_task_number(const cJSON *value, int *index) {
    double number = value->valuedouble;
    if (number < 0) return refuse_index(value, "it is negative");
    if (number >= INDEX_LIMIT) return refuse_index(value, "it is too large");
    if (number != floor(number)) return refuse_index(value, "it is no whole number");
    *index = (int)number;
    return LS_OK;
}

/* As Python's int() reads a text: spaces around it and a plus are nothing. */
static ls_status read_tf_config_task_text(const cJSON *value, int *index) {
    const char *text = value->valuestring;
    text += strspn(text, " \t\r\n");
    if (*text == '-' && text[1 + strspn(text + 1, "0")]) return refuse_index(value, "it is negative");
    text += *text == '+' || *text == '-';
    size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits + strspn(text + digits, " \t\r\n")]) return refuse_index(value, "it is no whole number");
    long number = strtol(text, NULL, 10);
    if (number >= INDEX_LIMIT) return refuse_index(value, "it is too large");
    *index = (int)number;
    return LS_OK;
}

static ls_status read_index(const cJSON *value, int *index) {
    if (cJSON_IsNumber(value)) return read_tf_config_task_number(value, index);
    if (cJSON_IsString(value)) return read_tf_config_task_text(value, index);
    return refuse_index(value, "it is no number");
}

static ls_status read_type(const cJSON *value, enum ls_task_type *type) {
    if (!cJSON_IsString(value))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG: task.type is %s, not a role; use one of chief, worker, ps, evaluator",
                       ls_tf_config_json_quote(value).text);
    *type = ls_tf_config_roles_parse(value->valuestring);
    if (*type) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: task.type is the unknown role %s; %s",
                   ls_tf_config_json_quote_text(value->valuestring).text, ls_tf_config_roles_hint(value->valuestring));
}

static ls_status refuse_missing(const struct ls_tf_reader *reader, const char *missing) {
    return ls_fail(LS_INVALID_ARGUMENT,
                   "TF_CONFIG: %s is given but %s missing; both are needed: add \"task\": {\"type\": \"worker\", "
                   "\"index\": 0} with this process's own role and number",
                   reader->root, missing);
}

static ls_status read_fields(struct ls_tf_reader *reader) {
    const cJSON *type = NULL, *index = NULL;
    if (reader->task && !cJSON_IsObject(reader->task))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG: task is %s, not an object; write {\"type\": \"worker\", \"index\": 0}",
                       ls_tf_config_json_quote(reader->task).text);
    ls_status status = ls_tf_config_find(reader->task, "type", "task.type", &type);
    if (!status) status = ls_tf_config_find(reader->task, "index", "task.index", &index);
    if (status) return status;
    if (!type && !index) return refuse_missing(reader, "task.type and task.index are");
    if (!type || !index) return refuse_missing(reader, type ? "task.index is" : "task.type is");
    status = read_type(type, &reader->config->type);
    return status ? status : read_index(index, &reader->config->index);
}

/* "chief, worker": the roles that have tasks. */
static void list_roles(const struct ls_cluster_view *config, char *text, size_t size) {
    size_t used = 0;
    for (int type = LS_TASK_CHIEF; type < LS_TASK_TYPES; type++)
        if (ls_cluster_view_count(config, (enum ls_task_type)type))
            used += (size_t)snprintf(text + used, size - used, used ? ", %s" : "%s",
                                     ls_cluster_view_type_name((enum ls_task_type)type));
}

static ls_status refuse_own_role(const struct ls_tf_reader *reader) {
    const char *name = ls_cluster_view_type_name(reader->config->type);
    char roles[64] = "";
    list_roles(reader->config, roles, sizeof(roles));
    return ls_fail(LS_INVALID_ARGUMENT,
                   "TF_CONFIG: task.type is '%s', but %s lists no %s (only %s); add \"%s\": [\"host:port\"] to every "
                   "task's cluster, or change task.type",
                   name, reader->root, name, roles, name);
}

static ls_status refuse_range(const struct ls_tf_reader *reader, int count) {
    const char *name = ls_cluster_view_type_name(reader->config->type);
    if (reader->is_map[reader->config->type])
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG: task.index is %d, but %s.%s has no key \"%d\"; add it or change task.index",
                       reader->config->index, reader->root, name, reader->config->index);
    return ls_fail(LS_INVALID_ARGUMENT,
                   "TF_CONFIG: task.index is %d, but %s.%s lists %d task%s, so the highest index is %d; add the "
                   "address or change task.index",
                   reader->config->index, reader->root, name, count, count == 1 ? "" : "s", count - 1);
}

static size_t print_range(char *text, size_t size, bool first, int from, int to) {
    int written = from == to ? snprintf(text, size, "%s%d", first ? "" : ", ", from)
                             : snprintf(text, size, "%s%d-%d", first ? "" : ", ", from, to);
    return (size_t)written;
}

/* The indices below the highest that are not listed: "0-2, 5"; "" if there are none. */
static void list_holes(const struct ls_cluster_view *config, enum ls_task_type type, char text[128]) {
    size_t used = 0, room = 128 - sizeof(", 1000000000-1000000000, ...");
    int next = 0;
    for (int i = 0; i < config->task_count; i++) {
        if (config->tasks[i].type != type) continue;
        int index = config->tasks[i].index;
        if (index > next && used > room) {
            (void)snprintf(text + used, 128 - used, ", ...");
            return;
        }
        if (index > next) used += print_range(text + used, 128 - used, !used, next, index - 1);
        next = index + 1;
    }
}

/* Every chief and worker takes part in every all-reduce, so a process that is one of them must know all. */
static ls_status check_holes(const struct ls_tf_reader *reader, enum ls_task_type type) {
    char holes[128] = "";
    list_holes(reader->config, type, holes);
    if (!*holes) return LS_OK;
    const char *name = ls_cluster_view_type_name(type);
    return ls_fail(LS_INVALID_ARGUMENT,
                   "TF_CONFIG: %s.%s lacks index %s (a dynamic cluster); all-reduce needs every %s, so list them all "
                   "(for a TFJob: leave enableDynamicWorker off)",
                   reader->root, name, holes, name);
}

static ls_status check_membership(const struct ls_tf_reader *reader) {
    const struct ls_cluster_view *config = reader->config;
    int count = ls_cluster_view_count(config, config->type);
    if (!count && config->type == LS_TASK_EVALUATOR) return LS_OK; /* it may stand outside the cluster */
    if (!count) return refuse_own_role(reader);
    if (config->type == LS_TASK_CHIEF || config->type == LS_TASK_WORKER) {
        ls_status status = check_holes(reader, LS_TASK_CHIEF);
        if (!status) status = check_holes(reader, LS_TASK_WORKER);
        if (status) return status;
    }
    return ls_cluster_view_task(config, config->type, config->index) ? LS_OK : refuse_range(reader, count);
}

ls_status ls_tf_config_task_read(struct ls_tf_reader *reader) {
    ls_status status = read_fields(reader);
    return status ? status : check_membership(reader);
}
