/* lockstep bench: times one collective over a range of sizes, with nccl-tests' columns. This file reads the command
 * line; other files run, check and print. */
#include "cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common_options.h"

static const char about[] =
    "lockstep bench: time a collective over a range of sizes\n"
    "\n"
    "usage: lockstep bench all-reduce|broadcast|all-gather|reduce-scatter|all-to-all|send-receive [OPTIONS]\n"
    "\n"
    "Joins the workers of TF_CONFIG (or of lockstep run; without either it runs alone) and measures. Every worker\n"
    "gets the same options; the chief prints one line a size. A ps task serves (--algorithm assist).\n";
static const char more[] =
    "columns:\n"
    "  A call takes as long as it takes the slowest rank; min, median and max are over the calls, in microseconds;\n"
    "  cpu_us is the processor time of all ranks together, a call (with --touch the rewriting is in it).\n"
    "  algbw is bytes / median, in GB/s: 10^9 bytes a second, not bits. busbw is algbw times what n ranks must move\n"
    "  for each byte: 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and\n"
    "  all-to-all, 1 for broadcast and send-receive (to the next rank, and from the one before).\n"
    "\n"
    "examples:\n"
    "  lockstep run -np 4 -- lockstep bench all-reduce --check\n"
    "  lockstep run -np 2 -- lockstep bench all-reduce --bytes 4K,1M,64M --in-place --touch --json\n"
    "  lockstep bench all-reduce --communication nccl --check\n"
    "\n"
    "exit status: 0 measured; 1 --check or --digest found something wrong, or anything else; 2 a bad command line or\n"
    "TF_CONFIG; 138 a peer was lost or a deadline passed.\n";

const char *const bench_collectives[] = {"all-reduce", "broadcast",    "all-gather", "reduce-scatter",
                                         "all-to-all", "send-receive", NULL};
static const char *const dtypes[] = {"float32", "float64", "float16", "bfloat16", "int32",
                                     "int64",   "uint8",   "int8",    "bool",     NULL};
const char *const bench_ops[] = {"sum", "mean", "min", "max", "product", "adasum", NULL};
static const char *const communications[] = {"auto", "ring", "nccl", NULL}; /* as ls_communication */
static const char *const algorithms[] = {
    "ring", "auto", "shared", "two-level", "exchange", "direct", "halving-doubling", "assist", NULL};
const char *const bench_compressions[] = {"none", "fp16", "bf16", NULL};

#define MAX_BYTES_LIMIT (INT64_C(1) << 40)

/* The command line as given, before its parts are put together. */
struct request {
    struct bench_options options;
    int64_t min_bytes, max_bytes, factor;
    int communication, algorithm; /* places in the lists; -1 if not given */
};

/* Digits, then K, M, G or nothing. */
static bool read_byte_count(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                            void *field) {
    static const char units[] = "KMG";
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (digits && digits <= 13 && !text[digits + (unit != NULL)]) {
        int64_t value = strtoll(text, NULL, 10);
        if (value <= MAX_BYTES_LIMIT >> shift) {
            *(int64_t *)field = value << shift;
            return true;
        }
    }
    return LS_REFUSE(line, "--%s '%s' is no size in bytes up to 1024G, such as 4096, 64K or 128M", option->name, text);
}

static bool read_sizes(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                       void *field) {
    struct bench_options *options = field;
    char copy[4096], *list = copy;
    options->size_count = 0;
    if (strlen(text) >= sizeof(copy)) return LS_REFUSE(line, "--bytes '%.40s...' is too long", text);
    memcpy(copy, text, strlen(text) + 1);
    for (char *word; (word = ls_next_word(&list));) {
        int64_t bytes;
        if (options->size_count == BENCH_MAX_SIZES)
            return LS_REFUSE(line, "--bytes lists more than %d sizes", BENCH_MAX_SIZES);
        if (!read_byte_count(line, option, word, &bytes)) return false;
        options->bytes[options->size_count++] = (size_t)bytes;
    }
    return true;
}

#define AT(field) LS_OPTION_AT(struct request, field)

