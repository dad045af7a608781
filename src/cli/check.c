/* lockstep check: looks at TF_CONFIG as a worker would (TFConfigClusterResolver) and says who this process is. Opens no
 * port. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char help[] =
    "lockstep check: look at TF_CONFIG and say who this process is\n"
    "\n"
    "usage: lockstep check [--json] [--connect [--timeout SECONDS]] [--tf-config TEXT]\n"
    "\n"
    "Reads TF_CONFIG as a worker would, checks every key of it and prints this process' task, its rank, who is\n"
    "chief and the whole cluster. It opens no port and talks to nobody.\n"
    "\n"
    "With --connect it asks every chief and worker of the cluster who it is and prints one table: round trip time,\n"
    "version, the first digits of the SHA-256 of the cluster that it was given, and what is wrong: name not found,\n"
    "connection refused, no answer, something else listens there, other version, other cluster, other task. That\n"
    "works before, during and after training, which does not notice. A worker that has a token answers nobody who\n"
    "asks so, and one with TLS neither: they show as not answering.\n"
    "\n"
    "options:\n"
    "  --json            print one JSON object in one line: valid, mode (\"local\" or \"cluster\"), task_type,\n"
    "                    task_index, is_chief, num_workers, id_in_cluster, collective_leader, cluster, warnings,\n"
    "                    and error {code, message} when it is invalid\n"
    "                    With --connect: version, cluster, fine, and peers with rank, task, address, state (\"ok\",\n"
    "                    \"unreachable\", \"silent\", \"foreign\", \"other_version\", \"other_cluster\", "
    "\"other_task\"),\n"
    "                    why, and of those that answer version, phase, says_it_is, cluster, generation, round_trip_ms\n"
    "  --connect         ask every task of the cluster who it is\n"
    "  --timeout SECONDS how long to wait for answers (default 5)\n"
    "  --tf-config TEXT  look at this text instead of the environment variable\n"
    "  --help            print this text\n"
    "\n"
    "environment:\n"
    "  TF_CONFIG         the cluster and this task as JSON; absent or {} means local mode, one worker\n"
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
    if (text && !status) (void)fputs(text, stdout);
    ls_memory_free(text);
    return ls_exit(status);
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

int check_main(int argc, char **argv) {
    enum { JSON = 256, TF_CONFIG, CONNECT, TIMEOUT };
    static const struct option options[] = {
        {"json", no_argument, NULL, JSON},       {"tf-config", required_argument, NULL, TF_CONFIG},
        {"connect", no_argument, NULL, CONNECT}, {"timeout", required_argument, NULL, TIMEOUT},
        {"help", no_argument, NULL, 'h'},        {0}};
    const struct ls_command_line line = {"lockstep check", argc, argv, "h", options};
    const char *tf_config = getenv("TF_CONFIG");
    bool json = false, connect = false;
    double seconds = LS_CHECK_SECONDS;
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == LS_OPTION_BAD) return LS_EXIT_USAGE;
        if (option == JSON) json = true;
        if (option == TF_CONFIG) tf_config = optarg;
        if (option == CONNECT) connect = true;
        if (option == TIMEOUT && !ls_option_number(&line, "--timeout", optarg, 0.01, 3600, &seconds))
            return LS_EXIT_USAGE;
        if (option == 'h') return fputs(help, stdout) < 0;
    }
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    if (connect) return connect_to_all(tf_config, seconds, json);
    return json ? check_json(tf_config) : check_text(tf_config);
}
