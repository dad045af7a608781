/* Time: monotonic nanoseconds, and deadlines as points on that clock. */
#pragma once
#include <stdint.h>

#define LS_SECOND      INT64_C(1000000000)
#define LS_MILLISECOND INT64_C(1000000)
#define LS_MICROSECOND INT64_C(1000)
#define LS_NEVER       INT64_MAX

int64_t ls_now(void);
/* The deadline so many seconds ahead of now, or of then. It is LS_NEVER if seconds are not above 0 or not finite. */
int64_t ls_deadline_in(double seconds);
int64_t ls_deadline_after(int64_t then, double seconds);
static inline int64_t ls_deadline_earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}
/* Milliseconds until deadline for poll(): 0 when it has passed, at most cap, rounded up. */
int ls_poll_timeout(int64_t deadline, int cap_milliseconds);
/* Seconds from then to now, for messages. */
double ls_seconds_since(int64_t then);
