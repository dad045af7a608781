/* The output of lockstep bench: a line a size while it runs, and one JSON object at the end. Lines that are no row
 * begin with '#', as those of nccl-tests do. */
#include <inttypes.h>
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

static void print_json_row(const struct bench_row *row) {
    (void)printf("{\"bytes\": %zu, \"count\": %zu, \"iterations\": %" PRId64 ", \"algorithm\": \"%s\", ", row->bytes,
                 row->count, row->iterations, row->algorithm);
    (void)printf("\"time_us\": %.9g, \"time_min_us\": %.9g, \"time_max_us\": %.9g, ", row->median_us, row->min_us,
                 row->max_us);
    (void)printf("\"cpu_us\": %.9g, ", row->cpu_us);
    (void)printf("\"algbw_gbps\": %.9g, \"busbw_gbps\": %.9g, \"wrong\": ", row->algbw, row->busbw);
    if (row->wrong == BENCH_NOT_CHECKED)
        (void)printf("null, ");
    else
        (void)printf("%" PRId64 ", ", row->wrong);
    if (row->digest[0])
        (void)printf("\"digest\": \"%s\"}", row->apart ? "differs" : row->digest);
    else
        (void)printf("\"digest\": null}");
}

void bench_print_json(const struct bench_options *options, const struct bench_result *result) {
    (void)printf("{\"collective\": \"%s\", ", bench_collectives[options->collective]);
    ls_tools_put_json(stdout, "transport", result->transport);
    (void)printf("\"compression\": \"%s\", ", bench_compressions[options->compression]);
    (void)printf("\"algorithm\": \"%s\", \"workers\": %d, \"devices\": %d, ", algorithm_name(options), result->workers,
                 result->devices);
    (void)printf("\"dtype\": \"%s\", \"op\": \"%s\", ", ls_dtype_name(options->dtype), op_name(options));
    (void)printf("\"in_place\": %s, \"touch\": %s, \"rows\": [", in_place(options) ? "true" : "false",
                 options->touch ? "true" : "false");
    for (int i = 0; i < result->row_count; i++) {
        if (i) (void)printf(", ");
        print_json_row(&result->rows[i]);
    }
    (void)printf("]}\n");
}
