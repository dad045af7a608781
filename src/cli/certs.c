/* lockstep certs: a small authority and one certificate a task, for people without an authority. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/options.h"

static const char about[] =
    "lockstep certs: make certificates for the tasks of a cluster, so that they can use TLS\n"
    "\n"
    "usage: lockstep certs FOLDER [--tasks LIST | --tf-config TEXT] [--days N]\n"
    "\n"
    "Makes a small authority (FOLDER/ca.pem, ca.key) and for each chief, worker and ps task a certificate and a key\n"
    "(FOLDER/worker-0.pem, worker-0.key), made out to the name worker-0.lockstep. Files are for their owner only\n"
    "(mode 0600); none is overwritten. Then it prints the three settings that each task needs.\n";
static const char more[] = "environment:\n"
                           "  TF_CONFIG         the cluster, where neither option is given\n"
                           "\n"
                           "examples:\n"
                           "  lockstep certs certs --tasks worker:4\n"
                           "  LOCKSTEP_TLS_CERTIFICATE=certs/worker-0.pem LOCKSTEP_TLS_KEY=certs/worker-0.key \\\n"
                           "      LOCKSTEP_TLS_CA=certs/ca.pem lockstep train --model mlp --dataset digits\n"
                           "\n"
                           "exit status: 0 success; 2 a bad command line, a bad TF_CONFIG, or a file that is there "
                           "already; 1 anything else.\n";

struct request {
    const char *folder, *tf_config, *tasks;
    int days;
};

#define AT(field) LS_OPTION_AT(struct request, field)

static const struct ls_option rows[] = {
    {"tasks", "LIST", "the tasks, such as chief,worker:3,ps:1", AT(tasks)},
    {"tf-config", "TEXT", "take the tasks of this TF_CONFIG instead", AT(tf_config)},
    {"days", "N", "how long the certificates are valid (default 365)", AT(days), 1, 36500},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

int certs_main(int argc, char **argv) {
    bool first = argc > 1 && argv[1][0] != '-'; /* the folder stands before the options, or behind them */
    struct ls_command_line line = {"lockstep certs", argc - first, argv + first, about, more, tables, 0};
    struct request request = {first ? argv[1] : NULL, getenv("TF_CONFIG"), NULL, 365};
    char *text = NULL;
    int code = ls_options_read(&line, &request);
    if (code >= 0) return code;
    if (!request.folder && line.next < line.argc) request.folder = line.argv[line.next++];
    if (!request.folder) return ls_usage_error(&line, "it needs a folder");
    if (!ls_no_arguments(&line)) return LS_EXIT_USAGE;
    ls_status status = ls_tools_certificates(request.folder, request.tf_config, request.tasks, request.days, &text);
    return ls_exit_text(status, text);
}
