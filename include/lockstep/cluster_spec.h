/* The tasks of a cluster and where they listen (tf.train.ClusterSpec), and a parameter server of one
 * (tf.distribute.Server). Part of the public API, included by lockstep.h. */
#ifndef LOCKSTEP_CLUSTER_SPEC_H
#define LOCKSTEP_CLUSTER_SPEC_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Jobs of any name, each with tasks by index. Indices may have holes. Opens no port and looks up no name. */
typedef struct ls_cluster_spec ls_cluster_spec;
/* From a JSON object such as {"worker": ["a:2222", "b:2222"], "ps": {"3": "c:2222"}}, or from a TF_CONFIG that has it
 * under "cluster". NULL: no job yet. INVALID_ARGUMENT names the job, the index, the value and what to write. */
LS_API ls_status ls_cluster_spec_new(const char *cluster, ls_cluster_spec **spec);
LS_API void ls_cluster_spec_free(ls_cluster_spec *spec);
/* Adds a task at "host:port"; both texts are copied. INVALID_ARGUMENT for an index that the job has already, an address
 * that another task has, an address that is none, an empty job and an index outside 0 .. 999999999. */
LS_API ls_status ls_cluster_spec_add(ls_cluster_spec *spec, const char *job, int index, const char *address);
LS_API int ls_cluster_spec_num_jobs(const ls_cluster_spec *spec); /* those that have a task */
/* ClusterSpec.jobs, in the order of their names: name 0 .. num_jobs - 1. Borrowed until the spec changes; NULL outside. */
LS_API const char *ls_cluster_spec_job(const ls_cluster_spec *spec, int number);
/* The next three: NOT_FOUND names an unknown job and the jobs that there are (TensorFlow: ValueError). */
LS_API ls_status ls_cluster_spec_num_tasks(const ls_cluster_spec *spec, const char *job, int *count);
/* Writes the first count indices of the job's tasks, or all where they are fewer, in rising order. */
LS_API ls_status ls_cluster_spec_task_indices(const ls_cluster_spec *spec, const char *job, int count, int *indices);
/* Borrowed until the spec changes. NOT_FOUND also names an index without a task. */
LS_API ls_status ls_cluster_spec_task_address(const ls_cluster_spec *spec, const char *job, int index, const char **address);
/* TF_CONFIG's "cluster": a job is a list, or an object {"index": address} where indices have holes (as_dict). *json is
 * freed with ls_memory_free. */
LS_API ls_status ls_cluster_spec_json(const ls_cluster_spec *spec, char **json);
/* True if both have the same jobs, indices and addresses as written, in whatever order they came. */
LS_API bool ls_cluster_spec_equal(const ls_cluster_spec *spec, const ls_cluster_spec *other);

/* ---- tf.distribute.Server ---------------------------------------------------------------------------------------- */

/* A task that serves a cluster: a parameter server, which adds gradients for the workers without a model of its own.
 * The strategies and communicators of workers have their server inside. */
typedef struct ls_server ls_server;
/* Begins to serve in a thread of its own, before or after the workers come. job may be NULL where spec has one job, and
 * index -1 where the job has one task. options: those of a strategy, or NULL; without tf_config. A NULL spec with a
 * NULL job and index -1 means TF_CONFIG. spec is copied. NOT_FOUND: spec has no such task. INVALID_ARGUMENT: the job is
 * not ps, spec lists a job that no training has, or spec has several and none is named. */
LS_API ls_status ls_server_new(const ls_cluster_spec *spec, const char *job, int index, const ls_strategy_options *options,
                               ls_server **server);
/* "grpc://host:port" of this task; borrowed. */
LS_API const char *ls_server_target(const ls_server *server);
/* Waits until the workers have finished (TensorFlow's join never returns), in any number of threads. LS_OK: their chief
 * closed in order, or LOCKSTEP_PS is off. CANCELLED: they have stopped as one was asked, ls_server_stop, or LS_STOP of the
 * options' request, after which the server serves until its workers have left (LOCKSTEP_STOP_GRACE). UNAVAILABLE and others:
 * why the workers are lost. */
LS_API ls_status ls_server_join(ls_server *server);
/* Ends it, from any thread, also while another one joins; the workers go on without it. TensorFlow has no such call. */
LS_API ls_status ls_server_stop(ls_server *server);
/* Stops it where it still serves, and frees it; no other thread may be in a call of it. */
LS_API void ls_server_free(ls_server *server);

#ifdef __cplusplus
}
#endif
#endif
