/* lockstep bench: times one collective over a range of sizes, with nccl-tests' columns. This file reads the command
 * line; running, checking and printing have files of their own. */
#include "cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char help[] =
    "lockstep bench: time a collective over a range of sizes\n"
    "\n"
    "usage: lockstep bench all-reduce|broadcast|all-gather|reduce-scatter [OPTIONS]\n"
    "\n"
    "Joins the workers of TF_CONFIG (or of lockstep run; without either it runs alone) and measures. Every worker\n"
    "gets the same options; the chief prints one line a size.\n"
    "\n"
    "sizes and iterations:\n"
    "  --min-bytes B, --max-bytes B   the first and the last size (default 8 and 128M)\n"
    "  --factor N          from one size to the next (default 2)\n"
    "  --bytes A,B,...     these sizes instead, in this order; K, M and G count in 1024s. A size is that of the\n"
    "                      whole vector (all-gather: of the result, reduce-scatter: of the input, cut evenly over\n"
    "                      the ranks), rounded down to whole elements\n"
    "  --iterations N      timed calls a size (default: what fits into a second, from 5 to 20000)\n"
    "  --warmup N          untimed calls before them (default 5)\n"
    "\n"
    "what is called:\n"
    "  --dtype T           float32, float64, float16, bfloat16, int32 or int64 (default float32)\n"
    "  --op O              sum, mean, min or max, for all-reduce and reduce-scatter (default sum)\n"
    "  --communication C   auto or ring; or nccl: an all-reduce in place on GPUs, each of which is a rank (default:\n"
    "                      auto)\n"
    "  --devices D         with nccl: gpu, or a list such as gpu:0,gpu:1 (default: LOCKSTEP_DEVICES, else all)\n"
    "  --algorithm A       auto (measured at start), shared, two-level, exchange, direct, halving-doubling; or ring,\n"
    "                      which means --communication ring. All but ring add in the same order and give the same\n"
    "                      bits (default: auto)\n"
    "  --compression C     none, fp16 or bf16: sum and mean of float32 are rounded to it on links between workers;\n"
    "                      algbw and busbw count the bytes of float32 all the same (default none)\n"
    "  --transport T       auto, shm, tcp or grpc; sets LOCKSTEP_TRANSPORT (default: what it says, else auto)\n"
    "  --in-place          the result replaces the input (broadcast always does)\n"
    "  --touch             every rank rewrites its vector before each call, untimed, and waits for the others: as\n"
    "                      if it had just been computed, and not what the last call left in the caches\n"
    "\n"
    "results:\n"
    "  --check             after the timing of each size, one more call with random values, compared in bits with\n"
    "                      what each rank computes by itself; elements that differ are counted over all ranks.\n"
    "                      NCCL, whose order is its own, is given whole numbers, whose sums are exact\n"
    "  --explain           before the table: who exchanges with whom, and the times by which auto chooses\n"
    "  --json              the chief's last line on stdout is one JSON object: collective, transport, algorithm,\n"
    "                      compression, workers, devices (of each worker), and rows with bytes, time_us, cpu_us,\n"
    "                      algbw_gbps, busbw_gbps, wrong (null without --check), algorithm (that ran)\n"
    "  --help              print this text\n"
    "\n"
    "columns:\n"
    "  A call takes as long as it takes the slowest rank; min, median and max are over the calls, in microseconds;\n"
    "  cpu_us is the processor time of all ranks together, a call (with --touch the rewriting is in it).\n"
    "  algbw is bytes / median, in GB/s: 10^9 bytes a second, not bits. busbw is algbw times what n ranks must move\n"
    "  for each byte: 2(n-1)/n for all-reduce, (n-1)/n for all-gather and reduce-scatter, 1 for broadcast.\n"
    "\n"
    "examples:\n"
    "  lockstep run -np 4 -- lockstep bench all-reduce --check\n"
    "  lockstep run -np 2 -- lockstep bench all-reduce --bytes 4K,1M,64M --in-place --touch --json\n"
    "  lockstep bench all-reduce --communication nccl --check\n"
    "\n"
    "exit status: 0 measured; 1 --check found something wrong, or anything else; 2 a bad command line or\n"
    "TF_CONFIG; 138 a peer was lost or a deadline passed.\n";

enum option_id {
    MIN_BYTES = 256,
    MAX_BYTES,
    FACTOR,
    BYTES,
    ITERATIONS,
    WARMUP,
    DTYPE,
    OP,
    COMMUNICATION,
    DEVICES,
    ALGORITHM,
    COMPRESSION,
    TRANSPORT,
    IN_PLACE,
    TOUCH,
    CHECK,
    EXPLAIN,
    JSON
};

