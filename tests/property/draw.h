/* Parts of all random tests: numbers that follow from a seed, which is printed, and a time budget.
 *
 *     NAME [--seconds N] [--seed N]
 *
 * --seconds: how long to try, 4 by default, or 60 with LOCKSTEP_TEST_FULL=1. --seed: the first seed; by default
 * another one each time. Round i draws from seed + i: a failure prints its own, with which it comes at once. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draw {
    uint64_t seed, stream, drawn;
};
static inline struct draw draw_from(uint64_t seed, uint64_t stream) {
    return (struct draw){seed, stream, 0};
}
/* 0 to below - 1; below is at least 1. */
size_t draw_below(struct draw *draw, size_t below);
/* True once in so many times. */
bool draw_once_in(struct draw *draw, size_t times);

/* One round, which draws from the seed; how many calls, or whatever is tried, it was. */
typedef long trial_round(uint64_t seed);
/* The main of such a program: reads the options, prints the seed, does rounds until the time is over (one at least),
 * and prints TAP. Returns the exit status; 2 for wrong options. */
int trial_main(int argc, char **argv, const char *name, trial_round *round);
/* By one thread at a time: what is about to be done, which is printed if it fails or dies. */
void trial_note(const char *text);
/* Prints the message, and ends the test. Any thread. */
void trial_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
