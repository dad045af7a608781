/* Random numbers, options and the last words of random tests. */
#define _GNU_SOURCE
#include "property/draw.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "harness.h"

enum { NOTE = 1024 };
static char *note; /* shared with the process that tests, and there when it has died */

size_t draw_below(struct draw *draw, size_t below) {
    return ls_random_bits(draw->seed, draw->stream, draw->drawn++) % below;
}

bool draw_once_in(struct draw *draw, size_t times) {
    return draw_below(draw, times) == 0;
}

void trial_note(const char *text) {
    (void)snprintf(note, NOTE, "%s", text);
}

void trial_fail(const char *format, ...) {
    char message[2048];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "# %s\n", message);
    _exit(1);
}

/* ---- options ---- */

static double default_seconds(void) {
    return is_full() ? 60 : 3;
}

static void refuse(const char *program, const char *option) {
    (void)fprintf(stderr, "usage: %s [--seconds N] [--seed N]; '%s' is no such option, or has no number\n", program,
                  option);
    exit(2);
}

static struct trial {
    double seconds;
    uint64_t seed;
    trial_round *round;
} trial;

static void read_options(int argc, char **argv) {
    trial.seconds = default_seconds();
    trial.seed = (uint64_t)ls_now();
    for (int i = 1; i < argc; i += 2) {
        char *end = argv[i];
        if (i + 1 < argc && !strcmp(argv[i], "--seconds"))
            trial.seconds = strtod(argv[i + 1], &end);
        else if (i + 1 < argc && !strcmp(argv[i], "--seed"))
            trial.seed = strtoull(argv[i + 1], &end, 10);
        if (*end || end == argv[i] || end == argv[i + 1]) refuse(argv[0], argv[i]);
    }
}

/* ---- the rounds ---- */

TEST(rounds) {
    int64_t end = ls_deadline_in(trial.seconds);
    long count = 0, calls = 0;
    while (!count || ls_now() < end) calls += trial.round(trial.seed + (uint64_t)count++);
    printf("# %ld rounds, %ld calls\n", count, calls);
    (void)fflush(stdout);
}

int trial_main(int argc, char **argv, const char *name, trial_round *round) {
    read_options(argc, argv);
    trial.round = round;
    note = mmap(NULL, NOTE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (note == MAP_FAILED) return 1;
    trial_note("nothing was begun");
    printf("# --seed %llu, %g seconds\n", (unsigned long long)trial.seed, trial.seconds);
    (void)fflush(stdout);
    int status = RUN_TESTS(name, .seconds = -1);
    if (status) (void)fprintf(stderr, "# %s: %s\n", argv[0], note);
    return status;
}
