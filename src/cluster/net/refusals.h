/* Refused connections are counted by kind. The first of a kind is one line of the log and the further ones are not, so
 * that nobody can fill a log (docs/security.md, "Strangers"). All functions may be called from any thread. */
#pragma once
#include <stdatomic.h>

#include "base/activity.h"
#include "base/log.h"

enum ls_refusal {
    LS_REFUSED_JUNK,        /* neither HTTP/2 nor a data connection */
    LS_REFUSED_SILENT,      /* said nothing useful in time */
    LS_REFUSED_CROWD,       /* too many at once */
    LS_REFUSED_MESSAGE,     /* not Lockstep's messages, or too large */
    LS_REFUSED_DIFFERENT,   /* another configuration, and not at an address of this cluster */
    LS_REFUSED_TOKEN,       /* did not prove the token */
    LS_REFUSED_CERTIFICATE, /* no certificate that fits */
    LS_REFUSED_DATA,        /* a data connection without the group's key, or a replayed one */
    LS_REFUSAL_COUNT
};

struct ls_refusals {
    const struct ls_log *log;     /* borrowed */
    struct ls_activity *activity; /* borrowed: counts them all; may be NULL */
    atomic_ullong counts[LS_REFUSAL_COUNT];
};
/* Counts a refusal, and logs the first of its kind: who is an address or other words for people. */
void ls_refusals_note(struct ls_refusals *refusals, enum ls_refusal kind, const char *who, const char *why);
/* Logs one line with the counts, if more were refused than have a line of their own. */
void ls_refusals_report(const struct ls_refusals *refusals);
