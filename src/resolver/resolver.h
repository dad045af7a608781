/* The table of cluster resolvers: readers of the environments of launchers. A new launcher is one function and one row.
 * The source that is nearest to the process wins: TF_CONFIG, then what starts processes on hosts (horovodrun, torchrun,
 * mpirun), then what hands out hosts (Slurm), then services and clouds. */
#pragma once
#include "resolver/cluster_view.h"
#include "resolver/launcher.h"

#define LS_SOURCES 12
#define LS_WHY     400

struct ls_ignored {
    const char *source; /* as LOCKSTEP_CLUSTER has it */
    char why[LS_WHY];
};
struct ls_resolution {
    const char *source; /* "tf_config", "slurm" and so on; "none" in local mode */
    struct ls_ignored ignored[LS_SOURCES];
    int ignored_count;
};

/* Reads tf_config, or, where it is NULL, the environment; local mode where nothing says anything. LOCKSTEP_CLUSTER
 * forces a source, or "none". INVALID_ARGUMENT: the reader's; or two sources of one level, or TF_CONFIG and a launcher,
 * say other ranks or sizes; or the source in force names no addresses. resolution: may be NULL. */
ls_status ls_resolver_read(const char *tf_config, struct ls_cluster_view **spec, struct ls_resolution *resolution);
