/* As whole words: three numbers, the progress, the error. */
#include "train/restored.h"

#include <string.h>

#include "base/new.h"
#include "collective/collectives.h"

#define PARTS (LS_PROGRESS_MODEL | LS_PROGRESS_FIT | LS_PROGRESS_RESULT)

_Static_assert(LS_ERROR_SIZE % sizeof(int64_t) == 0, "it is broadcast as words");

ls_status ls_restored_broadcast(struct ls_group *group, struct ls_restored *restored) {
    size_t size = ls_training_progress_size(PARTS), count = 3 + (size + LS_ERROR_SIZE) / sizeof(int64_t);
    LS_CLEANUP(ls_free_pointer) LS_NEW_ARRAY(int64_t, words, count, "what a checkpoint says");
    char *progress = (char *)(words + 3), *error = progress + size;
    words[0] = restored->status, words[1] = restored->found, words[2] = restored->callbacks;
    ls_training_progress_write(&restored->progress, PARTS, progress);
    memcpy(error, restored->error, LS_ERROR_SIZE);
    ls_status status = ls_group_broadcast(group, LS_BROADCAST("checkpoint", words, count, LS_INT64));
    if (!status) status = ls_training_progress_read(progress, PARTS, &restored->progress);
    if (status) return status;
    restored->status = words[0], restored->found = words[1], restored->callbacks = words[2];
    memcpy(restored->error, error, LS_ERROR_SIZE);
    return restored->status ? ls_fail((ls_status)restored->status, "%s", restored->error) : LS_OK;
}

ls_status ls_restored_check_length(const struct ls_training_progress *progress, int64_t steps_per_epoch,
                                   int64_t last_position) {
    if (progress->facts.steps_per_epoch == steps_per_epoch && progress->fit.position <= last_position) return LS_OK;
    return ls_fail(LS_INVALID_ARGUMENT,
                   "it is that of step %lld with %lld steps an epoch, beyond the %lld steps of %lld an epoch of this "
                   "training",
                   (long long)progress->fit.position, (long long)progress->facts.steps_per_epoch,
                   (long long)last_position, (long long)steps_per_epoch);
}

bool ls_restored_has_callbacks(const struct ls_log *log, const char *folder, const char *name, const char *there,
                               const char *here) {
    if (!strcmp(there ? there : "", here ? here : "")) return here && *here;
    ls_log_warning(log, "checkpoint '%s/%s' has the states of callbacks '%s', this training has '%s': they begin anew",
                   folder, name, there ? there : "", here ? here : "");
    return false;
}

void ls_restored_tell(const struct ls_log *log, const char *folder, const char *name,
                      const struct ls_training_progress *progress, const char *overridden, const char *bits) {
    if (*overridden) ls_log_info(log, "checkpoint '%s/%s': overridden: %s", folder, name, overridden);
    if (ls_manifest_compare(progress->facts.bits, bits))
        ls_log_warning(log, "checkpoint '%s/%s': the bits may be others than without an interruption: %s", folder, name,
                       ls_error());
    ls_log_info(log, "training goes on after step %lld (%lld epochs and %lld steps), from checkpoint '%s/%s'",
                (long long)progress->step, (long long)(progress->fit.position / progress->facts.steps_per_epoch),
                (long long)(progress->fit.position % progress->facts.steps_per_epoch), folder, name);
}
