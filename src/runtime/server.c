/* A parameter server as a handle (tf.distribute.Server): the runtime of a ps task, which serves in a thread of its own
 * (serving.c). TensorFlow's servers know nothing of a training's end; these end with the workers. */
#include <stdio.h>
#include <string.h>

#include "base/kept_error.h"
#include "base/need.h"
#include "base/new.h"
#include "base/options.h"
#include "base/text.h"
#include "resolver/resolver.h"
#include "runtime/runtime.h"
#include "runtime/serving.h"

struct ls_server {
    struct ls_runtime *runtime;
    char *target;
};

/* The job and index that are meant where the caller leaves them out. */
static ls_status choose_task(const ls_cluster_spec *spec, const char **job, int *index) {
    int count = 0;
    if (!*job && ls_cluster_spec_num_jobs(spec) != 1)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_server_new: the cluster has %d jobs; name one, such as ps",
                       ls_cluster_spec_num_jobs(spec));
    if (!*job) *job = ls_cluster_spec_job(spec, 0);
    ls_status status = ls_cluster_spec_num_tasks(spec, *job, &count);
    if (status || *index != -1) return status;
    if (count == 1) return ls_cluster_spec_task_indices(spec, *job, 1, index);
    return ls_fail(LS_INVALID_ARGUMENT, "ls_server_new: the job %.80s has %d tasks; say the index of this one", *job,
                   count);
}

/* TF_CONFIG as the task has it. */
static ls_status write_config(const ls_cluster_spec *spec, const char *job, int index, char **config) {
    const char *address = NULL;
    char *cluster = NULL;
    ls_status status = choose_task(spec, &job, &index);
    if (!status) status = ls_cluster_spec_task_address(spec, job, index, &address);
    if (!status && strcmp(job, "ps") != 0)
        status =
            ls_fail(LS_INVALID_ARGUMENT,
                    "ls_server_new: this task is %.80s:%d, and only ps tasks are servers of their own; a worker's is "
                    "in its strategy: call ls_multi_worker_mirrored_strategy_new",
                    job, index);
    if (!status) status = ls_cluster_spec_json(spec, &cluster);
    if (status) return status;
    struct ls_text text;
    FILE *out = ls_text_open(&text, strlen(cluster));
    if (out) (void)fprintf(out, "{\"cluster\": %s, \"task\": {\"type\": \"ps\", \"index\": %d}}", cluster, index);
    ls_memory_free(cluster);
    return ls_text_close(&text, LS_OK, "a TF_CONFIG", config);
}

/* Before a runtime would join the cluster as a worker. */
static ls_status check_task(const char *config) {
    struct ls_cluster_view *view = NULL;
    ls_status status = ls_resolver_read(config, &view, NULL);
    if (status) return status;
    if (view->type != LS_TASK_PS)
        status = ls_fail(LS_INVALID_ARGUMENT,
                         "TF_CONFIG does not make this process a ps task: lockstep check says what it is");
    ls_cluster_view_free(view);
    return status;
}

static ls_status note_target(struct ls_server *server) {
    const struct ls_cluster_view *view = server->runtime->config;
    struct ls_text text;
    FILE *out = ls_text_open(&text, 1);
    if (out) (void)fprintf(out, "grpc://%s", ls_cluster_view_task(view, view->type, view->index)->address);
    return ls_text_close(&text, LS_OK, "a target", &server->target);
}

static ls_status start_server(struct ls_server *server, const ls_strategy_options *options) {
    ls_status status = check_task(options->tf_config);
    if (!status) status = ls_runtime_new(options, true, LS_RUNTIME_TRAINS, &server->runtime);
    return status ? status : note_target(server);
}

ls_status ls_server_new(const ls_cluster_spec *spec, const char *job, int index, const ls_strategy_options *options,
                        ls_server **server) {
    ls_strategy_options own;
    LS_CLEANUP(ls_free_pointer) char *config = NULL;
    LS_NEED(server);
    ls_status status = ls_options_copy("ls_strategy_options", &own, sizeof(own), options);
    if (status) return status;
    if (spec ? own.tf_config != NULL : job || index != -1)
        return ls_fail(LS_INVALID_ARGUMENT, "ls_server_new: %s",
                       spec ? "spec and options have a cluster each; give one"
                            : "a job or an index needs a spec; without one TF_CONFIG says both: give NULL and -1");
    if (spec) status = write_config(spec, job, index, &config);
    if (status) return status;
    if (spec) own.tf_config = config;
    LS_NEW(ls_server, made, "a server");
    status = start_server(made, &own);
    if (!status) {
        *server = made;
        return LS_OK;
    }
    struct ls_kept_error kept = ls_kept_error_of(status);
    ls_server_free(made);
    return ls_kept_error_raise(&kept);
}

const char *ls_server_target(const ls_server *server) {
    LS_NEED_OR(NULL, server);
    return server->target;
}

ls_status ls_server_join(ls_server *server) {
    LS_NEED(server);
    return ls_runtime_serve(server->runtime);
}

ls_status ls_server_stop(ls_server *server) {
    LS_NEED(server);
    if (server->runtime->server) ls_serving_stop(server->runtime->server);
    return LS_OK;
}

/* A stop leaves no flight record: it is no failure. */
void ls_server_free(ls_server *server) {
    if (!server) return;
    if (server->runtime) {
        (void)ls_server_stop(server);
        (void)ls_runtime_close(server->runtime, ls_runtime_serve(server->runtime));
    }
    ls_free(server->target);
    ls_free(server);
}
