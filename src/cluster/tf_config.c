/* From the text of TF_CONFIG to who is in the cluster and which task this process is: the order of the steps, the
 * identity rules of multi_worker_util (is_chief, worker_count, id_in_cluster), and the canonical text. */
#include "cluster/tf_config.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "cluster/tf_config_address.h"
#include "cluster/tf_config_reader.h"
#include "cluster/tf_config_syntax.h"

#define TEXT_LIMIT ((size_t)16 << 20) /* bytes; the job key of some emitters holds a whole job description */

ls_status ls_tf_find(const struct ls_json *object, const char *key, const char *path, const struct ls_json **value) {
    const struct ls_json *found = NULL;
    for (const struct ls_json *item = ls_json_first(object); item; item = ls_json_next(item)) {
        if (strcmp(ls_json_key(item), key)) continue;
        if (found) return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: the key %s stands twice; keep one", path);
        found = item;
    }
    *value = found && ls_json_kind(found) != LS_JSON_NULL ? found : NULL;
    return LS_OK;
}

static ls_status check_cluster_kind(const char *key, const struct ls_json *cluster) {
    if (!cluster || ls_json_kind(cluster) == LS_JSON_OBJECT) return LS_OK;
    if (ls_json_kind(cluster) == LS_JSON_STRING)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG: %s is the text %s, not an object; was it encoded as JSON twice?", key,
                       ls_json_quote(cluster).text);
    return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s is %s, not an object; write {\"worker\": [\"host:port\", ...]}",
                   key, ls_json_quote(cluster).text);
}

/* cluster, or sparseCluster, which TFJobs with dynamic workers wrote until 2023. */
static ls_status find_cluster(struct ls_tf_reader *reader, const struct ls_json *document) {
    const struct ls_json *dense = NULL, *sparse = NULL;
    ls_status status = ls_tf_find(document, "cluster", "cluster", &dense);
    if (!status) status = ls_tf_find(document, "sparseCluster", "sparseCluster", &sparse);
    if (!status) status = check_cluster_kind("cluster", dense);
    if (!status) status = check_cluster_kind("sparseCluster", sparse);
    if (status) return status;
    if (!ls_json_first(dense)) dense = NULL;
    if (!ls_json_first(sparse)) sparse = NULL;
    if (dense && sparse)
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: cluster and sparseCluster are both given; keep one");
    reader->cluster = dense ? dense : sparse;
    reader->root = sparse ? "sparseCluster" : "cluster";
    return LS_OK;
}

static ls_status find_parts(struct ls_tf_reader *reader, const struct ls_json *document) {
    if (ls_json_kind(document) == LS_JSON_STRING)
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG is the text %s, not an object; was it encoded as JSON twice?",
                       ls_json_quote(document).text);
    if (ls_json_kind(document) != LS_JSON_OBJECT)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG is %s, not an object; write {\"cluster\": {...}, \"task\": {...}}",
                       ls_json_quote(document).text);
    ls_status status = find_cluster(reader, document);
    if (!status) status = ls_tf_find(document, "task", "task", &reader->task);
    return status ? status : ls_tf_find(document, "rpc_layer", "rpc_layer", &reader->rpc_layer);
}

static ls_status check_rpc_layer(const struct ls_tf_reader *reader) {
    const struct ls_json *layer = reader->rpc_layer;
    if (!layer) return LS_OK;
    const char *name = ls_json_string(layer);
    if (ls_json_kind(layer) == LS_JSON_STRING && (!*name || !strcmp(name, "grpc"))) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "TF_CONFIG: rpc_layer is %s; only \"grpc\" is spoken here: write that, or leave it out",
                   ls_json_quote(layer).text);
}

static void identify_alone(struct ls_tf_config *config) {
    config->is_chief = true;
    config->num_workers = 1;
    config->id_in_cluster = 0;
}

static void identify(struct ls_tf_config *config) {
    int chiefs = ls_tf_count(config, LS_TASK_CHIEF);
    if (config->type == LS_TASK_EVALUATOR) {
        identify_alone(config); /* a cluster of its own */
        return;
    }
    config->num_workers = chiefs + ls_tf_count(config, LS_TASK_WORKER);
    config->id_in_cluster = config->type == LS_TASK_PS      ? -1
                            : config->type == LS_TASK_CHIEF ? 0
                                                            : chiefs + config->index;
    config->is_chief = config->id_in_cluster == 0;
}

