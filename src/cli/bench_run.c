/* The loop of lockstep bench: for every size warm-up, a barrier, timed calls, and on request one checked call. The
 * number of calls follows from times that all ranks share, so all ranks make the same number. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/tools.h>

#include "cli/bench.h"
#include "cli/commands.h"

enum { LEAST_ITERATIONS = 5, MOST_ITERATIONS = 20000 }; /* unless --iterations says how many */
#define SECONDS_A_SIZE 0.5
#define TOUCH_PIECE    ((size_t)64 * 1024)

struct bench {
    const struct bench_options *options;
    ls_communicator *communicator;
    ls_tools_gpus *gpus; /* the vectors pass through host memory to them; NULL if the vectors lie in host memory */
    int rank, size;      /* size: ranks that add, which GPUs are */
    ls_compression compression;    /* that has an effect */
    unsigned char *input, *output; /* each holds the largest vector; the same memory in place */
    int *hosts;                    /* [size] of each rank */
    size_t *counts;                /* [size]: each rank's part in an all-gather or reduce-scatter */
    double *times;                 /* seconds a call; the slowest rank's once they have been shared */
    void **made;                   /* the result of the last all-to-all, which the library allocates */
};

/* ---- memory ---- */

/* The one place that vectors come from: memory that the ranks share where they can. Collective. */
static ls_status allocate_vector(struct bench *bench, size_t bytes, unsigned char **vector) {
    void *memory = NULL;
    ls_status status = ls_communicator_allocate(bench->communicator, bytes, &memory);
    *vector = memory;
    if (status != LS_RESOURCE_EXHAUSTED) return status;
    return ls_tools_fail(status, "no memory for a vector of %zu bytes: lower --max-bytes", bytes);
}

static void free_vector(const struct bench *bench, unsigned char *vector) {
    ls_communicator_release(bench->communicator, vector);
}

static size_t most_iterations(const struct bench_options *options) {
    int64_t most = options->iterations ? options->iterations : MOST_ITERATIONS;
    return (size_t)(most > options->warmup ? most : options->warmup);
}

static size_t largest_of(const struct bench_options *options) {
    size_t largest = 0;
    for (int i = 0; i < options->size_count; i++)
        if (options->bytes[i] > largest) largest = options->bytes[i];
    return largest;
}

static ls_status allocate(struct bench *bench) {
    const struct bench_options *options = bench->options;
    size_t largest = largest_of(options);
    bench->counts = calloc((size_t)bench->size, sizeof(*bench->counts));
    bench->hosts = calloc((size_t)bench->size, sizeof(*bench->hosts));
    bench->times = calloc(most_iterations(options), sizeof(*bench->times));
    if (!bench->counts || !bench->hosts || !bench->times)
        return ls_tools_fail(LS_RESOURCE_EXHAUSTED, "no memory for %zu times", most_iterations(options));
    for (int rank = 0; rank < ls_size(bench->communicator); rank++)
        bench->hosts[rank] = ls_tools_host(bench->communicator, rank);
    ls_status status = allocate_vector(bench, largest, &bench->output);
    if (status || options->in_place || options->collective == BENCH_BROADCAST) {
        bench->input = bench->output;
        return status;
    }
    return allocate_vector(bench, largest, &bench->input);
}

static void release_bench(struct bench *bench) {
    if (bench->input != bench->output) free_vector(bench, bench->input);
    free_vector(bench, bench->output);
    free(bench->counts);
    free(bench->hosts);
    free(bench->times);
    ls_memory_free(*bench->made);
}

/* ---- GPUs ---- */

/* Copies the vector of host memory to each GPU of this worker: as it is, or with a check the GPU's own input. */
static ls_status write_to_gpus(const struct bench *bench, const struct bench_check *check, size_t count, void *vector) {
    int first, here, total;
    ls_status status = LS_OK;
    ls_tools_gpus_count(bench->gpus, &first, &here, &total);
    for (int i = 0; i < here && !status; i++) {
        if (check) bench_check_fill(check, first + i, 0, count, vector);
        status = ls_tools_gpus_write(bench->gpus, i, vector, count * ls_dtype_size(bench->options->dtype));
    }
    return status;
}

