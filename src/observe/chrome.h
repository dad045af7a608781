/* Chrome's trace event format as Lockstep writes it: what the timeline and the flight record have in common. Times are
 * wall-clock microseconds since 2025-01-01 UTC, small enough for a double to hold them with three decimals. */
#pragma once
#include <lockstep/lockstep.h>

#include <stdio.h>

#define LS_CHROME_TIME_BASE INT64_C(1735689600000000000) /* nanoseconds since 1970 */
#define LS_CHROME_CLOCK     96                           /* bytes of a clock's name */

/* The distance from ls_now to nanoseconds since the base, at this moment. */
int64_t ls_chrome_offset(void);
/* Names the wall clock: the name is equal for all processes that the same kernel has started, and empty if that is not
 * known. */
void ls_chrome_clock(char clock[LS_CHROME_CLOCK]);
/* Writes ', "key": ' and nanoseconds as microseconds. */
void ls_chrome_time(FILE *out, const char *key, int64_t time);
/* The first events of a rank: the name of its process and its place in the order. */
void ls_chrome_process(FILE *out, int rank);
/* Behind another event: the name of one of its threads. */
void ls_chrome_thread(FILE *out, int rank, int tid, const char *name);
