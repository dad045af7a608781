/* The memory's own speed, the floor of an all-reduce between processes of one machine: every byte of every process's
 * vector must be read once and written once. One JSON line with the time of each size, for bench/peers.
 *
 * usage: memory BYTES[,BYTES...] WORKERS SECONDS
 *
 * For every size WORKERS * BYTES are scaled in place by all cores together, each its own part of the same length; what
 * fits into a core's cache stays there, as nobody else touches it. The time is the median over iterations of the
 * slowest core's. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WARM_UP = 3, FEWEST = 7, MOST = 20000, MOST_CORES = 64 };

typedef struct Run {
    int cores, iterations;
    double seconds; /* of one size, about */
    size_t count;   /* floats of a core's part */
    float factor;
    double *times; /* [cores][MOST] */
    atomic_long arrived;
} Run;

typedef struct Core {
    Run *run;
    int index, processor;
} Core;

static void give_up(const char *why) {
    fprintf(stderr, "memory: %s\n", why);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* All cores leave together. */
static void meet(Run *run, long *turn) {
    atomic_fetch_add(&run->arrived, 1);
    for (++*turn; atomic_load(&run->arrived) < *turn * run->cores;) {
    }
}

static void scale(float *part, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) {
        part[i] *= factor;
    }
}

static double time_one(Run *run, float *part, long *turn) {
    meet(run, turn);
    double start = now();
    scale(part, run->count, run->factor);
    return now() - start;
}

/* Core 0 tells how many iterations fit. */
static void plan_iterations(Run *run, float *part, int index, long *turn) {
    double last = 0;
    for (int i = 0; i < WARM_UP; i++) {
        last = time_one(run, part, turn);
    }
    if (index == 0) {
        double wanted = run->seconds / (last > 1e-9 ? last : 1e-9);
        run->iterations = wanted < FEWEST ? FEWEST : wanted > MOST ? MOST : (int)wanted;
    }
    meet(run, turn);
}

static void *run_core(void *argument) {
    Core *core = argument;
    Run *run = core->run;
    cpu_set_t set;
    long turn = 0;
    CPU_ZERO(&set);
    CPU_SET((size_t)core->processor, &set);
    sched_setaffinity(0, sizeof set, &set);
    float *part = malloc(run->count * sizeof *part);
    if (!part) {
        give_up("out of memory");
    }
    for (size_t i = 0; i < run->count; i++) {
        part[i] = 1;
    }
    plan_iterations(run, part, core->index, &turn);
    for (int i = 0; i < run->iterations; i++) {
        run->times[core->index * MOST + i] = time_one(run, part, &turn);
    }
    free(part);
    return NULL;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The slowest core's time of each iteration, and the median of those. */
static double summarize(Run *run) {
    for (int core = 1; core < run->cores; core++) {
        for (int i = 0; i < run->iterations; i++) {
            double time = run->times[core * MOST + i];
            run->times[i] = time > run->times[i] ? time : run->times[i];
        }
    }
    qsort(run->times, (size_t)run->iterations, sizeof *run->times, compare);
    return run->times[run->iterations / 2];
}

static double run_size(Run *run, const cpu_set_t *allowed) {
    pthread_t threads[MOST_CORES];
    Core cores[MOST_CORES];
    int started = 0;
    atomic_store(&run->arrived, 0);
    for (int processor = 0; processor < CPU_SETSIZE && started < run->cores; processor++) {
        if (!CPU_ISSET((size_t)processor, allowed)) {
            continue;
        }
        cores[started] = (Core){run, started, processor};
        if (pthread_create(&threads[started], NULL, run_core, &cores[started])) {
            give_up("cannot start a thread");
        }
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return summarize(run);
}

int main(int argc, char **argv) {
    cpu_set_t allowed;
    if (argc != 4) {
        give_up("usage: memory BYTES[,BYTES...] WORKERS SECONDS");
    }
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {
        give_up("cannot tell which cores there are");
    }
    int workers = atoi(argv[2]), cores = CPU_COUNT(&allowed);
    Run run = {.cores = cores < MOST_CORES ? cores : MOST_CORES, .seconds = atof(argv[3]), .factor = 1};
    run.times = malloc((size_t)run.cores * MOST * sizeof *run.times);
    if (!run.times || workers < 1) {
        give_up("no memory, or no workers");
    }
    printf("{\"workers\": %d, \"rows\": [", workers);
    for (char *next = argv[1], *end; *next; next = *end ? end + 1 : end) {
        long bytes = strtol(next, &end, 10);
        if (bytes < 4 || (*end && *end != ',')) {
            give_up("BYTES must be numbers of at least 4, with commas between them");
        }
        run.count = ((size_t)workers * (size_t)bytes / sizeof(float) + (size_t)run.cores - 1) / (size_t)run.cores;
        printf("%s{\"bytes\": %ld, \"time_us\": %.3f, \"wrong\": 0}", next == argv[1] ? "" : ", ", bytes,
               run_size(&run, &allowed) * 1e6);
    }
    printf("]}\n");
    free(run.times);
    return 0;
}
