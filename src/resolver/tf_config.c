/* From the text of TF_CONFIG to who is in the cluster and which task this process is: the order of the steps. */
#include "resolver/tf_config.h"

#include <stdio.h>
#include <string.h>

#include "base/new.h"
#include "resolver/tf_config_private.h"

#define TEXT_LIMIT ((size_t)16 << 20) /* bytes; the job key of some emitters holds a whole job description */

ls_status ls_tf_config_find(const cJSON *object, const char *key, const char *path, const cJSON **value) {
    const cJSON *found = NULL, *item;
    cJSON_ArrayForEach(item, object) {
        if (strcmp(item->string, key)) continue;
        if (found) return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: the key %s stands twice; keep one", path);
        found = item;
    }
    *value = found && !cJSON_IsNull(found) ? found : NULL;
    return LS_OK;
}

static ls_status check_cluster_kind(const char *key, const cJSON *cluster) {
    if (!cluster || cJSON_IsObject(cluster)) return LS_OK;
    if (cJSON_IsString(cluster))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG: %s is the text %s, not an object; was it encoded as JSON twice?", key,
                       ls_tf_config_json_quote(cluster).text);
    return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: %s is %s, not an object; write {\"worker\": [\"host:port\", ...]}",
                   key, ls_tf_config_json_quote(cluster).text);
}

/* cluster, or sparseCluster, which TFJobs with dynamic workers wrote until 2023. */
static ls_status find_cluster(struct ls_tf_reader *reader, const cJSON *document) {
    const cJSON *dense = NULL, *sparse = NULL;
    ls_status status = ls_tf_config_find(document, "cluster", "cluster", &dense);
    if (!status) status = ls_tf_config_find(document, "sparseCluster", "sparseCluster", &sparse);
    if (!status) status = check_cluster_kind("cluster", dense);
    if (!status) status = check_cluster_kind("sparseCluster", sparse);
    if (status) return status;
    if (dense && !dense->child) dense = NULL;
    if (sparse && !sparse->child) sparse = NULL;
    if (dense && sparse)
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG: cluster and sparseCluster are both given; keep one");
    reader->cluster = dense ? dense : sparse;
    reader->root = sparse ? "sparseCluster" : "cluster";
    return LS_OK;
}

static ls_status find_parts(struct ls_tf_reader *reader, const cJSON *document) {
    if (cJSON_IsString(document))
        return ls_fail(LS_INVALID_ARGUMENT, "TF_CONFIG is the text %s, not an object; was it encoded as JSON twice?",
                       ls_tf_config_json_quote(document).text);
    if (!cJSON_IsObject(document))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG is %s, not an object; write {\"cluster\": {...}, \"task\": {...}}",
                       ls_tf_config_json_quote(document).text);
    ls_status status = find_cluster(reader, document);
    if (!status) status = ls_tf_config_find(document, "task", "task", &reader->task);
    return status ? status : ls_tf_config_find(document, "rpc_layer", "rpc_layer", &reader->rpc_layer);
}

static ls_status check_rpc_layer(const struct ls_tf_reader *reader) {
    const cJSON *layer = reader->rpc_layer;
    if (!layer) return LS_OK;
    const char *name = layer->valuestring;
    if (cJSON_IsString(layer) && (!*name || !strcmp(name, "grpc"))) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "TF_CONFIG: rpc_layer is %s; only \"grpc\" is spoken here: write that, or leave it out",
                   ls_tf_config_json_quote(layer).text);
}

static ls_status read_cluster_mode(struct ls_tf_reader *reader) {
    struct ls_cluster_view *config = reader->config;
    ls_status status = check_rpc_layer(reader);
    if (!status) status = ls_tf_config_cluster_read(reader);
    if (!status) status = ls_tf_config_task_read(reader);
    if (status) return status;
    status = ls_cluster_view_complete(config);
    return status ? status : ls_tf_config_warn_tasks(reader);
}

static ls_status read_document(struct ls_cluster_view *config, const cJSON *document) {
    struct ls_tf_reader reader = {.config = config};
    ls_status status = find_parts(&reader, document);
    if (!status) status = ls_tf_config_warn_keys(&reader, document);
    return !status && reader.cluster ? read_cluster_mode(&reader) : status;
}

static ls_status read_tf_config_text(struct ls_cluster_view *config, const char *text) {
    size_t size = strlen(text);
    if (size > TEXT_LIMIT)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "TF_CONFIG has %zu bytes, more than 16 MiB; leave out what is not cluster or task", size);
    LS_CLEANUP(ls_tf_config_json_free) cJSON *document = NULL;
    ls_status status = ls_tf_config_json_read(text, &document);
    return status ? status : read_document(config, document);
}

ls_status ls_tf_config_parse(const char *text, struct ls_cluster_view **config) {
    LS_NEW(struct ls_cluster_view, made, "a TF_CONFIG");
    ls_cluster_view_identify_alone(made);
    ls_status status = text ? read_tf_config_text(made, text) : LS_OK;
    return LS_HAND_OVER(status, config, made, ls_cluster_view_free(made));
}
