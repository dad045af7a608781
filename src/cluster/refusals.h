/* Who was refused: counted by kind, and told once a kind, so that nobody can fill a log. From any thread. */
#pragma once
#include <stdatomic.h>

#include "base/log.h"

enum ls_refusal {
    LS_REFUSED_JUNK,        /* neither HTTP/2 nor a data connection */
    LS_REFUSED_SILENT,      /* said nothing useful in time */
    LS_REFUSED_CROWD,       /* too many at once */
    LS_REFUSED_MESSAGE,     /* not Lockstep's messages, or too large */
    LS_REFUSED_TOKEN,       /* did not prove the token */
    LS_REFUSED_CERTIFICATE, /* no certificate that fits */
    LS_REFUSED_DATA,        /* a data connection without the group's key, or a replayed one */
    LS_REFUSAL_COUNT
};

struct ls_refusals {
    const struct ls_log *log; /* borrowed */
    atomic_ullong counts[LS_REFUSAL_COUNT];
};
/* Counts; the first of a kind is told, with who it is (an address or other words for people) and why. */
void ls_refuse(struct ls_refusals *refusals, enum ls_refusal kind, const char *who, const char *why);
/* One line with the counts, if there are more than were told. */
void ls_refusals_report(const struct ls_refusals *refusals);
