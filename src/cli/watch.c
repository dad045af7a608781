/* Watching ends when the training has left its folder. A training holds the folder's lock while it runs, and lets it go
 * at its end, of whatever kind; that of one that was killed stays and keeps nobody out. */
#include "cli/commands.h"

#include <errno.h>
#include <lockstep/tools.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/saved_model.h"
#include "cli/signals.h"

#define POLL   0.2 /* seconds between two looks into the folder */
#define BREATH 2.0 /* seconds that a program has between two trainings */

/* Seconds of a clock that goes on evenly. */
static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

__attribute__((format(printf, 1, 2))) static bool complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("lockstep: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    return true;
}

static ls_status end_unheld(ls_status status, const char *folder, const char *what, double limit, const char *setting) {
    char text[4096];
    (void)snprintf(text, sizeof(text), "checkpoint folder '%.3000s': %s within %g s (%s)", folder, what, limit,
                   setting);
    return ls_tools_fail(status, text);
}

/* Looks who has the folder. *over: nobody will write to it. */
static ls_status look_for_job(struct ls_watch *watch, bool *over) {
    double comes, returns, now = seconds();
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
        return end_unheld(LS_UNAVAILABLE, watch->folder, "the training that was killed has not come back", returns,
                          "LOCKSTEP_REJOIN_TIMEOUT");
    else if (watch->evaluator && !watch->seen && now - watch->found > comes && watch->step < 0)
        return end_unheld(LS_DEADLINE_EXCEEDED, watch->folder, "no training has used it", comes,
                          "LOCKSTEP_JOIN_TIMEOUT");
    else if (watch->evaluator && !watch->seen && now - watch->found > comes)
        *over = complain("no training has used '%s' within %g s (LOCKSTEP_JOIN_TIMEOUT)", watch->folder, comes);
    return LS_OK;
}

/* Tells whether it ends without a new checkpoint. */
static bool has_waited(const struct ls_watch *watch) {
    if (watch->timeout <= 0 || seconds() - watch->found <= watch->timeout) return false;
    return complain("no new checkpoint in '%s' for %.1f s (--watch-timeout)", watch->folder, watch->timeout);
}

ls_status ls_watch_next(struct ls_watch *watch, char *path, size_t size) {
    long long newest;
    ls_status status = LS_OK;
    bool told = false, over = false;
    watch->found = seconds();
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
