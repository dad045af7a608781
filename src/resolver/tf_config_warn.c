/* Warnings about a legal TF_CONFIG: keys that will be ignored but look meant, ps tasks, loopback addresses beside
 * remote ones, a dynamic cluster of one. */
#include "resolver/tf_config_private.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "resolver/tf_config.h"
#include "base/plain.h"

#define WARNING_LIMIT 16 /* more of them would not be read */

/* The words are copied. */
__attribute__((format(printf, 2, 3))) static ls_status add_warning(struct ls_cluster_view *config, const char *format,
                                                                   ...) {
    char text[512];
    (void)LS_PLAIN_ARGUMENTS(text, sizeof(text), format);
    if (!config->warnings) config->warnings = ls_alloc_array(WARNING_LIMIT, sizeof(*config->warnings));
    if (!config->warnings) return ls_fail_memory("warnings", WARNING_LIMIT * sizeof(*config->warnings));
    if (config->warning_count == WARNING_LIMIT) return LS_OK;
    char *copy = ls_strdup(text);
    if (!copy) return ls_fail_memory("a warning", strlen(text) + 1);
    config->warnings[config->warning_count++] = copy;
    return LS_OK;
}

static ls_status warn_key(const struct ls_tf_reader *reader, const char *key) {
    static const char *const meant[] = {"cluster", "task", "sparseCluster"};
    if (!strcmp(key, "rpc_layer")) return LS_OK;
    for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++)
        if (ls_plain_same(key, meant[i]))
            return strcmp(key, meant[i]) == 0 ? LS_OK
                                              : add_warning(reader->config, "the key %s is ignored; write it \"%s\"",
                                                            ls_tf_config_json_quote_text(key).text, meant[i]);
    if (!reader->cluster && ls_tf_config_roles_parse(key))
        return add_warning(reader->config, "the key %s is ignored here; roles stand inside \"cluster\"",
                           ls_tf_config_json_quote_text(key).text);
    return LS_OK;
}

ls_status ls_tf_config_warn_keys(const struct ls_tf_reader *reader, const cJSON *document) {
    for (const cJSON *item = document->child; item; item = item->next) {
        ls_status status = warn_key(reader, item->string);
        if (status) return status;
    }
    if (reader->cluster || !reader->task || !reader->task->child) return LS_OK;
    return add_warning(reader->config, "task is given but no cluster; this process trains alone");
}

static ls_status warn_loopback(const struct ls_tf_reader *reader) {
    const struct ls_task *local = NULL, *remote = NULL;
    const struct ls_cluster_view *config = reader->config;
    for (int i = config->task_count - 1; i >= 0; i--) {
        if (ls_tf_config_address_is_nowhere(config->tasks[i].host)) continue;
        *(ls_tf_config_address_is_loopback(config->tasks[i].host) ? &local : &remote) = &config->tasks[i];
    }
    if (!local || !remote) return LS_OK;
    return add_warning(reader->config,
                       "%s is %s, a loopback address, beside %s at %s: tasks on other machines cannot reach it",
                       ls_tf_config_roles_key(reader, local->type, local->index).text,
                       ls_tf_config_json_quote_text(local->address).text,
                       ls_tf_config_roles_key(reader, remote->type, remote->index).text,
                       ls_tf_config_json_quote_text(remote->address).text);
}

/* TFJob's dynamic workers see only themselves; worker 0 then looks like a whole cluster. */
static ls_status warn_alone(const struct ls_tf_reader *reader) {
    const struct ls_cluster_view *config = reader->config;
    if (config->type != LS_TASK_WORKER || !reader->is_map[LS_TASK_WORKER] || config->num_workers != 1) return LS_OK;
    return add_warning(reader->config,
                       "%s.worker is a map with this task's own entry only (a dynamic cluster?); it trains alone",
                       reader->root);
}

ls_status ls_tf_config_warn_tasks(const struct ls_tf_reader *reader) {
    ls_status status = warn_loopback(reader);
    return status ? status : warn_alone(reader);
}
