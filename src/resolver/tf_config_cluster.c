/* The cluster part of TF_CONFIG (tf.train.ClusterSpec): each role is a list of addresses, or a map from index to
 * address. The tasks end up sorted by role and index, and no two of them have one address. */
#include "resolver/tf_config_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/new.h"
#include "resolver/tf_config.h"

static ls_status take_address(struct ls_tf_reader *reader, enum ls_task_type type, int index, const cJSON *value) {
    struct ls_tf_key key = ls_tf_config_roles_key(reader, type, index);
    if (!cJSON_IsString(value))
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s is %s, not an address; write \"host:port\"", key.text,
                       ls_tf_config_json_quote(value).text);
    struct ls_task *task = &reader->config->tasks[reader->config->task_count];
    ls_status status = ls_tf_config_address_parse(key.text, value->valuestring, &task->host, &task->port);
    if (status) return ls_fail_context(status, "TF_CONFIG");
    reader->config->task_count++; /* from here on the config owns what the task holds */
    task->type = type;
    task->index = index;
    task->address = ls_strdup(value->valuestring);
    return task->address ? LS_OK : ls_fail_memory("an address", strlen(value->valuestring) + 1);
}

/* A list of addresses, or a map from index to address. */
static ls_status read_addresses(struct ls_tf_reader *reader, enum ls_task_type type, const cJSON *values) {
    int place = 0;
    for (const cJSON *value = values->child; value; value = value->next) {
        int index = reader->is_map[type] ? ls_tf_config_json_index(value) : place++;
        if (index < 0)
            return ls_fail(
                LS_INVALID_ARGUMENT, "TF_CONFIG: %s.%s has the key %s, which is no task index; use \"0\", \"1\", ...",
                reader->root, ls_cluster_view_type_name(type), ls_tf_config_json_quote_text(value->string).text);
        ls_status status = take_address(reader, type, index, value);
        if (status) return status;
    }
    return LS_OK;
}

static ls_status read_role(struct ls_tf_reader *reader, const cJSON *role) {
    const char *name = role->string;
    enum ls_task_type type = ls_tf_config_roles_parse(name);
    if (!type)
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s has the unknown role %s; %s", reader->root,
                       ls_tf_config_json_quote_text(name).text, ls_tf_config_roles_hint(name));
    if (reader->in_cluster[type])
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: the key %s.%s stands twice; keep one", reader->root, name);
    reader->in_cluster[type] = true;
    reader->is_map[type] = cJSON_IsObject(role);
    if (reader->is_map[type] || cJSON_IsArray(role)) return read_addresses(reader, type, role);
    return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s.%s is %s, not a list; write [\"host:port\", ...]", reader->root,
                   name, ls_tf_config_json_quote(role).text);
}

static int compare_tasks(const void *a, const void *b) {
    const struct ls_task *left = a, *right = b;
    if (left->type != right->type) return left->type < right->type ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

/* Two spellings of one index in a map ("1" and "01"). */
static ls_status check_indices(const struct ls_tf_reader *reader) {
    const struct ls_task *tasks = reader->config->tasks;
    for (int i = 1; i < reader->config->task_count; i++)
        if (!compare_tasks(&tasks[i - 1], &tasks[i]))
            return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s stands twice; keep one",
                           ls_tf_config_roles_key(reader, tasks[i].type, tasks[i].index).text);
    return LS_OK;
}

static ls_status check_single(const struct ls_tf_reader *reader, enum ls_task_type type) {
    int count = ls_cluster_view_count(reader->config, type);
    if (count < 2) return LS_OK;
    const char *name = ls_cluster_view_type_name(type);
    return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s.%s lists %d tasks, but a cluster has at most one %s; %s",
                   reader->root, name, count, name,
                   type == LS_TASK_CHIEF ? "list the others under worker" : "keep one");
}

/* The one spelling of a task's address, to find equal ones by sorting. */
struct spelling {
    char *text;
    int task;
};

static int compare_spellings(const void *a, const void *b) {
    const struct spelling *left = a, *right = b;
    int order = strcmp(left->text, right->text);
    return order ? order : left->task - right->task;
}

static ls_status refuse_equal(const struct ls_tf_reader *reader, const struct spelling *spellings, int count) {
    for (int i = 1; i < count; i++) {
        if (strcmp(spellings[i - 1].text, spellings[i].text)) continue;
        const struct ls_task *first = &reader->config->tasks[spellings[i - 1].task];
        const struct ls_task *second = &reader->config->tasks[spellings[i].task];
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG: %s is %s, which is the address of %s as well; give each task its own host or port",
                       ls_tf_config_roles_key(reader, second->type, second->index).text,
                       ls_tf_config_json_quote_text(second->address).text,
                       ls_tf_config_roles_key(reader, first->type, first->index).text);
    }
    return LS_OK;
}

/* Equal addresses lie side by side after sorting, which takes n log n comparisons where pairs would take n^2 / 2. Two
 * tasks of one address would end as a hang: the others would reach one process for both. */
static ls_status check_addresses(const struct ls_tf_reader *reader) {
    int count = reader->config->task_count, made = 0;
    LS_NEW_ARRAY(struct spelling, spellings, (size_t)count, "addresses");
    for (; made < count; made++) {
        const struct ls_task *task = &reader->config->tasks[made];
        spellings[made] = (struct spelling){ls_tf_config_address_canonical(task->host, task->port), made};
        if (!spellings[made].text) break;
    }
    ls_status status = LS_OK;
    if (made < count) {
        status = ls_fail_memory("an address", strlen(reader->config->tasks[made].host));
    } else {
        qsort(spellings, (size_t)count, sizeof(*spellings), compare_spellings);
        status = refuse_equal(reader, spellings, count);
    }
    while (made) ls_free(spellings[--made].text);
    ls_free(spellings);
    return status;
}

static size_t count_entries(const cJSON *cluster) {
    size_t count = 0;
    for (const cJSON *role = cluster->child; role; role = role->next)
        for (const cJSON *value = role->child; value; value = value->next) count++;
    return count;
}

static ls_status check_cluster(struct ls_tf_reader *reader) {
    struct ls_cluster_view *config = reader->config;
    if (!config->task_count)
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s lists no task at all; list every task's \"host:port\"",
                       reader->root);
    qsort(config->tasks, (size_t)config->task_count, sizeof(*config->tasks), compare_tasks);
    ls_status status = check_indices(reader);
    if (!status) status = check_single(reader, LS_TASK_CHIEF);
    if (!status) status = check_single(reader, LS_TASK_EVALUATOR);
    return status ? status : check_addresses(reader);
}

ls_status ls_tf_config_cluster_read(struct ls_tf_reader *reader) {
    size_t count = count_entries(reader->cluster);
    reader->config->tasks = ls_alloc_array(count, sizeof(*reader->config->tasks));
    if (!reader->config->tasks) return ls_fail_memory("tasks", count * sizeof(*reader->config->tasks));
    for (const cJSON *role = reader->cluster->child; role; role = role->next) {
        ls_status status = read_role(reader, role);
        if (status) return status;
    }
    return check_cluster(reader);
}
