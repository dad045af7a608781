/* Polls with exponential back-off, since most waits are short. */
#include "runtime/wait_for_device.h"

#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"

#define SHORTEST (20 * LS_MICROSECOND) /* first pause between two polls; it grows up to: */
#define LONGEST  LS_MILLISECOND

ls_status ls_wait_for_device(const struct ls_runtime *runtime, const struct ls_wait_for_device *await) {
    double limit = await->limit > 0 ? await->limit : runtime->settings.collective_timeout,
           interval = runtime->settings.report_interval;
    int64_t begun = ls_now(), deadline = ls_deadline_after(begun, limit), report = ls_deadline_after(begun, interval);
    /* After k pauses the sum waited is 4 (pause - SHORTEST), so the next one is a quarter of it and 20 us. The end of
     * short work is thus noticed at most a quarter and 20 us too late. The pause is a millisecond from about 4 ms on,
     * and the abort flag is looked at as often. */
    for (int64_t pause = SHORTEST;; pause = pause < LONGEST ? pause + pause / 4 : LONGEST) {
        bool done = false;
        ls_status status = await->ask(await->context, &done);
        if (status || done) return status;
        if (ls_abort_raised(runtime->abort)) return ls_abort_status(runtime->abort);
        int64_t now = ls_now();
        if (now >= deadline) return ls_fail(LS_DEADLINE_EXCEEDED, "waited %g s, the limit, for %s", limit, await->what);
        if (now >= report) {
            ls_log_info(&runtime->log, "waiting for %s for %.1f s", await->what, ls_seconds_since(begun));
            report = ls_deadline_after(now, interval);
        }
        const struct timespec sleep = {.tv_nsec = pause};
        if (await->eager)
            (void)sched_yield();
        else
            (void)nanosleep(&sleep, NULL);
    }
}
