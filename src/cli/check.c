/* lockstep check: reads TF_CONFIG as a worker would (TFConfigClusterResolver) and prints the role of this process. It
 * opens no port. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char about[] =
    "lockstep check: look at the environment and say who this process is\n"
    "\n"
    "usage: lockstep check [--json] [--connect [--timeout SECONDS]] [--tf-config TEXT]\n"
    "\n"
    "Reads TF_CONFIG, or else the variables of the launcher that has started it, as a worker would, checks them and\n"
    "prints this process' task, its rank, who is chief, the whole cluster, where that was read, and what else was\n"
    "seen and is not read. It opens no port and talks to nobody.\n"
    "\n"
    "With --connect it asks every chief, worker and ps of the cluster who it is and prints one table: round trip "
    "time,\n"
    "version, the first digits of the SHA-256 of the cluster that it was given, and what is wrong: name not found,\n"
    "connection refused, no answer, something else listens there, other version, other cluster, other task. That\n"
    "works before, during and after training, which does not notice. A worker that has a token answers nobody who\n"
    "asks so: it shows as not answering. One with TLS answers who has LOCKSTEP_TLS_* set as a worker has.\n";
static const char more[] =
    "environment:\n"
    "  TF_CONFIG         the cluster and this task as JSON; absent or {}: the launcher's variables count\n"
    "  LOCKSTEP_CLUSTER  a source that counts whatever else is set: slurm, torchrun and so on, or none\n"
    "\n"
    "examples:\n"
    "  lockstep check\n"
    "  lockstep check --json | jq .id_in_cluster\n"
    "  lockstep check --connect\n"
    "  lockstep check --tf-config '{\"cluster\":{\"worker\":[\"a:2222\",\"b:2222\"]},"
    "\"task\":{\"type\":\"worker\",\"index\":1}}'\n"
    "\n"
    "exit status: 0 valid, and with --connect every task is there as TF_CONFIG says; 1 with --connect: not every\n"
    "task is; 2 invalid, or a bad command line.\n";

static int check_json(const char *tf_config) {
    char *json = NULL;
    ls_status status = ls_tools_check_json(tf_config, &json);
    if (!json) return ls_exit(status);
    (void)puts(json);
    ls_memory_free(json);
    return status ? LS_EXIT_USAGE : 0;
}

static int check_text(const char *tf_config) {
    char *text = NULL;
    ls_status status = ls_tools_check_text(tf_config, &text);
    return ls_exit_text(status, text);
}

static int connect_to_all(const char *tf_config, double seconds, bool json) {
    char *text = NULL;
    bool fine = false;
    ls_status status = ls_tools_check_connect(tf_config, seconds, json, &text, &fine);
    if (status) return ls_exit(status);
    (void)fputs(text, stdout);
    ls_memory_free(text);
    return fine ? 0 : 1;
}

struct request {
    const char *tf_config;
    bool json, connect;
    double seconds;
};

#define AT(field) LS_OPTION_AT(struct request, field)

static const struct ls_option rows[] = {
    {"json", NULL,
     "print one JSON object in one line: valid, mode (\"local\" or \"cluster\"), task_type, task_index, is_chief, "
     "num_workers, id_in_cluster, collective_leader, cluster, source (\"tf_config\", \"slurm\" and so on, \"none\"), "
     "ignored (of each: source, why), warnings, and error {code, message} when it is invalid. "
     "With --connect: version, cluster, fine, and peers with rank, task, address, state (\"ok\", \"unreachable\", "
     "\"silent\", \"foreign\", \"other_version\", \"other_cluster\", \"other_task\"), why, and of those that answer "
     "version, phase, says_it_is, cluster, generation, round_trip_ms",
     AT(json), true},
    {"connect", NULL, "ask every task of the cluster who it is", AT(connect), true},
    {"timeout", "SECONDS", "how long to wait for answers (default 5)", AT(seconds), 0.01, 3600},
    {"tf-config", "TEXT", "look at this text instead of the environment variable", AT(tf_config)},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

int check_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep check", argc, argv, about, more, tables, 0};
    struct request request = {.seconds = LS_CHECK_SECONDS};
    int code = ls_options_read(&line, &request);
    if (code >= 0) return code;
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    if (request.connect) return connect_to_all(request.tf_config, request.seconds, request.json);
    return request.json ? check_json(request.tf_config) : check_text(request.tf_config);
}
