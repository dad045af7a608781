/* Questions come thick at first, since most waits are short, and then a thousand a second. */
#include "strategy/await.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"

#define SHORTEST (20 * LS_MICROSECOND) /* between two questions at first; longer and longer up to: */
#define LONGEST  LS_MILLISECOND

ls_status ls_await(const struct ls_membership *membership, const struct ls_await *await) {
    double limit = await->limit > 0 ? await->limit : membership->settings.collective_timeout,
           interval = membership->settings.report_interval;
    int64_t begun = ls_now(), deadline = ls_deadline_after(begun, limit), report = ls_deadline_after(begun, interval);
    for (int64_t pause = SHORTEST;; pause = pause < LONGEST ? pause + pause / 4 : LONGEST) {
        bool done = false;
        ls_status status = await->ask(await->context, &done);
        if (status || done) return status;
        if (ls_abort_raised(membership->abort)) return ls_abort_status(membership->abort);
        int64_t now = ls_now();
        if (now >= deadline) return ls_fail(LS_DEADLINE_EXCEEDED, "waited %g s, the limit, for %s", limit, await->what);
        if (now >= report) {
            ls_log_info(&membership->log, "waiting for %s for %.1f s", await->what, ls_seconds_since(begun));
            report = ls_deadline_after(now, interval);
        }
        const struct timespec sleep = {.tv_nsec = pause};
        if (await->eager)
            (void)sched_yield();
        else
            (void)nanosleep(&sleep, NULL);
    }
}
