/* The monotonic clock and arithmetic on deadlines. */
#include "base/clock.h"

#include <math.h>
#include <time.h>

int64_t ls_now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * LS_SECOND + time.tv_nsec;
}

int64_t ls_deadline_after(int64_t then, double seconds) {
    if (!isfinite(seconds) || seconds <= 0 || seconds > 1e9) return LS_NEVER;
    return then + (int64_t)(seconds * (double)LS_SECOND);
}

int64_t ls_deadline_in(double seconds) {
    return ls_deadline_after(ls_now(), seconds);
}

int ls_poll_timeout(int64_t deadline, int cap_milliseconds) {
    int64_t left = deadline - ls_now();
    if (left <= 0) return 0;
    if (left >= cap_milliseconds * LS_MILLISECOND) return cap_milliseconds;
    return (int)((left + LS_MILLISECOND - 1) / LS_MILLISECOND);
}

double ls_seconds_since(int64_t then) {
    return (double)(ls_now() - then) / (double)LS_SECOND;
}