/* Elements of the results there that are wrong; -1 without memory. */
static ls_status count_wrong_on_gpus(const struct bench *bench, const struct bench_check *check, size_t count,
                                     int64_t *wrong) {
    int first, here, total;
    ls_tools_gpus_count(bench->gpus, &first, &here, &total);
    for (int i = 0; i < here && *wrong >= 0; i++) {
        ls_status status =
            ls_tools_gpus_read(bench->gpus, i, bench->output, count * ls_dtype_size(bench->options->dtype));
        if (status) return status;
        int64_t found = bench_check_result(check, count, bench->output);
        *wrong = found < 0 ? found : *wrong + found;
    }
    return LS_OK;
}

/* ---- one call ---- */

/* The input of this rank: elements [start, start + count) of the vector. */
struct part {
    size_t start, count;
    unsigned char *data;
};

static struct part own_part(const struct bench *bench, size_t count) {
    if (bench->options->collective != BENCH_ALL_GATHER) return (struct part){0, count, bench->input};
    size_t start = bench_part_start(count, bench->size, bench->rank), element = ls_dtype_size(bench->options->dtype);
    unsigned char *data = bench->input == bench->output ? bench->output + start * element : bench->input;
    return (struct part){start, bench_part_start(count, bench->size, bench->rank + 1) - start, data};
}

/* The place of this rank's result; in place a reduce-scatter's result lies at the rank's part of the input. */
static unsigned char *result_of(const struct bench *bench, size_t count) {
    if (bench->options->collective == BENCH_ALL_TO_ALL) return *bench->made;
    bool part = bench->options->collective == BENCH_REDUCE_SCATTER && bench->input == bench->output;
    if (!part) return bench->output;
    return bench->output + bench_part_start(count, bench->size, bench->rank) * ls_dtype_size(bench->options->dtype);
}

/* Sends first: a rank that waits takes in what comes. */
static ls_status send_receive(const struct bench *bench, size_t count) {
    ls_dtype dtype = bench->options->dtype;
    int next = (bench->rank + 1) % bench->size, before = (bench->rank + bench->size - 1) % bench->size;
    ls_status status = ls_send(bench->communicator, LS_SEND("bench", bench->input, count, dtype, next));
    return status ? status : ls_receive(bench->communicator, LS_RECEIVE("bench", bench->output, count, dtype, before));
}

/* The counts that come are all those of this rank's part. */
static ls_status all_to_all(const struct bench *bench) {
    size_t *received = calloc((size_t)bench->size, sizeof(*received));
    if (!received) return ls_tools_fail(LS_RESOURCE_EXHAUSTED, "no memory for the counts of an all-to-all");
    ls_memory_free(*bench->made);
    *bench->made = NULL;
    ls_status status = ls_all_to_all(bench->communicator, LS_ALL_TO_ALL("bench", bench->input, bench->counts,
                                                                        bench->made, received, bench->options->dtype));
    free(received);
    return status;
}

static ls_status call(const struct bench *bench, size_t count) {
    const struct bench_options *options = bench->options;
    if (bench->gpus) return ls_tools_gpus_all_reduce(bench->gpus, options->op, options->dtype, count);
    switch (options->collective) {
    case BENCH_BROADCAST:
        return ls_broadcast(bench->communicator, LS_BROADCAST("bench", bench->output, count, options->dtype));
    case BENCH_ALL_GATHER:
        return ls_all_gather(bench->communicator, LS_ALL_GATHER("bench", own_part(bench, count).data, bench->output,
                                                                bench->counts, options->dtype));
    case BENCH_REDUCE_SCATTER:
        return ls_reduce_scatter(bench->communicator, LS_REDUCE_SCATTER("bench", bench->input, result_of(bench, count),
                                                                        bench->counts, options->dtype, options->op));
    case BENCH_ALL_TO_ALL:
        return all_to_all(bench);
    case BENCH_SEND_RECEIVE:
        return send_receive(bench, count);
    default:
        return ls_all_reduce(bench->communicator, LS_ALL_REDUCE("bench", bench->input, bench->output, count,
                                                                options->dtype, options->op, options->compression));
    }
}

