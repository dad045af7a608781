/* A count goes up by an atomic addition, and the caller that found 0 writes the line: one caller a kind, whatever the
 * threads. */
#include "cluster/net/refusals.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[LS_REFUSAL_COUNT] = {
    [LS_REFUSED_JUNK] = "not Lockstep's",
    [LS_REFUSED_SILENT] = "silent",
    [LS_REFUSED_CROWD] = "too many at once",
    [LS_REFUSED_MESSAGE] = "with a bad message",
    [LS_REFUSED_DIFFERENT] = "with another configuration",
    [LS_REFUSED_TOKEN] = "without the token",
    [LS_REFUSED_CERTIFICATE] = "without a certificate that fits",
    [LS_REFUSED_DATA] = "for data without this group's key",
};

void ls_refusals_note(struct ls_refusals *refusals, enum ls_refusal kind, const char *who, const char *why) {
    if (refusals->activity) (void)atomic_fetch_add(&refusals->activity->refused, 1);
    if (atomic_fetch_add(&refusals->counts[kind], 1)) return;
    ls_log_warning(refusals->log, "refused a connection from %s: %s (more of this kind are only counted)", who, why);
}

void ls_refusals_report(const struct ls_refusals *refusals) {
    char text[512] = "";
    bool more = false;
    for (int kind = 0; kind < LS_REFUSAL_COUNT; kind++) {
        unsigned long long count = atomic_load(&refusals->counts[kind]);
        size_t used = strlen(text);
        more = more || count > 1;
        if (count) (void)snprintf(text + used, sizeof(text) - used, "%s%llu %s", used ? ", " : "", count, kinds[kind]);
    }
    if (more) ls_log_warning(refusals->log, "connections refused in all: %s", text);
}
