/* A process that a test hurts: at a named point (base/point.h) it kills or stops itself, and it notes when it came to
 * which point.
 *
 * LOCKSTEP_TEST_AT=POINT:N:KILL (or STOP, or REST for a few seconds): at the n-th time that this process reaches the
 * point. SLOW, PACE: then and each time after it, the thread rests for 1.8 s, 50 ms; PACE:G:M: until the
 * process has entered G generations or has rested M times. LOCKSTEP_TEST_TIMES: a file for lines "point nanoseconds
 * bytes descriptors threads", the first by the monotonic clock, the others what the process uses at that point: 0 but
 * at "entered". */
#pragma once
#include <lockstep/lockstep.h>

#include "base/point.h"

/* Before the first thread starts. */
ls_status watch_read(void);
/* Steps whose sums this process has. */
long watch_sums(void);
