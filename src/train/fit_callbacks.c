/* The callbacks' part of a fit: what they are told and when, also behind a step that another worker or a checkpoint
 * has done, and what they wish. */
#include "train/fit.h"

#include "base/memory.h"

ls_status ls_fit_callbacks_tell(struct ls_fitting *fitting, enum ls_callback_event event) {
    const struct ls_fit_state *state = &fitting->state;
    int64_t step = state->position - state->epochs * fitting->steps_per_epoch;
    const struct ls_callback_place place = {
        .epoch = (int)state->epochs,
        .epochs = fitting->options.epochs,
        .step = step,
        .steps = fitting->steps_per_epoch,
        .result = (step && state->sums.rows) || event == LS_ON_TRAIN_END ? &state->result : NULL,
        .validated =
            event != LS_ON_TRAIN_BATCH_END && (state->evaluated || (fitting->validation && event == LS_ON_TRAIN_END)),
        .resumed = fitting->resumed,
        .repeated = event == LS_ON_TRAIN_BATCH_END ? fitting->repeats : state->ended > state->epochs,
    };
    return ls_callback_list_tell(fitting->callbacks, event, &place);
}

/* The state's last step, whose end callbacks here were not told: it is another worker's, or a checkpoint's. */
static ls_status repeat_batch_end(struct ls_fitting *fitting) {
    const struct ls_fit_state *state = &fitting->state;
    if (fitting->stepped == state->position || state->position == state->epochs * fitting->steps_per_epoch)
        return LS_OK;
    fitting->repeats = true;
    ls_status status = ls_fit_callbacks_tell(fitting, LS_ON_TRAIN_BATCH_END);
    fitting->repeats = false;
    fitting->stepped = state->position;
    return status;
}

ls_status ls_fit_callbacks_end_epoch(struct ls_fitting *fitting) {
    struct ls_fit_state *state = &fitting->state;
    if (fitting->ended > state->epochs) return LS_OK;
    ls_status status = ls_fit_callbacks_tell(fitting, LS_ON_EPOCH_END);
    if (status) return ls_fail_context(status, "at the end of epoch %d", (int)state->epochs + 1);
    fitting->ended = state->ended = state->epochs + 1;
    return LS_OK;
}

ls_status ls_fit_callbacks_agree_to_stop(struct ls_fitting *fitting, bool *stopped) {
    struct ls_runtime *runtime = fitting->model->strategy->runtime;
    LS_CLEANUP(ls_free_pointer) int64_t *wishes = ls_alloc_array((size_t)runtime->size, sizeof(*wishes));
    *stopped = false;
    if (!fitting->callbacks) return LS_OK;
    if (!wishes) return ls_fail_memory("wishes", (size_t)runtime->size);
    ls_status status =
        ls_runtime_exchange(runtime, "stop training", fitting->model->progress.stop_training ? 1 : 0, wishes);
    for (int i = 0; !status && i < runtime->size; i++) *stopped = *stopped || wishes[i];
    return status;
}

/* The first time: in a state of its own, a checkpoint's or another worker's. */
ls_status ls_fit_callbacks_begin(struct ls_fitting *fitting) {
    ls_status status = LS_OK;
    if (!fitting->begun) {
        fitting->begun = true;
        fitting->resumed = fitting->state.position > 0;
        fitting->ended = fitting->state.epochs;
        status = ls_fit_callbacks_tell(fitting, LS_ON_TRAIN_BEGIN);
    }
    if (!status) status = repeat_batch_end(fitting);
    return status ? ls_fail_context(status, "at the beginning") : LS_OK;
}