static const struct option long_options[] = {
    {"min-bytes", required_argument, NULL, MIN_BYTES},
    {"max-bytes", required_argument, NULL, MAX_BYTES},
    {"factor", required_argument, NULL, FACTOR},
    {"bytes", required_argument, NULL, BYTES},
    {"iterations", required_argument, NULL, ITERATIONS},
    {"warmup", required_argument, NULL, WARMUP},
    {"dtype", required_argument, NULL, DTYPE},
    {"op", required_argument, NULL, OP},
    {"communication", required_argument, NULL, COMMUNICATION},
    {"devices", required_argument, NULL, DEVICES},
    {"algorithm", required_argument, NULL, ALGORITHM},
    {"compression", required_argument, NULL, COMPRESSION},
    {"transport", required_argument, NULL, TRANSPORT},
    {"in-place", no_argument, NULL, IN_PLACE},
    {"touch", no_argument, NULL, TOUCH},
    {"check", no_argument, NULL, CHECK},
    {"explain", no_argument, NULL, EXPLAIN},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static const char *const collectives[] = {"all-reduce", "broadcast", "all-gather", "reduce-scatter", NULL};
static const char *const dtypes[] = {"float32", "float64", "float16", "bfloat16", "int32", "int64", NULL};
static const char *const ops[] = {"sum", "mean", "min", "max", NULL};
static const char *const communications[] = {"auto", "ring", "nccl", NULL}; /* as ls_communication */
static const char *const algorithms[] = {"ring",     "auto",   "shared",           "two-level",
                                         "exchange", "direct", "halving-doubling", NULL};
static const char *const compressions[] = {"none", "fp16", "bf16", NULL};
static const char *const transports[] = {"auto", "shm", "tcp", "grpc", NULL};

#define MAX_BYTES_LIMIT (INT64_C(1) << 40)

/* The command line as given, before its parts are put together. */
struct request {
    struct bench_options options;
    int64_t min_bytes, max_bytes, factor;
    int communication, algorithm; /* places in the lists; -1: not given */
    bool range, list, op;         /* given */
};

/* The place of text in a list of words; -1 after the error has been printed. */
static int choose(const struct ls_command_line *line, const char *option, const char *text, const char *const *words) {
    char list[256] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], text)) return i;
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s", words[i]);
    }
    (void)ls_usage_error(line, "%s '%s' is none of %s", option, text, list);
    return -1;
}

/* Digits, then K, M, G or nothing. */
static bool read_bytes(const struct ls_command_line *line, const char *option, const char *text, int64_t *bytes) {
    static const char units[] = "KMG";
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (digits && digits <= 13 && !text[digits + (unit != NULL)]) {
        int64_t value = strtoll(text, NULL, 10);
        if (value <= MAX_BYTES_LIMIT >> shift) {
            *bytes = value << shift;
            return true;
        }
    }
    (void)ls_usage_error(line, "%s '%s' is no size in bytes up to 1024G, such as 4096, 64K or 128M", option, text);
    return false;
}

static bool read_list(const struct ls_command_line *line, const char *text, struct bench_options *options) {
    char copy[4096], *state = NULL;
    options->size_count = 0;
    if (strlen(text) >= sizeof(copy)) return ls_usage_error(line, "--bytes '%.40s...' is too long", text) == 0;
    memcpy(copy, text, strlen(text) + 1);
    for (char *word = strtok_r(copy, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
        int64_t bytes;
        if (options->size_count == BENCH_MAX_SIZES)
            return ls_usage_error(line, "--bytes lists more than %d sizes", BENCH_MAX_SIZES) == 0;
        if (!read_bytes(line, "--bytes", word, &bytes)) return false;
        options->bytes[options->size_count++] = (size_t)bytes;
    }
    return options->size_count || ls_usage_error(line, "--bytes '%s' lists no size", text) == 0;
}

static bool read_size(const struct ls_command_line *line, int option, struct request *request) {
    if (option == BYTES) request->list = true;
    if (option == MIN_BYTES || option == MAX_BYTES || option == FACTOR) request->range = true;
    if (option == BYTES) return read_list(line, optarg, &request->options);
    if (option == MIN_BYTES) return read_bytes(line, "--min-bytes", optarg, &request->min_bytes);
    if (option == MAX_BYTES) return read_bytes(line, "--max-bytes", optarg, &request->max_bytes);
    if (option == FACTOR) return ls_option_integer(line, "--factor", optarg, 2, 1 << 20, &request->factor);
    return true;
}

static bool read_word(const struct ls_command_line *line, int option, struct request *request) {
    static const struct {
        int option;
        const char *name;
        const char *const *words;
    } table[] = {
        {DTYPE, "--dtype", dtypes},
        {OP, "--op", ops},
        {COMMUNICATION, "--communication", communications},
        {ALGORITHM, "--algorithm", algorithms},
        {COMPRESSION, "--compression", compressions},
        {TRANSPORT, "--transport", transports},
    };
    int value = 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]) && value >= 0; i++)
        if (table[i].option == option) value = choose(line, table[i].name, optarg, table[i].words);
    if (value < 0) return false;
    if (option == DTYPE) request->options.dtype = (ls_dtype)value;
    if (option == OP) request->options.op = (ls_reduce_op)value, request->op = true;
    if (option == COMMUNICATION) request->communication = value;
    if (option == ALGORITHM) request->algorithm = value;
    if (option == COMPRESSION) request->options.compression = (ls_compression)value;
    if (option == TRANSPORT) request->options.transport = transports[value];
    return true;
}

