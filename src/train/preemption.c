/* The chief's word is what every worker returns: it alone knows whether the checkpoint is written. A checkpoint that
 * could not be written changes the words alone: all were asked to stop, and have. */
#include "train/fit.h"

#include <stdio.h>

#include "base/clock.h"
#include "collective/collectives.h"
#include "runtime/user_request.h"

struct last_word {
    int64_t status; /* LS_OK: the checkpoint is being written, and another word follows */
    char message[LS_ERROR_SIZE];
};
_Static_assert(sizeof(struct last_word) % sizeof(int64_t) == 0, "it is broadcast as words");

/* Says where the step's checkpoint is, or why there is none. none is for where nothing is kept. This thread's error is
 * why it could not be saved. A stop that was asked for stays one. */
static void describe_saved(ls_status status, const char *folder, const char *none, char text[LS_ERROR_SIZE / 2]) {
    const size_t size = LS_ERROR_SIZE / 2;
    if (status)
        (void)snprintf(text, size, "its checkpoint could not be saved: %s: %.400s", ls_status_name(status), ls_error());
    else if (folder)
        (void)snprintf(text, size, "its checkpoint is in '%.400s'", folder);
    else
        (void)snprintf(text, size, "%s", none);
}

static void describe_stop(const ls_model *model, const char *saved, struct last_word *word) {
    const struct ls_requests *requests = &model->progress.requests;
    char who[32];
    if (requests->stop == 1)
        (void)snprintf(who, sizeof(who), "rank %d", (int)requests->stop_ranks);
    else
        (void)snprintf(who, sizeof(who), "%d workers", (int)requests->stop);
    word->status = LS_CANCELLED;
    (void)snprintf(word->message, sizeof(word->message), "stopped after step %lld, as %s asked; %s",
                   (long long)model->progress.step.iteration, who, saved);
}

static void save_before_end(const ls_model *model, struct ls_checkpointing *checkpointing,
                            const struct ls_fit_state *state, struct last_word *word) {
    char saved[LS_ERROR_SIZE / 2];
    const char *folder = NULL;
    bool done = false;
    /* the others hear from this worker well before they give it up */
    int64_t while_they_wait = ls_deadline_in(model->strategy->runtime->settings.collective_timeout / 3);
    ls_status status = ls_checkpointing_move_on(checkpointing, state, while_they_wait, &done);
    if (!status && !done) return;
    if (!status) status = ls_checkpointing_stop(checkpointing, state, &folder);
    describe_saved(status, folder, "it has no checkpoint", saved);
    describe_stop(model, saved, word);
}

/* The other workers wait in a broadcast while the chief writes. A write may take longer than the limit of a collective,
 * so the chief answers with an empty word every third of that limit, and the loop goes round until a word has a status.
 */
ls_status ls_preemption_stop(ls_model *model, struct ls_checkpointing *checkpointing,
                             const struct ls_fit_state *state) {
    struct ls_runtime *runtime = model->strategy->runtime;
    struct last_word word = {0};
    ls_user_request_agree(runtime->user_request, true);
    ls_status status = ls_group_barrier(runtime->group, "stop"); /* all have committed the step */
    while (!status && !word.status) {
        if (runtime->rank == 0) save_before_end(model, checkpointing, state, &word);
        status =
            ls_group_broadcast(runtime->group, LS_BROADCAST("stop", &word, sizeof(word) / sizeof(int64_t), LS_INT64));
    }
    if (status) ls_user_request_agree(runtime->user_request, false);
    if (status) return status;
    runtime->stopped = true;
    return ls_fail((ls_status)word.status, "%s", word.message);
}

ls_status ls_preemption_give_up(const ls_model *model, struct ls_checkpointing *checkpointing,
                                const struct ls_fit_state *state) {
    char cause[LS_ERROR_SIZE], saved[LS_ERROR_SIZE / 2];
    const char *folder = NULL;
    (void)snprintf(cause, sizeof(cause), "%s", ls_error());
    ls_status status = ls_checkpointing_stop(checkpointing, state, &folder);
    describe_saved(status, folder, "this worker has no checkpoint of it", saved);
    return ls_fail(LS_CANCELLED, "stopped after step %lld: %.500s; %s", (long long)model->progress.step.iteration,
                   cause, saved);
}
