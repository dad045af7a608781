/* TF_CONFIG: who the tasks are and which of them is this process
 * (tf.distribute.cluster_resolver.TFConfigClusterResolver and multi_worker_util). Opens no port. */
#pragma once
#include <lockstep/lockstep.h>

enum ls_task_type { LS_TASK_NONE = 0, LS_TASK_CHIEF, LS_TASK_WORKER, LS_TASK_PS, LS_TASK_EVALUATOR };
const char *ls_task_type_name(enum ls_task_type type); /* "chief"; "" for NONE */

struct ls_task {
    enum ls_task_type type;
    int index;
    char *address; /* as written, "host:port" */
    char *host;    /* without brackets */
    int port;
};
struct ls_tf_config {
    bool cluster_mode;      /* false: local mode: no tasks, LS_TASK_NONE, chief, rank 0 of 1 */
    enum ls_task_type type; /* this task */
    int index;
    bool is_chief;
    int num_workers;       /* chief + workers; an evaluator counts itself only */
    int id_in_cluster;     /* rank: chief, then workers by number; -1 for ps */
    struct ls_task *tasks; /* [task_count]: chief, workers by index, ps, evaluator */
    int task_count;
    char **warnings; /* [warning_count] */
    int warning_count;
    char *canonical; /* lines "field=value" of chief, workers and ps, to compare between workers; NULL in local mode */
};
/* text NULL: the variable is absent. INVALID_ARGUMENT with one error that names the key, the value and the mend. */
ls_status ls_tf_config_parse(const char *text, struct ls_tf_config **config);
void ls_tf_config_free(struct ls_tf_config *config);
/* The task of rank in the group that trains (chief and workers): borrowed, NULL if there is none. */
const struct ls_task *ls_tf_config_member(const struct ls_tf_config *config, int rank);