static const struct ls_option size_rows[] = {
    {"min-bytes", "B", "the first size (default 8)", offsetof(struct request, min_bytes), LS_OPTION_READ,
     .read = read_byte_count},
    {"max-bytes", "B", "the last size (default 128M)", offsetof(struct request, max_bytes), LS_OPTION_READ,
     .read = read_byte_count},
    {"factor", "N", "from one size to the next (default 2)", AT(factor), 2, 1 << 20},
    {"bytes", "A,B,...",
     "these sizes instead, in this order; K, M and G count in 1024s. A size is that of the whole vector (all-gather: "
     "of the result, reduce-scatter and all-to-all: of the input, cut evenly over the ranks), rounded down to whole "
     "elements",
     offsetof(struct request, options), LS_OPTION_READ, .read = read_sizes},
    {"iterations", "N", "timed calls a size (default: what fits into a second, from 5 to 20000)",
     AT(options.iterations), 1, 1000000},
    {"warmup", "N", "untimed calls before them (default 5)", AT(options.warmup), 0, 1000000},
    {0}};
static const struct ls_option call_rows[] = {
    {"dtype", NULL, "(default float32)", AT(options.dtype), LS_FLOAT32, .words = dtypes},
    {"op", NULL, "for all-reduce and reduce-scatter (default sum)", AT(options.op), LS_SUM, .words = bench_ops},
    {"communication", NULL, "nccl: an all-reduce in place on GPUs, each of which is a rank (default auto)",
     AT(communication), .words = communications},
    {"devices", "D", "with nccl: gpu, or a list such as gpu:0,gpu:1 (default: LOCKSTEP_DEVICES, else all)",
     AT(options.devices)},
    {"algorithm", NULL,
     "auto is measured at start; ring means --communication ring. All but ring add in the same order and give the same "
     "bits (default auto)",
     AT(algorithm), .words = algorithms},
    {"compression", NULL,
     "sum and mean of float32 are rounded to it on links between workers; algbw and busbw count the bytes of float32 "
     "all the same (default none)",
     AT(options.compression), LS_COMPRESS_NONE, .words = bench_compressions},
    {"in-place", NULL, "the result replaces the input (broadcast always does)", AT(options.in_place), true},
    {"touch", NULL,
     "every rank rewrites its vector before each call, untimed, and waits for the others: as if it had just been "
     "computed, and not what the last call left in the caches",
     AT(options.touch), true},
    {0}};
static const struct ls_option result_rows[] = {
    {"check", NULL,
     "after the timing of each size, one more call with random values, compared in bits with what each rank computes "
     "by itself; elements that differ are counted over all ranks. NCCL, whose order is its own, is given whole "
     "numbers, whose sums are exact",
     AT(options.check), true},
    {"digest", NULL,
     "after the timing of each size, one more call with random values, which depend on rank and place alone; SHA-256 "
     "of its result, which must be the same on all ranks. Equal digests of two runs are equal bits",
     AT(options.digest), true},
    {"explain", NULL, "before the table: who exchanges with whom, and the times by which auto chooses",
     AT(options.explain), true},
    {"json", NULL,
     "the chief's last line on stdout is one JSON object: collective, transport, algorithm, compression, workers, "
     "devices (of each worker), and rows with bytes, time_us, cpu_us, algbw_gbps, busbw_gbps, wrong (null without "
     "--check), digest (null without --digest), algorithm (that ran)",
     AT(options.json), true},
    {0}};
static const struct ls_option_table tables[] = {
    {"sizes and iterations", size_rows, 0},
    {"what is called", call_rows, 0},
    {NULL, ls_transport_option, offsetof(struct request, options.transport)},
    {"results", result_rows, 0},
    {0}};

/* The sizes from --min-bytes to --max-bytes. */
static bool lay_out_range(const struct ls_command_line *line, struct request *request) {
    struct bench_options *options = &request->options;
    if (ls_option_given(line, "bytes"))
        return !(ls_option_given(line, "min-bytes") || ls_option_given(line, "max-bytes") ||
                 ls_option_given(line, "factor")) ||
               LS_REFUSE(line, "--bytes lists the sizes: leave --min-bytes, --max-bytes and --factor out");
    if (request->min_bytes < 1 || request->min_bytes > request->max_bytes)
        return LS_REFUSE(line, "--min-bytes %lld is not from 1 to --max-bytes %lld", (long long)request->min_bytes,
                         (long long)request->max_bytes);
    for (int64_t bytes = request->min_bytes; bytes <= request->max_bytes; bytes *= request->factor)
        options->bytes[options->size_count++] = (size_t)bytes;
    return true;
}

