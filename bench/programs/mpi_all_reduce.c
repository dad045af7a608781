/* All-reduce in place (float32, sum) of any MPI: one JSON line with the time of each size, for bench/peers.
 *
 * usage: mpi_all_reduce BYTES[,BYTES...] SECONDS TOUCH LIFETIME
 *
 * Each size is checked once in every element on every rank before it is timed. The time is the median over iterations
 * of the slowest rank's; cpu_us is the processor time of all ranks together, a call. With TOUCH 1 every rank rewrites
 * its vector before each iteration and all meet in a barrier, both untimed, so that no slice lies in the cache of who
 * last wrote it. The process ends with the one that started it, and after LIFETIME seconds in any case. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD = 1021, WARM_UP = 3, FEWEST = 7, FEWEST_SLOW = 3, MOST = 20000 };

typedef struct Run {
    int rank, size, touch;
    double seconds; /* of one size, about */
} Run;

typedef struct Times {
    double call, processor; /* seconds: of a call, and of all processes together a call */
} Times;

static void give_up(const char *why) {
    fprintf(stderr, "mpi_all_reduce: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) {
        give_up("out of memory");
    }
    return memory;
}

/* Small integers: their sums are exact in float32 in any order. */
static void fill(const Run *run, float *vector, int count) {
    for (int i = 0; i < count; i++) {
        vector[i] = (float)(i % PERIOD + run->rank);
    }
}

static void reduce(float *vector, int count) {
    if (MPI_Allreduce(MPI_IN_PLACE, vector, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS) {
        give_up("MPI_Allreduce failed");
    }
}

static long count_wrong(const Run *run, const float *vector, int count) {
    long mine = 0, all = 0;
    for (int i = 0; i < count; i++) {
        mine += vector[i] != (float)(run->size * (i % PERIOD) + run->size * (run->size - 1) / 2);
    }
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static double time_one(const Run *run, float *vector, int count) {
    if (run->touch) {
        fill(run, vector, count);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    double start = MPI_Wtime();
    reduce(vector, count);
    return MPI_Wtime() - start;
}

/* The same number on every rank: what the slowest does in the time given. A call that takes all of it is warmed up and
 * timed less often. */
static int plan_iterations(const Run *run, float *vector, int count) {
    double slowest = 0;
    for (int i = 0; i < WARM_UP && slowest < run->seconds; i++) {
        double start = MPI_Wtime();
        time_one(run, vector, count);
        slowest = MPI_Wtime() - start;
        MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    double wanted = run->seconds / (slowest > 1e-9 ? slowest : 1e-9);
    int fewest = slowest < run->seconds ? FEWEST : FEWEST_SLOW;
    return wanted < fewest ? fewest : wanted > MOST ? MOST : (int)wanted;
}

static double processor_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static Times measure(const Run *run, float *vector, int count) {
    memset(vector, 0, (size_t)count * sizeof *vector); /* sums of sums would grow without end */
    int iterations = plan_iterations(run, vector, count);
    double *times = allocate((size_t)iterations * sizeof *times);
    double used = processor_seconds();
    for (int i = 0; i < iterations; i++) {
        times[i] = time_one(run, vector, count);
    }
    used = processor_seconds() - used;
    MPI_Allreduce(MPI_IN_PLACE, &used, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, times, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    Times result = {.call = median(times, iterations), .processor = used / iterations};
    free(times);
    return result;
}

static void run_size(const Run *run, long bytes, int first) {
    int count = (int)(bytes / (long)sizeof(float));
    float *vector = allocate((size_t)bytes);
    fill(run, vector, count);
    reduce(vector, count);
    long wrong = count_wrong(run, vector, count);
    Times times = measure(run, vector, count);
    if (run->rank == 0) {
        printf("%s{\"bytes\": %ld, \"time_us\": %.3f, \"cpu_us\": %.3f, \"wrong\": %ld}", first ? "" : ", ", bytes,
               times.call * 1e6, times.processor * 1e6, wrong);
    }
    free(vector);
}

static void run_sizes(const Run *run, const char *sizes) {
    for (const char *next = sizes; next && *next;) {
        char *end = NULL;
        long bytes = strtol(next, &end, 10);
        if (bytes < (long)sizeof(float) || bytes > 1L << 32 || bytes % (long)sizeof(float) || (*end && *end != ',')) {
            give_up("BYTES must be multiples of 4 up to 4 GB, with commas between them");
        }
        run_size(run, bytes, next == sizes);
        next = *end ? end + 1 : NULL;
    }
}

static void leave(int number) {
    (void)number;
    _exit(0);
}

/* Everything has been said. Between hosts MPICH over UCX now and then never returns from MPI_Finalize, so nobody waits
 * for it longer than a second. */
static void finish(void) {
    fflush(stdout);
    signal(SIGALRM, leave);
    alarm(1);
    MPI_Finalize();
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc == 5) {
        alarm((unsigned)atoi(argv[4]));
    }
    MPI_Init(&argc, &argv);
    if (argc != 5) {
        give_up("usage: mpi_all_reduce BYTES[,BYTES...] SECONDS TOUCH LIFETIME");
    }
    Run run = {.seconds = atof(argv[2]), .touch = atoi(argv[3])};
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.size);
    if (run.rank == 0) {
        printf("{\"workers\": %d, \"rows\": [", run.size);
    }
    run_sizes(&run, argv[1]);
    if (run.rank == 0) {
        printf("]}\n");
    }
    finish();
    return 0;
}