/* Waits until all ranks are there. It waits in the way of the calls, since the wake from another kind of wait would be
 * timed. */
static ls_status meet(const struct bench *bench) {
    int32_t token = 1;
    return ls_all_reduce(bench->communicator, LS_ALL_REDUCE("bench meets", &token, &token, 1, LS_INT32, LS_MAX));
}

/* Small positive values of every type. Piece by piece, because one large memset goes past the caches. */
static void rewrite(unsigned char *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += TOUCH_PIECE)
        memset(data + at, 0x3C, bytes - at < TOUCH_PIECE ? bytes - at : TOUCH_PIECE);
}

/* Touches this rank's input, as if it had just been computed. */
static ls_status touch(const struct bench *bench, const struct part *own) {
    size_t bytes = own->count * ls_dtype_size(bench->options->dtype);
    rewrite(own->data, bytes);
    return bench->gpus ? write_to_gpus(bench, NULL, own->count, own->data) : LS_OK;
}

static double seconds_of(clockid_t clock) {
    struct timespec time;
    (void)clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- timing ---- */

static ls_status repeat(const struct bench *bench, size_t count, size_t iterations, double *times) {
    struct part own = own_part(bench, count);
    ls_status status = LS_OK;
    for (size_t i = 0; i < iterations && !status; i++) {
        if (bench->options->touch) {
            status = touch(bench, &own);
            if (!status) status = meet(bench);
            if (status) return status;
        }
        double start = seconds_of(CLOCK_MONOTONIC);
        status = call(bench, count);
        times[i] = seconds_of(CLOCK_MONOTONIC) - start;
    }
    return status;
}

/* The same, and then every rank knows the slowest rank's time of each call; adds the processor time of all ranks, of
 * every thread, to cpu. */
static ls_status time_calls(const struct bench *bench, size_t count, size_t iterations, double *times, double *cpu) {
    ls_status status = meet(bench);
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (!status) status = repeat(bench, count, iterations, times);
    used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used;
    if (!status) status = ls_all_reduce(bench->communicator, LS_ALL_REDUCE("bench cpu", &used, &used, 1, LS_FLOAT64));
    *cpu += used;
    return status ? status
                  : ls_all_reduce(bench->communicator,
                                  LS_ALL_REDUCE("bench times", times, times, iterations, LS_FLOAT64, LS_MAX));
}

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Without --iterations: how many more calls fit into the time of a size, by the first ones. */
static size_t iterations_left(const double *times, size_t done) {
    double spent = 0;
    for (size_t i = 0; i < done; i++) spent += times[i];
    double more = spent > 0 ? (SECONDS_A_SIZE - spent) / (spent / (double)done) : MOST_ITERATIONS;
    if (more < 0) return 0;
    return more < (double)(MOST_ITERATIONS - done) ? (size_t)more : MOST_ITERATIONS - done;
}

static double bus_factor(enum bench_collective collective, int size) {
    double n = size;
    if (collective == BENCH_BROADCAST || collective == BENCH_SEND_RECEIVE) return 1;
    return (collective == BENCH_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

static void summarize(const struct bench *bench, size_t iterations, double cpu, struct bench_row *row) {
    double *times = bench->times;
    qsort(times, iterations, sizeof(*times), compare);
    double median = (times[(iterations - 1) / 2] + times[iterations / 2]) / 2;
    row->iterations = (int64_t)iterations;
    row->min_us = times[0] * 1e6;
    row->median_us = median * 1e6;
    row->max_us = times[iterations - 1] * 1e6;
    row->cpu_us = cpu / (double)iterations * 1e6;
    row->algbw = median > 0 ? (double)row->bytes / median * 1e-9 : 0;
    row->busbw = row->algbw * bus_factor(bench->options->collective, bench->size);
}

static ls_status measure_row(const struct bench *bench, struct bench_row *row) {
    const struct bench_options *options = bench->options;
    size_t iterations = options->iterations ? (size_t)options->iterations : LEAST_ITERATIONS;
    double cpu = 0;
    ls_status status = repeat(bench, row->count, (size_t)options->warmup, bench->times);
    if (!status) status = time_calls(bench, row->count, iterations, bench->times, &cpu);
    if (!status && !options->iterations) {
        size_t more = iterations_left(bench->times, iterations);
        if (more) status = time_calls(bench, row->count, more, bench->times + iterations, &cpu);
        iterations += more;
    }
    if (!status) summarize(bench, iterations, cpu, row);
    return status;
}

/* ---- checking ---- */

/* One call with values that no call before had, into memory that holds nothing right; *wrong: elements here. */
static ls_status check_on_gpus(const struct bench *bench, const struct bench_check *oracle, size_t count,
                               int64_t *wrong) {
    ls_status status = write_to_gpus(bench, oracle, count, bench->output);
    if (!status) status = call(bench, count);
    return status ? status : count_wrong_on_gpus(bench, oracle, count, wrong);
}

/* The same; the result stays. */
static ls_status check_in_memory(const struct bench *bench, const struct bench_check *oracle, size_t count,
                                 int64_t *wrong) {
    struct part own = own_part(bench, count);
    memset(bench->output, 0xA5, count * ls_dtype_size(bench->options->dtype));
    if (bench->options->collective != BENCH_BROADCAST || bench->rank == 0)
        bench_check_fill(oracle, bench->rank, own.start, own.count, own.data);
    ls_status status = call(bench, count);
    if (status || !bench->options->check) return status;
    *wrong = bench_check_result(oracle, count, result_of(bench, count));
    if (*wrong >= 0 && bench->input != bench->output)
        *wrong += bench_check_input(oracle, own.start, own.count, own.data);
    return LS_OK;
}

/* Every rank compares its result with the first one's. */
static ls_status take_digest(const struct bench *bench, struct bench_row *row) {
    char first[sizeof(row->digest)];
    ls_status status = ls_tools_sha256(result_of(bench, row->count), row->bytes, row->digest);
    memcpy(first, row->digest, sizeof(first));
    if (!status)
        status = ls_broadcast(bench->communicator, LS_BROADCAST("bench digest", first, sizeof(first), LS_INT8));
    int32_t differs = memcmp(first, row->digest, sizeof(first)) != 0;
    if (!status)
        status =
            ls_all_reduce(bench->communicator, LS_ALL_REDUCE("bench differs", &differs, &differs, 1, LS_INT32, LS_MAX));
    row->apart = differs != 0;
    return status;
}

static ls_status check_row(struct bench *bench, struct bench_row *row) {
    const struct bench_check oracle = {.options = bench->options,
                                       .compression = bench->compression,
                                       .hosts = bench->hosts,
                                       .by_host = !strcmp(row->algorithm, "two-level"),
                                       .rank = bench->rank,
                                       .size = bench->size};
    int64_t wrong = 0;
    ls_status status = bench->gpus ? check_on_gpus(bench, &oracle, row->count, &wrong)
                                   : check_in_memory(bench, &oracle, row->count, &wrong);
    if (status) return status;
    if (wrong < 0) return ls_tools_fail(LS_RESOURCE_EXHAUSTED, "no memory for the right result of --check");
    if (bench->options->check) {
        status = ls_all_reduce(bench->communicator, LS_ALL_REDUCE("bench wrong", &wrong, &wrong, 1, LS_INT64));
        if (!status) row->wrong = wrong;
    }
    return status || !bench->options->digest ? status : take_digest(bench, row);
}

/* ---- all of it ---- */

static ls_status run_size(struct bench *bench, size_t bytes, struct bench_row *row) {
    size_t element = ls_dtype_size(bench->options->dtype), count = bytes / element;
    *row = (struct bench_row){.bytes = count * element, .count = count, .wrong = BENCH_NOT_CHECKED};
    row->algorithm = bench->gpus ? "nccl" : "-";
    if (bench->options->collective == BENCH_ALL_REDUCE && !bench->gpus)
        row->algorithm = ls_tools_algorithm(bench->communicator, bench->options->dtype, bench->compression, count);
    for (int rank = 0; rank < bench->size; rank++)
        bench->counts[rank] =
            bench_part_start(count, bench->size, rank + 1) - bench_part_start(count, bench->size, rank);
    rewrite(bench->input, row->bytes);
    rewrite(bench->output, row->bytes);
    ls_status status = bench->gpus ? write_to_gpus(bench, NULL, count, bench->output) : LS_OK;
    if (!status) status = measure_row(bench, row);
    return status || !(bench->options->check || bench->options->digest) ? status : check_row(bench, row);
}

static ls_status run_all(struct bench *bench, struct bench_result *result) {
    const struct bench_options *options = bench->options;
    ls_status status = allocate(bench);
    if (!status && bench->rank == 0) bench_print_head(options, result);
    for (int i = 0; i < options->size_count && !status; i++) {
        status = run_size(bench, options->bytes[i], &result->rows[i]);
        if (status) break;
        result->row_count++;
        if (bench->rank == 0) bench_print_row(options, &result->rows[i]);
    }
    return status;
}

/* Its lines as comments. */
static ls_status explain(const struct bench *bench) {
    char *text, *state = NULL;
    if (!bench->options->explain || bench->rank) return LS_OK;
    ls_status status = ls_tools_explain(bench->communicator, &text);
    if (status) return status;
    for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
        (void)printf("# %s\n", line);
    ls_memory_free(text);
    return LS_OK;
}

/* A setting that the command line gives. */
static bool set(const char *name, const char *value) {
    if (!value || !setenv(name, value, 1)) return true;
    (void)fprintf(stderr, "lockstep bench: no memory for %s\n", name);
    return false;
}

static int report_result(const struct bench *bench, ls_status status, const struct bench_result *result) {
    int64_t wrong = 0;
    if (status) return ls_exit(status);
    for (int i = 0; i < result->row_count; i++)
        wrong += (result->rows[i].wrong > 0 ? result->rows[i].wrong : 0) + result->rows[i].apart;
    if (bench->rank == 0) {
        bench_print_end(bench->options, result);
        if (bench->options->json) bench_print_json(bench->options, result);
        (void)fflush(stdout);
    }
    return wrong ? 1 : 0;
}

/* The workers, or the GPUs of all workers. */
static ls_status open_ranks(struct bench *bench, int *devices) {
    const struct bench_options *options = bench->options;
    int first;
    *devices = 1;
    if (options->communication != LS_NCCL) {
        ls_status status =
            ls_communicator_new(LS_STRATEGY(.communication = options->communication), &bench->communicator);
        if (!status) bench->size = ls_size(bench->communicator);
        return status;
    }
    ls_status status = ls_tools_gpus_new(LS_STRATEGY(.communication = LS_NCCL, .devices = options->devices),
                                         largest_of(options), &bench->gpus);
    if (status) return status;
    bench->communicator = ls_tools_gpus_workers(bench->gpus);
    ls_tools_gpus_count(bench->gpus, &first, devices, &bench->size);
    return LS_OK;
}

int bench_run(const struct bench_options *options) {
    void *made = NULL;
    struct bench bench = {.options = options, .made = &made};
    struct bench_result result = {.row_count = 0};
    if (!set("LOCKSTEP_TRANSPORT", options->transport) || !set("LOCKSTEP_ALGORITHM", options->algorithm)) return 1;
    if (ls_serve_is_due()) return ls_serve_run();
    ls_status status = open_ranks(&bench, &result.devices);
    if (status) return ls_exit(status);
    bench.rank = ls_rank(bench.communicator);
    result.workers = ls_size(bench.communicator);
    result.ranks = bench.size;
    (void)snprintf(result.transport, sizeof(result.transport), "%s",
                   bench.gpus ? "nccl"
                              : ls_tools_transport(bench.communicator, bench_collectives[options->collective]));
    result.compressed = options->compression && ls_tools_compresses(bench.communicator);
    if (result.compressed) bench.compression = options->compression;
    status = explain(&bench);
    if (!status) status = run_all(&bench, &result);
    release_bench(&bench);
    status = bench.gpus ? ls_tools_gpus_close(bench.gpus, status) : ls_communicator_close(bench.communicator, status);
    return report_result(&bench, status, &result);
}
