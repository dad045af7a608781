/* Participants: holders of memory of a strategy's replicas or of its group: the custom loops' variables, and the
 * training with its models. The strategy calls them in recovery and when replicas come or go. It does not know them
 * otherwise.
 *
 * A participant that has state to copy is a source of the runtime as well (struct ls_state_source). It has no slot that
 * takes a copied state up. It does that by itself in the call that continues the state (ls_strategy_restore,
 * ls_model_fit). Recovery is earlier: a process that was started anew has made no variable and no model then. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_participant_ops {
    /* Frees all that was made in the group's present generation. The next generation begins afterwards. */
    void (*detach)(void *context);
    /* Detaches, and forgets all state: the process holds none, and every worker begins anew. */
    void (*release)(void *context);
    /* Makes the memory of the replicas from that local index on. */
    ls_status (*add_replicas)(void *context, int from);
    /* Frees the memory of the replicas from that local index on. */
    void (*drop_replicas)(void *context, int from);
    /* Frees the context: the strategy is about to be freed. */
    void (*close)(void *context);
};
struct ls_participant {
    const struct ls_participant_ops *ops;
    void *context;
    struct ls_participant *next; /* the strategy's */
};
/* The strategy borrows the participant until close. */
void ls_participant_enlist(ls_strategy *strategy, struct ls_participant *participant);
/* Each function calls all participants. With release they drop their state too. */
void ls_participants_detach(const ls_strategy *strategy, bool release);
/* Ends with the first failure; drop_replicas is right after it too. */
ls_status ls_participants_add_replicas(const ls_strategy *strategy, int from);
void ls_participants_drop_replicas(const ls_strategy *strategy, int from);
void ls_participants_close(ls_strategy *strategy);
