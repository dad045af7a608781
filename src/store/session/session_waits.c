/* Of several workers that have tickets the one that has had its own longest is told. */
#include "store/session/session_waits.h"

#include "base/clock.h"

/* The worker that has had its ticket longest; -1: none has one. *waiting: those that have waited for the interval. */
static int find_slowest(const struct ls_session_waits *waits, const struct ls_tickets *tickets, int *waiting) {
    int slowest = -1;
    *waiting = 0;
    for (int w = 0; w < waits->workers; w++) {
        bool has = ls_tickets_of(tickets, w) != LS_NO_TICKET;
        if (has && (slowest < 0 || waits->since[w] < waits->since[slowest])) slowest = w;
        *waiting += ls_tickets_asks(tickets, w) && ls_seconds_since(waits->since[w]) >= waits->interval;
    }
    return slowest;
}

void ls_session_waits_tell(struct ls_session_waits *waits, const struct ls_tickets *tickets, const int *staged,
                           int servers, const struct ls_log *log) {
    int waiting, slowest;
    if (ls_now() < waits->due) return;
    waits->due = ls_deadline_in(waits->interval);
    slowest = find_slowest(waits, tickets, &waiting);
    if (slowest < 0 || !waiting) return;
    ls_log_info(log,
                "rank %d has had ticket %lld for %.1f s, and %d of %d workers wait%s for it: its gradients are on %d "
                "of %d parameter servers",
                slowest, (long long)ls_tickets_of(tickets, slowest), ls_seconds_since(waits->since[slowest]), waiting,
                waits->workers, waiting == 1 ? "s" : "", staged[slowest], servers);
}
