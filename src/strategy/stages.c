/* A strategy whose workers have stages of a model: each one stage, on one CPU device. */
#include "strategy/stages.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"

enum { MOST_STAGES = 64 };

ls_status ls_stages_check_options(const char *kind, bool divides, const ls_strategy_options *options) {
    int stages = options->stages;
    if (stages < 0 || stages > MOST_STAGES)
        return ls_fail(LS_INVALID_ARGUMENT, "stages %d is not in 0 .. %d", stages, MOST_STAGES);
    if (stages < 2) return LS_OK;
    if (!divides)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: stages %d are on the workers of MultiWorkerMirroredStrategy; leave stages out", kind,
                       stages);
    if (options->shard)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: each of %d stages has its own moments already; leave shard %s or stages out", kind, stages,
                       ls_option_names_sharding(options->shard));
    if (options->communication || options->compression || options->replicas)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: stages %d are those of one replica, whose gradients nobody adds to; leave communication, "
                       "compression and replicas out",
                       kind, stages);
    return LS_OK;
}

ls_status ls_stages_check_workers(const ls_strategy *strategy, const char *kind) {
    const struct ls_runtime *runtime = strategy->runtime;
    if (strategy->options.stages < 2) return LS_OK;
    if (runtime->tasks % strategy->options.stages)
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: stages %d do not divide %d workers: a stage of each replica is one worker's", kind,
                       strategy->options.stages, runtime->tasks);
    if (ls_runtime_is_elastic(runtime))
        return ls_fail(LS_INVALID_ARGUMENT,
                       "%s: stages %d need all workers, and elastic goes on with fewer; leave one of them out", kind,
                       strategy->options.stages);
    if (strategy->device_count > 1 || !strategy->replicas[0].device->host_memory)
        return ls_fail(LS_UNIMPLEMENTED,
                       "%s: a stage is computed on one CPU device, and this worker has %d, the first %s: give devices "
                       "cpu:0, or leave stages out",
                       kind, strategy->device_count, strategy->replicas[0].device->name);
    return LS_OK;
}

int ls_stages_replicas(const ls_strategy *strategy) {
    return strategy->runtime->tasks / strategy->options.stages;
}

int ls_stages_replica(const ls_strategy *strategy) {
    return strategy->runtime->rank / strategy->options.stages;
}

int ls_stages_stage(const ls_strategy *strategy) {
    return strategy->runtime->rank % strategy->options.stages;
}

ls_status ls_stages_crew(ls_strategy *strategy, struct ls_group **group) {
    struct ls_ranks *crew = &strategy->crew;
    int replicas = ls_stages_replicas(strategy), stage = ls_stages_stage(strategy);
    ls_status status = LS_OK;
    if (!crew->group) {
        ls_free(strategy->crew_members);
        strategy->crew_members = ls_alloc_array((size_t)replicas, sizeof(int));
        if (!strategy->crew_members) return ls_fail_memory("the workers of a stage", (size_t)replicas * sizeof(int));
        for (int r = 0; r < replicas; r++) strategy->crew_members[r] = r * strategy->options.stages + stage;
        *crew = (struct ls_ranks){.rank = ls_stages_replica(strategy),
                                  .size = replicas,
                                  .members = strategy->crew_members,
                                  .runtime = strategy->runtime};
        status = ls_runtime_make_group(crew, 1 + (uint32_t)stage);
    }
    *group = crew->group;
    return status;
}

void ls_stages_dismiss(ls_strategy *strategy) {
    ls_group_free(ls_steal(strategy->crew.group));
    ls_free(ls_steal(strategy->crew_members));
}

void ls_stages_announce(const ls_strategy *strategy) {
    int replicas = ls_stages_replicas(strategy);
    ls_runtime_tell(strategy->runtime,
                    "a pipeline of %d stages: each worker computes a range of the layers; %d replica%s",
                    strategy->options.stages, replicas, replicas == 1 ? "" : "s");
}
