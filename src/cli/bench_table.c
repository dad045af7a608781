/* The output of lockstep bench: a line a size while it runs, and one JSON object at the end. Lines that are no row
 * begin with '#', as those of nccl-tests do. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"

static const char *op_name(const struct bench_options *options) {
    return bench_reduces(options->collective) ? bench_ops[options->op] : "none";
}

/* The name of the requested algorithm. */
static const char *algorithm_name(const struct bench_options *options) {
    if (options->communication == LS_RING) return "ring";
    if (options->communication == LS_NCCL) return "nccl";
    return options->algorithm ? options->algorithm : "auto";
}

static bool in_place(const struct bench_options *options) {
    return options->in_place || options->collective == BENCH_BROADCAST;
}

void bench_print_head(const struct bench_options *options, const struct bench_result *result) {
    char gpus[40] = "";
    if (options->communication == LS_NCCL) (void)snprintf(gpus, sizeof(gpus), " with %d GPUs", result->ranks);
    (void)printf("# %s, %d worker%s%s, transport %s, algorithm %s, %s%s\n", bench_collectives[options->collective],
                 result->workers, result->workers == 1 ? "" : "s", gpus, result->transport, algorithm_name(options),
                 in_place(options) ? "in place" : "out of place", options->touch ? ", rewritten before each call" : "");
    if (options->compression)
        (void)printf(result->compressed ? "# %s on the links; busbw counts the bytes of float32\n"
                                        : "# compression %s changes nothing: there are no links between the workers\n",
                     bench_compressions[options->compression]);
    (void)printf("# times in microseconds, algbw and busbw in GB/s (10^9 bytes a second)\n");
    (void)printf("#%11s %12s %8s %6s %11s %11s %11s %9s %9s %8s  %s%s\n", "bytes", "count", "type", "op", "min",
                 "median", "max", "algbw", "busbw", "#wrong", "algorithm", options->digest ? "  digest" : "");
    (void)fflush(stdout);
}

void bench_print_row(const struct bench_options *options, const struct bench_row *row) {
    char wrong[32] = "-";
    if (row->wrong != BENCH_NOT_CHECKED) (void)snprintf(wrong, sizeof(wrong), "%" PRId64, row->wrong);
    (void)printf("%12zu %12zu %8s %6s %11.2f %11.2f %11.2f %9.3f %9.3f %8s  %s%s%.16s\n", row->bytes, row->count,
                 ls_dtype_name(options->dtype), op_name(options), row->min_us, row->median_us, row->max_us, row->algbw,
                 row->busbw, wrong, row->algorithm, row->digest[0] ? "  " : "", row->apart ? "differs" : row->digest);
    (void)fflush(stdout);
}

void bench_print_end(const struct bench_options *options, const struct bench_result *result) {
    int64_t wrong = 0;
    if (!options->check) return;
    for (int i = 0; i < result->row_count; i++) wrong += result->rows[i].wrong;
    (void)printf("# wrong elements: %" PRId64 " (%s)\n", wrong, wrong ? "FAILED" : "every bit is right");
}

static void print_json_row(const struct bench_row *row, const char *before) {
    const char *digest = row->apart ? "differs" : row->digest;
    ls_tools_print_json(stdout,
                        "%-s{'bytes': %zu, 'count': %zu, 'iterations': %lld, 'algorithm': %s, 'time_us': %.9g, "
                        "'time_min_us': %.9g, 'time_max_us': %.9g, 'cpu_us': %.9g, 'algbw_gbps': %.9g, 'busbw_gbps': "
                        "%.9g, 'wrong': %.0f, 'digest': %s}",
                        before, row->bytes, row->count, (long long)row->iterations, row->algorithm, row->median_us,
                        row->min_us, row->max_us, row->cpu_us, row->algbw, row->busbw,
                        row->wrong == BENCH_NOT_CHECKED ? (double)NAN : (double)row->wrong,
                        row->digest[0] ? digest : NULL);
}

void bench_print_json(const struct bench_options *options, const struct bench_result *result) {
    ls_tools_print_json(stdout,
                        "{'collective': %s, 'transport': %s, 'compression': %s, 'algorithm': %s, 'workers': %d, "
                        "'devices': %d, 'dtype': %s, 'op': %s, 'in_place': %i, 'touch': %i, 'rows': [",
                        bench_collectives[options->collective], result->transport,
                        bench_compressions[options->compression], algorithm_name(options), result->workers,
                        result->devices, ls_dtype_name(options->dtype), op_name(options), in_place(options),
                        options->touch);
    for (int i = 0; i < result->row_count; i++) print_json_row(&result->rows[i], i ? ", " : "");
    (void)printf("]}\n");
}
