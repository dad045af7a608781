/* lockstep plan: what a training would be on its tasks, with none of them started. It has the options of lockstep
 * train. */
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/train_options.h"

struct plan_command {
    struct ls_train_options training; /* first: its tables begin there */
    int workers, servers, measure;
    int64_t memory_limit;
    double bits;
};

/* The number at the beginning of text, and the power of base that its unit stands for; 0: there is none. */
static double read_quantity(const char *text, const char *units, double base, const char **rest) {
    char *end;
    double number = strtod(text, &end);
    const char *unit = end > text && *end ? strchr(units, *end) : NULL;
    for (int i = 0; unit && i <= (int)(unit - units); i++) number *= base;
    *rest = end + (unit != NULL);
    return end > text ? number : 0;
}

/* "8GiB", "512M": bytes, in powers of 1024. */
static bool read_memory(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                        void *field) {
    const char *rest;
    double bytes = read_quantity(text, "KMGT", 1024, &rest);
    bool ends = !*rest || !strcmp(rest, "B") || !strcmp(rest, "iB");
    if (!ends || !(bytes >= 1) || !(bytes < 1e15))
        return LS_REFUSE(line, "option '--%s' needs bytes such as 512M or 8GiB, not '%s'", option->name, text);
    *(int64_t *)field = (int64_t)bytes;
    return true;
}

/* "1Gbit/s", "250M": bits a second, in powers of 1000. */
static bool read_bandwidth(const struct ls_command_line *line, const struct ls_option *option, const char *text,
                           void *field) {
    struct plan_command *command = field;
    const char *rest;
    double bits = read_quantity(text, "KMG", 1000, &rest);
    if (!(bits > 0) || !(bits < 1e15) || (*rest && strcmp(rest, "bit/s") != 0))
        return LS_REFUSE(line, "option '--%s' needs bits a second such as 100Mbit/s or 1Gbit/s, not '%s'", option->name,
                         text);
    command->bits = bits;
    return true;
}

#define AT(field) LS_OPTION_AT(struct plan_command, field)
static const struct ls_option plan_rows[] = {
    {"np", "N", "workers; in place of TF_CONFIG and of what a launcher says", AT(workers), 1, 1024, .letter = 'n'},
    {"ps", "K", "parameter servers beside them (default 0)", AT(servers), 0, 1024, .needs = "np N"},
    {"bandwidth", "B", "of each task's link, each way: 100Mbit/s, 1Gbit/s; tells the wire's time", 0, LS_OPTION_READ,
     .read = read_bandwidth},
    {"measure", "STEPS", "train so many steps here, to tell the time of computing (default: it is left out)",
     AT(measure), 1, 1000000},
    {"memory-limit", "SIZE",
     "of a worker, such as 8GiB: tells the least sharding that is enough: options of --recompute and --shard, tried in "
     "turn beside what is given",
     offsetof(struct plan_command, memory_limit), LS_OPTION_READ, .read = read_memory},
    {"json", NULL,
     "one JSON object: strategy, workers, servers, replicas, batch, parameters, moments, copies, steps (whose bytes "
     "are told), all_reduce, planned_bytes and arena_bytes (as lockstep train's), load (the largest server's part over "
     "the mean), tables (on servers alone: name, rows, width, touched: rows of worker 0's step at most), "
     "compute_seconds, wire_seconds, step_seconds, examples_per_second, layers (recompute: none, activations, blocks; "
     "arena_bytes, and moved_bytes of a replica's step between memory and arithmetic, at least), with --shard also "
     "shard, shard_copies, moment_bytes and gradient_bytes (of the first worker), with --memory-limit also "
     "memory_limit, fits "
     "(options that are enough) and candidates (options, and the largest worker's memory with them), and tasks: task, "
     "rank, "
     "sent, received, memory; of a worker first_replica, replicas, rows; of a server that keeps variables or tables "
     "elements, part, variables by name",
     AT(training.json), true},
    {0}};

static const char about[] =
    "lockstep plan: say what a training would be, before any of it starts\n"
    "\n"
    "usage: lockstep plan [-np N [--ps K]] [--bandwidth B] [--measure STEPS] [OPTIONS OF lockstep train]\n"
    "\n"
    "Prints what a training would be: replicas by task, what each parameter server keeps, bytes of a step, memory, and "
    "the\n"
    "time of a step. No task is started, and no port opened. One worker's model is built here.\n";
static const char more[] =
    "It takes the options of lockstep train but --trace and --verbose. Those that decide are model, data, batch,\n"
    "optimizer, strategy and compression. The cluster is that of TF_CONFIG or of a launcher, in any of its tasks, or "
    "-np\n"
    "workers with as many devices each as --devices says. A plan is of --consistency sync.\n\n"
    "examples:\n"
    "  lockstep plan -np 4 --model resnet50 --dataset shapes --image-size 64 --bandwidth 1Gbit/s --measure 3\n"
    "  lockstep plan -np 2 --ps 3 --strategy parameter-server --ps-replicas 2 --optimizer adam --json\n"
    "  lockstep plan -np 4 --ps 2 --strategy parameter-server --hybrid --model embedding --embedding 1000000x32\n"
    "  lockstep plan -np 4 --model gpt2 --dataset text.txt --tokens gpt2 --optimizer adamw --memory-limit 2GiB\n\n"
    "exit status: 0 success; 2 a bad command line or configuration; 1 anything else.\n";

/* Of a worker, whose batches have so many rows. */
static ls_status make(void *context, ls_strategy *strategy, int64_t batch, ls_dataset **data, ls_model **model) {
    struct ls_train_options training = *(const struct ls_train_options *)context;
    training.data.batch_size = batch;
    training.validate = false;
    ls_status status = ls_train_data_open(&training, strategy, data, NULL);
    if (!status) ls_train_model_suit(&training.model, *data);
    return status ? status : ls_train_model_make(&training.model, strategy, *data, model);
}

ls_tools_plan_options ls_train_plan(const struct ls_train_options *training) {
    return (ls_tools_plan_options){.strategy = &training->strategy,
                                   .kind = training->strategy_name,
                                   .hybrid = training->servers.hybrid,
                                   .sparse = training->servers.sparse,
                                   .copies = training->servers.replicas,
                                   .local = &training->local,
                                   .batch = training->data.batch_size,
                                   .division = training->data.division,
                                   .json = training->json};
}

static int print_plan(struct plan_command *command) {
    char *text = NULL;
    ls_tools_plan_options options = ls_train_plan(&command->training);
    options.workers = command->workers;
    options.servers = command->servers;
    options.bits = command->bits;
    options.measure = command->measure;
    options.memory_limit = command->memory_limit;
    ls_status status = ls_tools_plan(&options, make, &command->training, &text);
    return ls_exit_text(status, text);
}

int plan_main(int argc, char **argv) {
    static const struct ls_option_table own = {"plan", plan_rows, 0};
    struct ls_option_table tables[LS_TRAIN_TABLES + 2] = {own};
    struct plan_command command = {.workers = 0};
    int code;
    memcpy(tables + 1, ls_train_tables, LS_TRAIN_TABLES * sizeof(*tables));
    struct ls_command_line line = {"lockstep plan", argc, argv, about, more, tables, 0};
    if (!ls_train_options_parse(&line, &command.training, &code)) return code;
    code = command.training.servers.consistency == LS_SYNC
               ? print_plan(&command)
               : ls_usage_error(&line, "a plan is of steps in sync; leave '--consistency' out");
    ls_train_options_end(&command.training);
    return code;
}
