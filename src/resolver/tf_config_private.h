/* The values found and the config that is being filled, for the parts of the TF_CONFIG parser. */
#pragma once
#include <lockstep/lockstep.h>

#include "resolver/tf_config.h"
#include "resolver/tf_config_json.h"

struct ls_tf_reader {
    struct ls_cluster_view *config;                             /* being filled; borrowed */
    const struct ls_tf_config_json *cluster, *task, *rpc_layer; /* NULL where absent or null */
    const char *root;                                           /* the cluster's key: "cluster" or "sparseCluster" */
    bool in_cluster[LS_TASK_TYPES];                             /* the role's key is there, though it may be empty */
    bool is_map[LS_TASK_TYPES];                                 /* given as {"index": address} */
};

/* Looks up key in object; *value is NULL when it is absent or null. path names the key in the error for two of them. */
ls_status ls_tf_config_find(const struct ls_tf_config_json *object, const char *key, const char *path,
                            const struct ls_tf_config_json **value);

/* The path of a task in the document, for messages: cluster.worker[1], or cluster.worker["3"] in a map. */
struct ls_tf_key {
    char text[64];
};