static ls_status print_tasks(FILE *stream, const struct ls_tf_config *config, enum ls_task_type type) {
    for (int i = 0; i < config->task_count; i++) {
        const struct ls_task *task = &config->tasks[i];
        if (task->type != type) continue;
        LS_CLEANUP(ls_free_pointer) char *address = ls_address_canonical(task->host, task->port);
        if (!address) return ls_fail_memory("an address", strlen(task->host));
        (void)fprintf(stream, "cluster.%s[%d]=%s\n", ls_task_type_name(type), task->index, address);
    }
    return LS_OK;
}

/* The evaluator is left out: some emitters tell it to nobody but the evaluator itself. The counts come first, so that
 * a task too many is told as such and not as a difference of addresses. */
static ls_status print_canonical(FILE *stream, const struct ls_tf_config *config) {
    static const enum ls_task_type types[] = {LS_TASK_CHIEF, LS_TASK_WORKER, LS_TASK_PS};
    for (size_t i = 0; i < 3; i++)
        (void)fprintf(stream, "cluster.%s=%d tasks\n", ls_task_type_name(types[i]), ls_tf_count(config, types[i]));
    ls_status status = LS_OK;
    for (size_t i = 0; i < 3 && !status; i++) status = print_tasks(stream, config, types[i]);
    return status;
}

static ls_status make_canonical(struct ls_tf_config *config) {
    size_t size = 0;
    FILE *stream = open_memstream(&config->canonical, &size);
    if (!stream) return ls_fail_memory("the cluster's text", 0);
    ls_status status = print_canonical(stream, config);
    bool failed = ferror(stream) != 0;
    failed = fclose(stream) != 0 || failed;
    return !status && failed ? ls_fail_memory("the cluster's text", size) : status;
}

static ls_status read_cluster_mode(struct ls_tf_reader *reader) {
    struct ls_tf_config *config = reader->config;
    config->cluster_mode = true;
    ls_status status = check_rpc_layer(reader);
    if (!status) status = ls_tf_read_cluster(reader);
    if (!status) status = ls_tf_read_task(reader);
    if (status) return status;
    identify(config);
    status = ls_tf_warn_tasks(reader);
    return status ? status : make_canonical(config);
}

static ls_status read_document(struct ls_tf_config *config, const struct ls_json *document) {
    struct ls_tf_reader reader = {.config = config};
    ls_status status = find_parts(&reader, document);
    if (!status) status = ls_tf_warn_keys(&reader, document);
    return !status && reader.cluster ? read_cluster_mode(&reader) : status;
}

static ls_status read_text(struct ls_tf_config *config, const char *text) {
    size_t size = strlen(text);
    if (size > TEXT_LIMIT)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG has %zu bytes, more than 16 MiB; leave out what is not cluster or task", size);
    ls_status status = ls_json_check(text);
    if (status) return status;
    struct ls_json *document = ls_json_parse(text, size);
    if (!document) return ls_fail_memory("the tree of TF_CONFIG", size);
    status = read_document(config, document);
    ls_json_free(document);
    return status;
}

ls_status ls_tf_config_parse(const char *text, struct ls_tf_config **config) {
    struct ls_tf_config *made = ls_alloc(sizeof(*made));
    if (!made) return ls_fail_memory("a TF_CONFIG", sizeof(*made));
    identify_alone(made);
    ls_status status = text ? read_text(made, text) : LS_OK;
    if (status) {
        ls_tf_config_free(made);
        return status;
    }
    *config = made;
    return LS_OK;
}

void ls_tf_config_free(struct ls_tf_config *config) {
    if (!config) return;
    for (int i = 0; i < config->task_count; i++) {
        ls_free(config->tasks[i].address);
        ls_free(config->tasks[i].host);
    }
    for (int i = 0; i < config->warning_count; i++) ls_free(config->warnings[i]);
    ls_free(config->tasks);
    ls_free(config->warnings);
    ls_free(config->canonical);
    ls_free(config);
}

const struct ls_task *ls_tf_config_member(const struct ls_tf_config *config, int rank) {
    int chiefs = ls_tf_count(config, LS_TASK_CHIEF);
    if (rank < 0) return NULL;
    if (rank < chiefs) return ls_tf_task(config, LS_TASK_CHIEF, 0);
    return ls_tf_task(config, LS_TASK_WORKER, rank - chiefs);
}