static bool read_option(const struct ls_command_line *line, int option, struct request *request) {
    struct bench_options *options = &request->options;
    if (option == IN_PLACE) options->in_place = true;
    if (option == TOUCH) options->touch = true;
    if (option == CHECK) options->check = true;
    if (option == EXPLAIN) options->explain = true;
    if (option == JSON) options->json = true;
    if (option == DEVICES) options->devices = optarg;
    if (option == ITERATIONS) return ls_option_integer(line, "--iterations", optarg, 1, 1000000, &options->iterations);
    if (option == WARMUP) return ls_option_integer(line, "--warmup", optarg, 0, 1000000, &options->warmup);
    return read_word(line, option, request) && read_size(line, option, request);
}

/* The sizes from --min-bytes to --max-bytes. */
static bool lay_out_range(const struct ls_command_line *line, struct request *request) {
    struct bench_options *options = &request->options;
    if (request->list)
        return !request->range ||
               ls_usage_error(line, "--bytes lists the sizes: leave --min-bytes, --max-bytes and --factor out") == 0;
    if (request->min_bytes < 1 || request->min_bytes > request->max_bytes)
        return ls_usage_error(line, "--min-bytes %lld is not from 1 to --max-bytes %lld", (long long)request->min_bytes,
                              (long long)request->max_bytes) == 0;
    for (int64_t bytes = request->min_bytes; bytes <= request->max_bytes; bytes *= request->factor)
        options->bytes[options->size_count++] = (size_t)bytes;
    return true;
}

/* What NCCL has no part in; NULL: nothing of it is asked for. */
static const char *not_for_nccl(const struct request *request) {
    const struct bench_options *options = &request->options;
    return request->algorithm >= 0  ? "--algorithm"
           : options->compression   ? "--compression"
           : options->transport     ? "--transport"
           : options->explain       ? "--explain"
           : options->op == LS_MEAN ? "--op mean"
                                    : NULL;
}

/* Gradients are added in place, and so is this. */
static bool settle_nccl(const struct ls_command_line *line, struct request *request) {
    bool nccl = request->communication == LS_NCCL;
    const char *not = nccl ? not_for_nccl(request) : NULL;
    if (!nccl && request->options.devices)
        return ls_usage_error(line, "--devices is for --communication nccl: all else is in host memory") == 0;
    if (nccl && request->options.collective != BENCH_ALL_REDUCE)
        return ls_usage_error(line, "--communication nccl is for all-reduce only") == 0;
    if (not ) return ls_usage_error(line, "%s is not for --communication nccl", not ) == 0;
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
                                                      : NULL;
    if (!bench_reduces(collective) && request->op)
        return ls_usage_error(line, "--op is for all-reduce and reduce-scatter only") == 0;
    if (collective != BENCH_ALL_REDUCE && only) return ls_usage_error(line, "%s is for all-reduce only", only) == 0;
    if (communication >= 0 && algorithm >= 0 && (communication == 1) != ring)
        return ls_usage_error(line, "--communication %s does not add in the order of --algorithm %s",
                              communications[communication], algorithms[algorithm]) == 0;
    request->options.communication = communication == 1 || ring ? LS_RING : LS_AUTO;
    if (algorithm > 0) request->options.algorithm = algorithms[algorithm];
    return true;
}

static int measure(const struct ls_command_line *line, enum bench_collective collective) {
    struct request request = {.options = {.collective = collective, .warmup = 5},
                              .min_bytes = 8,
                              .max_bytes = 128 << 20,
                              .factor = 2,
                              .communication = -1,
                              .algorithm = -1};
    for (int option; (option = ls_next_option(line)) != LS_OPTION_END;) {
        if (option == 'h') return fputs(help, stdout) < 0;
        if (option == LS_OPTION_BAD || !read_option(line, option, &request)) return LS_EXIT_USAGE;
    }
    if (!ls_no_arguments(line) || !lay_out_range(line, &request) || !settle_order(line, &request) ||
        !settle_nccl(line, &request))
        return LS_EXIT_USAGE;
    return bench_run(&request.options);
}

int bench_main(int argc, char **argv) {
    const struct ls_command_line bench = {"lockstep bench", argc, argv, "h", long_options};
    if (argc < 2)
        return ls_usage_error(&bench, "say what to measure: all-reduce, broadcast, all-gather or reduce-scatter");
    if (argv[1][0] == '-') {
        int option = ls_next_option(&bench);
        if (option == 'h') return fputs(help, stdout) < 0;
        if (option == LS_OPTION_BAD) return LS_EXIT_USAGE;
        return ls_usage_error(&bench, "say first what to measure: all-reduce, broadcast, all-gather or reduce-scatter");
    }
    int collective = choose(&bench, "collective", argv[1], collectives);
    if (collective < 0) return LS_EXIT_USAGE;
    const struct ls_command_line line = {"lockstep bench", argc - 1, argv + 1, "h", long_options};
    return measure(&line, (enum bench_collective)collective);
}
