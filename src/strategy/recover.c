/* Recovery of a strategy from a lost worker (docs/protocol.md). All threads leave the step. The participants let go of
 * the group. The next generation begins. The failed call begins its transaction again. */

#include "base/need.h"
#include "strategy/participant.h"
#include "strategy/stages.h"
#include "strategy/strategy.h"

static void say_formed(const ls_strategy *strategy, double seconds) {
    const struct ls_runtime *runtime = strategy->runtime;
    unsigned long long number = runtime->generation;
    int tasks = runtime->tasks;
    bool speaks = ls_runtime_speaks(runtime);
    char own[48];
    ls_strategy_replicas_text(strategy->replicas[0].id, strategy->local_count, own, sizeof(own));
    if (runtime->size == tasks)
        ls_log_shared(
            &runtime->log, speaks, LS_LOG_INFO,
            "recovered: all %d workers are there after %.2f s (generation %llu: each attempt to form the group counts)",
            tasks, seconds, number);
    else
        ls_log_shared(&runtime->log, speaks, LS_LOG_INFO,
                      "recovered: %d of %d workers go on after %.2f s; this one is rank %d and has %s of %d "
                      "(generation %llu: each attempt to form the group counts)",
                      runtime->size, tasks, seconds, runtime->rank, own, strategy->total_count, number);
}

/* A further worker may be lost while the group forms: the attempt then begins again, with a higher generation, as long
 * as the runtime allows it. */
static ls_status enter(ls_strategy *strategy) {
    struct ls_runtime *runtime = strategy->runtime;
    int64_t begun = ls_now();
    ls_status status;
    do {
        status = ls_runtime_enter(runtime);
        if (!status) status = ls_strategy_introduce(strategy);
    } while (status && ls_runtime_may_recover(runtime, status));
    if (!status) say_formed(strategy, ls_seconds_since(begun));
    return status;
}

bool ls_strategy_recover(ls_strategy *strategy, ls_status *status) {
    LS_NEED_OR(false, strategy, status);
    struct ls_runtime *runtime = strategy->runtime;
    if (!ls_runtime_begin_recovery(runtime, *status)) return false;
    ls_participants_detach(strategy, !runtime->holds); /* a worker without state begins anew, with all others */
    ls_stages_dismiss(strategy);
    *status = enter(strategy);
    return *status == LS_OK;
}
