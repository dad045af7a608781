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
    "usage: lockstep check [--json] [--tf-config TEXT]\n"
    "\n"
    "Reads TF_CONFIG as a worker would, checks every key of it and prints this process' task, its rank, who is\n"
    "chief and the whole cluster. It opens no port and talks to nobody.\n"
    "\n"
    "options:\n"
    "  --json            print one JSON object in one line: valid, mode (\"local\" or \"cluster\"), task_type,\n"
    "                    task_index, is_chief, num_workers, id_in_cluster, collective_leader, cluster, warnings,\n"
    "                    and error {code, message} when it is invalid\n"
    "  --tf-config TEXT  look at this text instead of the environment variable\n"
    "  --help            print this text\n"
    "\n"
    "environment:\n"
    "  TF_CONFIG         the cluster and this task as JSON; absent or {} means local mode, one worker\n"
    "\n"
    "examples:\n"
    "  lockstep check\n"
    "  lockstep check --json | jq .id_in_cluster\n"
    "  lockstep check --tf-config '{\"cluster\":{\"worker\":[\"a:2222\",\"b:2222\"]},"
    "\"task\":{\"type\":\"worker\",\"index\":1}}'\n"
    "\n"
    "exit status: 0 valid; 2 invalid, or a bad command line.\n";

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

int check_main(int argc, char **argv) {
    enum { JSON = 256, TF_CONFIG };
    static const struct option options[] = {{"json", no_argument, NULL, JSON},
                                            {"tf-config", required_argument, NULL, TF_CONFIG},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const struct ls_command_line line = {"lockstep check", argc, argv, "h", options};
    const char *tf_config = getenv("TF_CONFIG");
    bool json = false;
    for (int option; (option = ls_next_option(&line)) != LS_OPTION_END;) {
        if (option == LS_OPTION_BAD) return LS_EXIT_USAGE;
        if (option == JSON) json = true;
        if (option == TF_CONFIG) tf_config = optarg;
        if (option == 'h') return fputs(help, stdout) < 0;
    }
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    return json ? check_json(tf_config) : check_text(tf_config);
}
