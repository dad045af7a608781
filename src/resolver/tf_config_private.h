/* The values found and the config that is being filled, for the parts of the TF_CONFIG parser. */
#pragma once
#include <lockstep/lockstep.h>

#include "resolver/tf_config.h"
#include "resolver/tf_config_json.h"

struct ls_tf_reader {
    struct ls_cluster_view *config;          /* being filled; borrowed */
    const cJSON *cluster, *task, *rpc_layer; /* NULL where absent or null */
    const char *root;                        /* the cluster's key: "cluster" or "sparseCluster" */
    bool in_cluster[LS_TASK_TYPES];          /* the role's key is there, though it may be empty */
    bool is_map[LS_TASK_TYPES];              /* given as {"index": address} */
};

/* Looks up key in object, which may be NULL; *value is NULL when it is absent or null. path names the key in the error
 * for two of them. */
ls_status ls_tf_config_find(const cJSON *object, const char *key, const char *path, const cJSON **value);

/* The path of a task in the document, for messages: cluster.worker[1], or cluster.worker["3"] in a map. */
struct ls_tf_key {
    char text[64];
};

/* Fills config->tasks from the cluster: roles, addresses, no address twice. */
ls_status ls_tf_config_cluster_read(struct ls_tf_reader *reader);

/* Fills config->type and config->index from the task, and checks them against the tasks. */
ls_status ls_tf_config_task_read(struct ls_tf_reader *reader);

/* Adds warnings to the config: of the document root (keys that are ignored but look meant), and of the tasks. */
ls_status ls_tf_config_warn_keys(const struct ls_tf_reader *reader, const cJSON *document);
ls_status ls_tf_config_warn_tasks(const struct ls_tf_reader *reader);

const char *ls_tf_config_roles_hint(const char *name);
struct ls_tf_key ls_tf_config_roles_key(const struct ls_tf_reader *reader, enum ls_task_type type, int index);
/* LS_TASK_NONE for an unknown name; then ls_tf_config_roles_hint says what may have been meant ("" if nothing is
 * known). */
enum ls_task_type ls_tf_config_roles_parse(const char *name);
