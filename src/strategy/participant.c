/* The list of participants, the newest first. */
#include "strategy/participant.h"

#include "strategy/strategy.h"

void ls_participant_enlist(ls_strategy *strategy, struct ls_participant *participant) {
    participant->next = strategy->participants;
    strategy->participants = participant;
}

void ls_participants_detach(const ls_strategy *strategy, bool release) {
    for (const struct ls_participant *p = strategy->participants; p; p = p->next)
        (release ? p->ops->release : p->ops->detach)(p->context);
}

ls_status ls_participants_add_replicas(const ls_strategy *strategy, int from) {
    ls_status status = LS_OK;
    for (const struct ls_participant *p = strategy->participants; p && !status; p = p->next)
        status = p->ops->add_replicas(p->context, from);
    return status;
}

void ls_participants_drop_replicas(const ls_strategy *strategy, int from) {
    for (const struct ls_participant *p = strategy->participants; p; p = p->next)
        p->ops->drop_replicas(p->context, from);
}

void ls_participants_close(ls_strategy *strategy) {
    while (strategy->participants) {
        struct ls_participant *first = strategy->participants;
        strategy->participants = first->next;
        first->ops->close(first->context);
    }
}
