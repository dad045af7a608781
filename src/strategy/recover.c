/* What a strategy does about a lost worker (docs/protocol.md): all threads have left the step; the model lets go of the
 * group; the next generation begins; the call that failed begins its transaction again. */
#include <stdio.h>

#include "strategy/model.h"
#include "strategy/saved.h"

static bool can_recover(const ls_strategy *strategy, ls_status status) {
    if (!ls_membership_may_recover(strategy->membership, status)) return false;
    if (!strategy->training.several) return true;
    ls_log_warning(&strategy->membership->log, "recovery takes one model a strategy, and this one has trained several");
    return false;
}

/* Nothing may be left of what all begin anew. */
static void let_go(ls_model *model, bool wholly) {
    if (!model) return;
    if (wholly)
        ls_model_release(model);
    else
        ls_model_detach(model);
}

static void say_formed(const ls_strategy *strategy, double seconds) {
    const struct ls_membership *membership = strategy->membership;
    unsigned long long number = membership->generation;
    int tasks = membership->tasks, count = strategy->local_count, first = strategy->replicas[0].id;
    if (membership->size == tasks)
        ls_log_info(&membership->log, "generation %llu: all %d workers are there after %.2f s", number, tasks, seconds);
    else
        ls_log_info(&membership->log,
                    "generation %llu: %d of %d workers go on after %.2f s; this one is rank %d, and holds %d of %d "
                    "replicas, from replica %d",
                    number, membership->size, tasks, seconds, membership->rank, count, strategy->total_count, first);
}

static ls_status enter(ls_strategy *strategy) {
    struct ls_membership *membership = strategy->membership;
    int64_t begun = ls_now();
    ls_status status;
    do {
        status = ls_membership_enter(membership);
        if (!status) status = ls_strategy_introduce(strategy);
    } while (status && ls_membership_may_recover(membership, status));
    if (!status) say_formed(strategy, ls_seconds_since(begun));
    return status;
}

bool ls_strategy_recover(ls_strategy *strategy, ls_status *status) {
    struct ls_membership *membership = strategy->membership;
    if (!can_recover(strategy, *status)) return false;
    ls_membership_say_lost(membership);
    let_go(strategy->training.model, !membership->holds);
    *status = enter(strategy);
    return *status == LS_OK;
}
