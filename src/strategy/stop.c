/* The chief's word is what every worker returns: it alone knows whether the checkpoint is written. */
#include "strategy/stop.h"

#include <stdio.h>

struct last_word {
    int64_t status;
    char message[LS_ERROR_SIZE];
};
_Static_assert(sizeof(struct last_word) % sizeof(int64_t) == 0, "it is broadcast as words");

/* folder has the step's checkpoint; NULL: there is none. */
static void describe(const ls_model *model, const char *folder, struct last_word *word) {
    const struct ls_requests *requests = &model->requests;
    char who[32];
    if (requests->stop == 1)
        (void)snprintf(who, sizeof(who), "rank %d", requests->stop_ranks);
    else
        (void)snprintf(who, sizeof(who), "%d workers", requests->stop);
    word->status = LS_CANCELLED;
    (void)snprintf(word->message, sizeof(word->message), "stopped after step %lld, as %s asked; %s%s%s",
                   (long long)model->step.iteration, who, folder ? "its checkpoint is in '" : "it has no checkpoint",
                   folder ? folder : "", folder ? "'" : "");
}

static void save(const ls_model *model, struct ls_backup *backup, const struct ls_fit_state *state,
                 struct last_word *word) {
    const char *folder = NULL;
    ls_status status = ls_backup_stop(backup, state, &folder);
    if (!status) {
        describe(model, folder, word);
        return;
    }
    word->status = status;
    (void)snprintf(word->message, sizeof(word->message), "%s", ls_error());
}

ls_status ls_fit_stop(ls_model *model, struct ls_backup *backup, const struct ls_fit_state *state) {
    struct ls_membership *membership = model->strategy->membership;
    struct last_word word = {0};
    if (membership->rank == 0) save(model, backup, state, &word);
    ls_status status =
        ls_group_broadcast(membership->group, "stop", 0, LS_INT64, &word, sizeof(word) / sizeof(int64_t));
    if (status) return status;
    membership->stopped = word.status == LS_CANCELLED;
    return ls_fail((ls_status)word.status, "%s", word.message);
}
