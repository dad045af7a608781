/* The members of the cluster and this process's task, from whatever source
 * (tf.distribute.cluster_resolver.ClusterResolver and multi_worker_util). The readers of resolver.h make it. */
#pragma once
#include <lockstep/lockstep.h>

enum ls_task_type { LS_TASK_NONE = 0, LS_TASK_CHIEF, LS_TASK_WORKER, LS_TASK_PS, LS_TASK_EVALUATOR };

struct ls_task {
    enum ls_task_type type;
    int index;
    char *address; /* as written, "host:port" */
    char *host;    /* without brackets */
    int port;
    char name[24]; /* "worker:1" */
};
#define LS_TASK_TYPES 5 /* of enum ls_task_type */

struct ls_cluster_view {
    bool cluster_mode;      /* false: local mode: no tasks, LS_TASK_NONE, chief, rank 0 of 1 */
    enum ls_task_type type; /* this task */
    int index;
    bool is_chief;
    int num_workers;       /* chief + workers; an evaluator counts itself only */
    int num_servers;       /* parameter servers; 0 for an evaluator */
    int id_in_cluster;     /* rank: chief, then workers by number; -1 for ps */
    struct ls_task *tasks; /* [task_count]: chief, workers by index, ps, evaluator */
    int task_count;
    char **warnings; /* [warning_count] */
    int warning_count;
    /* Rank 0 hands out the addresses of the workers here; tasks has them after ls_rendezvous_meet. */
    char *meet_host; /* "": this is rank 0, and no variable says its name */
    int meet_port;   /* 0: all addresses are known */
    uint64_t job;    /* equal for the workers of one job */
    char *canonical; /* lines "field=value" of chief, workers and ps, to compare between workers; NULL in local mode */
};
void ls_cluster_view_free(struct ls_cluster_view *spec);
/* "chief"; "" for NONE. */
const char *ls_cluster_view_type_name(enum ls_task_type type);
int ls_cluster_view_count(const struct ls_cluster_view *spec, enum ls_task_type type);
/* NULL if the cluster does not list that task. */
const struct ls_task *ls_cluster_view_task(const struct ls_cluster_view *spec, enum ls_task_type type, int index);
/* The task of rank: chief and workers, who train, then the parameter servers by index. Borrowed, NULL if there is none.
 * It takes no search. */
const struct ls_task *ls_cluster_view_member(const struct ls_cluster_view *spec, int rank);
/* The rank of this process among them; -1 for an evaluator, or where there is no cluster. */
int ls_cluster_view_rank(const struct ls_cluster_view *spec);
/* For readers. This process is the whole cluster. */
void ls_cluster_view_identify_alone(struct ls_cluster_view *spec);
/* For readers. Makes count worker tasks without addresses. */
ls_status ls_cluster_view_make_workers(struct ls_cluster_view *spec, int count);
/* For readers. Gives a task its address; host is copied. */
ls_status ls_cluster_view_place(struct ls_task *task, const char *host, int port);
/* For readers, when tasks, type and index are there: fills in the rest. May be called again when addresses changed. */
ls_status ls_cluster_view_complete(struct ls_cluster_view *spec);
/* A cluster of one worker at "host:port". INVALID_ARGUMENT says how to write the address. */
ls_status ls_cluster_view_of_address(const char *address, struct ls_cluster_view **spec);
