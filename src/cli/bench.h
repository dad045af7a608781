/* Shared by the files of lockstep bench: bench.c reads the command line, bench_run.c runs and times, bench_check.c
 * holds the oracle, bench_table.c prints. */
#pragma once
#include <lockstep/tools.h>

#define BENCH_MAX_SIZES   128
#define BENCH_NOT_CHECKED (-1)

enum bench_collective {
    BENCH_ALL_REDUCE,
    BENCH_BROADCAST,
    BENCH_ALL_GATHER,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_TO_ALL,
    BENCH_SEND_RECEIVE /* to the next rank and from the one before, at once */
};

/* True if the collective adds, and so has an op and an order. */
static inline bool bench_reduces(enum bench_collective collective) {
    return collective == BENCH_ALL_REDUCE || collective == BENCH_REDUCE_SCATTER;
}

struct bench_options {
    enum bench_collective collective;
    ls_communication communication; /* LS_NCCL: the vectors lie on GPUs */
    const char *devices;            /* with LS_NCCL; NULL if the environment chooses */
    const char *transport;          /* NULL if the environment chooses */
    const char *algorithm;          /* likewise */
    ls_dtype dtype;
    ls_reduce_op op;
    ls_compression compression;
    size_t bytes[BENCH_MAX_SIZES]; /* of the whole vector, as asked for */
    int size_count;
    int64_t iterations; /* 0 means as many as fit into about a second */
    int64_t warmup;
    bool check, digest, touch, in_place, json, explain;
};

struct bench_row {
    size_t bytes, count; /* of the whole vector */
    int64_t iterations;
    double min_us, median_us, max_us;
    double cpu_us;       /* processor time of all ranks together, a call */
    double algbw, busbw; /* 10^9 bytes a second, from the median */
    const char *algorithm;
    int64_t wrong;   /* elements, all ranks together; BENCH_NOT_CHECKED */
    char digest[65]; /* SHA-256 of the result, which all ranks have; "": not asked for */
    bool apart;      /* the ranks have results that differ */
};

struct bench_result {
    char transport[32]; /* that was taken */
    int workers;
    int devices;     /* of this worker */
    int ranks;       /* that add: the workers, or all their GPUs */
    bool compressed; /* the compression has an effect */
    struct bench_row rows[BENCH_MAX_SIZES];
    int row_count;
};

/* bench_run.c: joins, measures every size, prints on the chief; returns the exit status. */
int bench_run(const struct bench_options *options);

/* bench_check.c. The input of a rank depends only on rank and index, so every rank knows the right result. */
struct bench_check {
    const struct bench_options *options;
    ls_compression compression; /* that has an effect */
    const int *hosts;           /* [size] of each rank */
    bool by_host;               /* the sum of a host is rounded, not the input of a rank */
    int rank, size;
};
/* The first element of a rank's part when count elements are cut into size parts; rank size gives count. */
size_t bench_part_start(size_t count, int size, int rank);
/* Writes rank's input at positions [start, start + count) of the vector. */
void bench_check_fill(const struct bench_check *check, int rank, size_t start, size_t count, void *elements);
/* The number of elements of output whose bits differ from the right result; -1 without memory. The output of a
 * reduce-scatter is the rank's part. */
int64_t bench_check_result(const struct bench_check *check, size_t count, const void *output);
/* The number of rank's elements at positions [start, start + count) that differ from those that bench_check_fill wrote.
 */
int64_t bench_check_input(const struct bench_check *check, size_t start, size_t count, const void *elements);

/* bench.c: words of the command line by value; each list ends with NULL. */
extern const char *const bench_collectives[], *const bench_ops[], *const bench_compressions[];

/* bench_table.c */
void bench_print_head(const struct bench_options *options, const struct bench_result *result);
void bench_print_row(const struct bench_options *options, const struct bench_row *row);
void bench_print_end(const struct bench_options *options, const struct bench_result *result);
void bench_print_json(const struct bench_options *options, const struct bench_result *result);
