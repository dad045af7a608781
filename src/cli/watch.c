/* Watching ends when the training has left its folder. A training holds the folder's lock while it runs, and lets it go
 * at its end, of whatever kind; that of one that was killed stays and keeps nobody out. */
#include "cli/commands.h"

#include <errno.h>
#include <lockstep/tools.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/saved_model.h"
#include "cli/signals.h"
#include "launch/run_worker.h"

#define POLL   0.2 /* seconds between two looks into the folder */
#define BREATH 2.0 /* seconds that a program has between two trainings */

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("lockstep: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    return true;
}

/* Looks who has the folder. *over: nobody will write to it. */
static ls_status look_for_job(struct ls_watch *watch, bool *over) {
    double comes, returns, now = ls_launch_now();
    bool there, left;
    ls_status status = ls_tools_folder_job(watch->folder, &there, &left, &comes, &returns);
    if (status) return status;
    watch->seen |= there;
    watch->held |= there && !left;
    if (there && (!left || !watch->held))
        watch->left = 0;
    else if (!(watch->left > 0))
        watch->left = now;
    double gone = watch->left > 0 ? now - watch->left : 0;
    if (!there && watch->seen && gone > BREATH)
        *over = complain("the training that wrote to '%s' has ended", watch->folder);
    else if (left && gone > returns + BREATH)
        return ls_tools_fail(LS_UNAVAILABLE,
                             "checkpoint folder '%.3000s': the training that was killed has not come back within %g s "
                             "(LOCKSTEP_REJOIN_TIMEOUT)",
                             watch->folder, returns);
    else if (watch->evaluator && !watch->seen && now - watch->found > comes && watch->step < 0)
        return ls_tools_fail(LS_DEADLINE_EXCEEDED,
                             "checkpoint folder '%.3000s': no training has used it within %g s (LOCKSTEP_JOIN_TIMEOUT)",
                             watch->folder, comes);
    else if (watch->evaluator && !watch->seen && now - watch->found > comes)
        *over = complain("no training has used '%s' within %g s (LOCKSTEP_JOIN_TIMEOUT)", watch->folder, comes);
    return LS_OK;
}

/* Tells whether it ends without a new checkpoint. */
static bool has_waited(const struct ls_watch *watch) {
    if (watch->timeout <= 0 || ls_launch_now() - watch->found <= watch->timeout) return false;
    return complain("no new checkpoint in '%s' for %.1f s (--watch-timeout)", watch->folder, watch->timeout);
}

ls_status ls_watch_next(struct ls_watch *watch, char *path, size_t size) {
    long long newest;
    ls_status status = LS_OK;
    bool told = false, over = false;
    watch->found = ls_launch_now();
    while (!status && !ls_signals_stopped()) {
        status = look_for_job(watch, &over); /* first: its last checkpoint is there before it leaves */
        int found = ls_newest_checkpoint(watch->folder, path, size, &newest);
        if (found < 0 && !told)
            (void)fprintf(stderr, "lockstep: cannot read '%s': %s; it is tried again\n", watch->folder,
                          strerror(errno));
        told = found < 0;
        if (found > 0 && newest > watch->step) {
            watch->step = newest;
            return LS_OK;
        }
        if (!found && watch->step >= 0) over = over || complain("the training has removed its checkpoints: it is done");
        if (over || (!status && has_waited(watch))) break;
        (void)usleep((useconds_t)(POLL * 1e6));
    }
    *path = '\0';
    return status;
}
