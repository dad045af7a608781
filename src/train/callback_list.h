/* The callbacks of a fit: they are told in the order of their list, and their states are one row of bytes for
 * checkpoints and recovery. Mirrors keras.callbacks.CallbackList. */
#pragma once
#include "train/model.h"

/* Events of fit, in the order of the functions in struct ls_callback. */
enum ls_callback_event {
    LS_ON_BUILD,
    LS_ON_TRAIN_BEGIN,
    LS_ON_EPOCH_BEGIN,
    LS_ON_TRAIN_BATCH_BEGIN,
    LS_ON_TRAIN_BATCH_END,
    LS_ON_EPOCH_END,
    LS_ON_TRAIN_END
};
struct ls_callback_place {
    int epoch, epochs;
    int64_t step, steps;
    const ls_result *result; /* NULL before the first numbers */
    bool validated;          /* result has those of validation */
    bool resumed, repeated;
};

struct ls_callback_list;
/* Borrows model and list, which ends with NULL; a list that is NULL or empty makes *callbacks NULL. All functions here
 * accept NULL. INVALID_ARGUMENT naming the callback that cannot be. */
ls_status ls_callback_list_new(ls_model *model, ls_callback *const *list, bool validates,
                               struct ls_callback_list **callbacks);
void ls_callback_list_free(struct ls_callback_list *callbacks);
/* LS_ON_BUILD, where it was not told yet: from now on the states have their sizes. */
ls_status ls_callback_list_build(struct ls_callback_list *callbacks);
ls_status ls_callback_list_tell(struct ls_callback_list *callbacks, enum ls_callback_event event,
                                const struct ls_callback_place *place);
/* "early_stopping:24,csv_logger:0": equal where a state of one can be taken up by the other. Empty for NULL. */
const char *ls_callback_list_names(const struct ls_callback_list *callbacks);
/* Bytes of all states, in whole words of 8; of a list that is built. */
size_t ls_callback_list_state_size(const struct ls_callback_list *callbacks);
void ls_callback_list_get_state(const struct ls_callback_list *callbacks, void *bytes);
void ls_callback_list_set_state(struct ls_callback_list *callbacks, const void *bytes);
