/* The source of the cluster that this process is in, and the lines of the log about it. */
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/settings.h"
#include "resolver/resolver.h"
#include "resolver/readers.h"

/* All workers under lockstep run have the same environment. The first speaks for it. */
void ls_cluster_source_warn(const struct ls_runtime *runtime, bool first) {
    bool speaks = first || !*runtime->settings.run_id;
    struct ls_unknown unknown;
    for (size_t at = 0; ls_unknown_next(&at, &unknown);)
        ls_log_shared(&runtime->log, speaks, LS_LOG_WARNING,
                      "%s in the environment is no setting, and changes nothing%s%s%s (lockstep settings lists them)",
                      unknown.name, unknown.nearest ? "; is " : "", unknown.nearest ? unknown.nearest : "",
                      unknown.nearest ? " meant?" : "");
}

/* Checks a process without a cluster. It warns in a job of Slurm's that has several tasks, since they meant one
 * cluster. It fails if LOCKSTEP_REQUIRE_CLUSTER is 1. */
static ls_status check_alone(const struct ls_runtime *runtime) {
    int tasks;
    bool first, several = ls_slurm_lacks_step(&tasks, &first);
    if (runtime->settings.require_cluster)
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "LOCKSTEP_REQUIRE_CLUSTER is 1, and neither TF_CONFIG nor a launcher's variables have a cluster: "
            "give each process its TF_CONFIG, or start them with lockstep run, srun, mpirun or torchrun");
    if (several && !getenv("TF_CONFIG") && !*runtime->settings.cluster)
        ls_log_shared(
            &runtime->log, first, LS_LOG_WARNING,
            "SLURM_NTASKS is %d, but this process is in no step of srun: it works alone, as rank 0 of 1; start "
            "it with srun or lockstep run (LOCKSTEP_CLUSTER=none is without this warning, and "
            "LOCKSTEP_REQUIRE_CLUSTER=1 makes it an error)",
            tasks);
    return LS_OK;
}

/* Says which launcher's variables are in force, where TF_CONFIG's are not, and which others are not read. */
static void tell_source(const struct ls_runtime *runtime, const struct ls_resolution *resolution, bool speaks) {
    const struct ls_cluster_view *config = runtime->config;
    if (!config->cluster_mode) return;
    if (strcmp(resolution->source, "tf_config") != 0)
        ls_log_shared(&runtime->log, speaks, LS_LOG_INFO, "the cluster is that of %s: rank %d of %d",
                      resolution->source, config->id_in_cluster, config->num_workers);
    for (int i = 0; i < resolution->ignored_count && !*runtime->settings.run_id; i++)
        ls_log_shared(&runtime->log, speaks, LS_LOG_INFO, "the variables of %s are not read: %s",
                      resolution->ignored[i].source, resolution->ignored[i].why);
}

ls_status ls_cluster_source_read(struct ls_runtime *runtime, const char *tf_config) {
    struct ls_resolution resolution;
    ls_status status = ls_resolver_read(tf_config, &runtime->config, &resolution);
    if (status) return status;
    const struct ls_cluster_view *config = runtime->config;
    if (config->cluster_mode)
        (void)snprintf(runtime->log.name, sizeof(runtime->log.name), "%s:%d", ls_cluster_view_type_name(config->type),
                       config->index);
    ls_status_speaks(runtime->log.name);
    bool speaks = !config->cluster_mode || config->id_in_cluster <= 0 || config->num_workers <= LS_LOG_FEW;
    for (int i = 0; i < config->warning_count; i++)
        ls_log_shared(&runtime->log, speaks, LS_LOG_WARNING, "TF_CONFIG: %s", config->warnings[i]);
    tell_source(runtime, &resolution, speaks);
    ls_cluster_source_warn(runtime, config->id_in_cluster <= 0);
    if (!config->cluster_mode) return check_alone(runtime);
    if (runtime->use == LS_RUNTIME_BARE && config->type == LS_TASK_PS)
        return ls_fail(
            LS_INVALID_ARGUMENT,
            "TF_CONFIG: this task is ps:%d; a communicator is for workers: run lockstep serve there, or give it the "
            "type worker",
            config->index);
    return LS_OK;
}