/* The first option given that NCCL does not support; NULL if there is none. */
static const char *not_for_nccl(const struct request *request) {
    const struct bench_options *options = &request->options;
    return request->algorithm >= 0    ? "--algorithm"
           : options->compression     ? "--compression"
           : options->transport       ? "--transport"
           : options->explain         ? "--explain"
           : options->digest          ? "--digest"
           : options->op == LS_MEAN   ? "--op mean"
           : options->op == LS_ADASUM ? "--op adasum"
                                      : NULL;
}

/* Gradients are added in place, and so is this. */
static bool settle_nccl(const struct ls_command_line *line, struct request *request) {
    bool nccl = request->communication == LS_NCCL;
    const char *not = nccl ? not_for_nccl(request) : NULL;
    if (!nccl && request->options.devices)
        return LS_REFUSE(line, "--devices is for --communication nccl: all else is in host memory");
    if (nccl && request->options.collective != BENCH_ALL_REDUCE)
        return LS_REFUSE(line, "--communication nccl is for all-reduce only");
    if (not ) return LS_REFUSE(line, "%s is not for --communication nccl", not );
    if (nccl) request->options.communication = LS_NCCL;
    if (nccl) request->options.in_place = true;
    return true;
}

/* --algorithm and --communication say the same thing: the order of addition. */
static bool settle_order(const struct ls_command_line *line, struct request *request) {
    int communication = request->communication, algorithm = request->algorithm;
    enum bench_collective collective = request->options.collective;
    bool ring = algorithm == 0;
    const char *only = algorithm >= 0                 ? "--algorithm"
                       : request->options.compression ? "--compression"
                       : request->options.explain     ? "--explain"
                       : request->options.digest      ? "--digest"
                                                      : NULL;
    if (!bench_reduces(collective) && ls_option_given(line, "op"))
        return LS_REFUSE(line, "--op is for all-reduce and reduce-scatter only");
    if (request->options.in_place && (collective == BENCH_ALL_TO_ALL || collective == BENCH_SEND_RECEIVE))
        return LS_REFUSE(line, "--in-place is not for all-to-all and send-receive: the result has memory of its own");
    if (collective != BENCH_ALL_REDUCE && only) return LS_REFUSE(line, "%s is for all-reduce only", only);
    if (request->options.op == LS_ADASUM && request->options.check)
        return LS_REFUSE(line, "--check does not know --op adasum: --digest compares its ranks");
    if (communication >= 0 && algorithm >= 0 && (communication == 1) != ring)
        return LS_REFUSE(line, "--communication %s does not add in the order of --algorithm %s",
                         communications[communication], algorithms[algorithm]);
    request->options.communication = communication == 1 || ring ? LS_RING : LS_AUTO;
    if (algorithm > 0) request->options.algorithm = algorithms[algorithm];
    return true;
}

static int measure_collective(struct ls_command_line *line, enum bench_collective collective) {
    struct request request = {.options = {.collective = collective, .warmup = 5},
                              .min_bytes = 8,
                              .max_bytes = 128 << 20,
                              .factor = 2,
                              .communication = -1,
                              .algorithm = -1};
    int code = ls_options_read(line, &request);
    if (code >= 0) return code;
    if (!ls_no_arguments(line) || !lay_out_range(line, &request) || !settle_order(line, &request) ||
        !settle_nccl(line, &request))
        return LS_EXIT_USAGE;
    return bench_run(&request.options);
}

int bench_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep bench", argc, argv, about, more, tables, 0};
    struct request ignored;
    bool options = argc > 1 && argv[1][0] == '-';
    int code = options ? ls_options_read(&line, &ignored) : -1;
    if (code >= 0) return code;
    if (argc < 2 || options)
        return ls_usage_error(&line,
                              "say %swhat to measure: all-reduce, broadcast, all-gather, reduce-scatter, all-to-all or "
                              "send-receive",
                              options ? "first " : "");
    int collective = ls_option_word(&line, "collective", argv[1], bench_collectives);
    if (collective < 0) return LS_EXIT_USAGE;
    line.argc--, line.argv++;
    return measure_collective(&line, (enum bench_collective)collective);
}
