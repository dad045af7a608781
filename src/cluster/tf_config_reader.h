/* What the parts of the TF_CONFIG parser share: the values found, and the config that is being filled. */
#pragma once
#include <lockstep/lockstep.h>

#include "cluster/tf_config.h"
#include "cluster/tf_config_json.h"

#define LS_TASK_TYPES 5 /* of enum ls_task_type */

struct ls_tf_reader {
    struct ls_tf_config *config;                      /* being filled; borrowed */
    const struct ls_json *cluster, *task, *rpc_layer; /* NULL where absent or null */
    const char *root;                                 /* the cluster's key: "cluster" or "sparseCluster" */
    bool in_cluster[LS_TASK_TYPES];                   /* the role's key is there, though it may be empty */
    bool is_map[LS_TASK_TYPES];                       /* given as {"index": address} */
};

/* Looks up key in object; *value is NULL when it is absent or null. path names the key in the error for two of them. */
ls_status ls_tf_find(const struct ls_json *object, const char *key, const char *path, const struct ls_json **value);
/* Fills config->tasks from the cluster: roles, addresses, no address twice. */
ls_status ls_tf_read_cluster(struct ls_tf_reader *reader);
/* Fills config->type and config->index from the task, and checks them against the tasks. */
ls_status ls_tf_read_task(struct ls_tf_reader *reader);
/* Adds a warning to the config (the words are copied). */
ls_status ls_tf_warn(struct ls_tf_config *config, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds what deserves a word: of the document root (keys that are ignored but look meant), and of the tasks. */
ls_status ls_tf_warn_keys(const struct ls_tf_reader *reader, const struct ls_json *document);
ls_status ls_tf_warn_tasks(const struct ls_tf_reader *reader);

int ls_tf_count(const struct ls_tf_config *config, enum ls_task_type type);
/* NULL if the cluster does not list that task. */
const struct ls_task *ls_tf_task(const struct ls_tf_config *config, enum ls_task_type type, int index);
/* LS_TASK_NONE for an unknown name; then ls_task_type_hint says what may have been meant ("" if nothing is known). */
enum ls_task_type ls_task_type_parse(const char *name);
const char *ls_task_type_hint(const char *name);

/* The path of a task in the document, for messages: cluster.worker[1], or cluster.worker["3"] in a map. */
struct ls_tf_key {
    char text[64];
};
struct ls_tf_key ls_tf_task_key(const struct ls_tf_reader *reader, enum ls_task_type type, int index);
