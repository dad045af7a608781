/* lockstep certs: a small authority and one certificate a task, for people who have none. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char help[] =
    "lockstep certs: make certificates for the tasks of a cluster, so that they can use TLS\n"
    "\n"
    "usage: lockstep certs FOLDER [--tasks LIST | --tf-config TEXT] [--days N]\n"
    "\n"
    "Makes a small authority (FOLDER/ca.pem, ca.key) and for each chief and worker task a certificate and a key\n"
    "(FOLDER/worker-0.pem, worker-0.key), made out to the name worker-0.lockstep. Files are for their owner only\n"
    "(mode 0600); none is overwritten. Then it prints the three settings that each task needs.\n"
    "\n"
    "options:\n"
    "  --tasks LIST      the tasks, such as chief,worker:3 for a chief and three workers\n"
    "  --tf-config TEXT  take the tasks of this TF_CONFIG instead\n"
    "  --days N          how long the certificates are valid (default 365)\n"
    "  --help            print this text\n"
    "\n"
    "environment:\n"
    "  TF_CONFIG         the cluster, where neither option is given\n"
    "\n"
    "examples:\n"
    "  lockstep certs certs --tasks worker:4\n"
    "  LOCKSTEP_TLS_CERTIFICATE=certs/worker-0.pem LOCKSTEP_TLS_KEY=certs/worker-0.key \\\n"
    "      LOCKSTEP_TLS_CA=certs/ca.pem lockstep train --model mlp --dataset digits\n"
    "\n"
    "exit status: 0 success; 2 a bad command line, a bad TF_CONFIG, or a file that is there already; 1 anything "
    "else.\n";

struct request {
    const char *folder, *tf_config, *tasks;
    int64_t days;
};

/* -1: go on; else the exit status. */
static int read_options(const struct ls_command_line *line, struct request *request) {
    for (int option; (option = ls_next_option(line)) != LS_OPTION_END;) {
        if (option == LS_OPTION_BAD) return LS_EXIT_USAGE;
        if (option == 'f') request->tf_config = optarg;
        if (option == 't') request->tasks = optarg;
        if (option == 'd' && !ls_option_integer(line, "--days", optarg, 1, 36500, &request->days)) return LS_EXIT_USAGE;
        if (option == 'h') return fputs(help, stdout) < 0;
    }
    if (!request->folder && optind < line->argc) request->folder = line->argv[optind++];
    if (!request->folder) return ls_usage_error(line, "it needs a folder");
    return ls_no_arguments(line) ? -1 : LS_EXIT_USAGE;
}

int certs_main(int argc, char **argv) {
    static const struct option options[] = {{"tasks", required_argument, NULL, 't'},
                                            {"tf-config", required_argument, NULL, 'f'},
                                            {"days", required_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    bool first = argc > 1 && argv[1][0] != '-'; /* the folder stands before the options, or behind them */
    const struct ls_command_line line = {"lockstep certs", argc - first, argv + first, "h", options};
    struct request request = {first ? argv[1] : NULL, getenv("TF_CONFIG"), NULL, 365};
    char *text = NULL;
    int done = read_options(&line, &request);
    if (done >= 0) return done;
    ls_status status =
        ls_tools_certificates(request.folder, request.tf_config, request.tasks, (int)request.days, &text);
    if (!status) (void)fputs(text, stdout);
    ls_memory_free(text);
    return ls_exit(status);
}
