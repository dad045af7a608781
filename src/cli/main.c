/* The lockstep command: one table of commands, each in its own file. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"

static const struct command {
    const char *name, *help;
    int (*main)(int argc, char **argv);
} commands[] = {
    {"run", "start N workers of a program, on this machine or on many", run_main},
    {"agent", "start the workers of one host, for lockstep run", agent_main},
    {"train", "train a model without writing C", train_main},
    {"plan", "say what a training would be: placement, bytes, memory, time", plan_main},
    {"serve", "be a parameter server of a training", serve_main},
    {"evaluate", "measure a saved model on a dataset", evaluate_main},
    {"predict", "write what a saved model says of each example", predict_main},
    {"plot", "draw the curves of CSV logs, or a timeline", plot_main},
    {"bench", "time a collective over a range of sizes", bench_main},
    {"check", "look at the environment and say who this process is", check_main},
    {"data", "say what a data source holds, and what a training would stumble over", data_main},
    {"convert", "write a dataset in another format", convert_main},
    {"tokens", "turn texts into the tokens of a language model, and back", tokens_main},
    {"generate", "let a saved language model go on with a text", generate_main},
    {"certs", "make certificates for TLS between the tasks", certs_main},
    {"settings", "print every setting and every deadline, as in force", settings_main},
    {"top", "show what the workers of a running training are doing", top_main},
    {"timeline", "lay the timelines and flight records of all ranks beside each other", timeline_main},
    {"info", "print what this build and machine offer", info_main},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_commands(FILE *to) {
    (void)fprintf(to,
                  "lockstep %s: train one model on many machines at once, in lockstep\n\n"
                  "usage: lockstep COMMAND [OPTIONS]\n\ncommands:\n",
                  ls_version());
    for (size_t i = 0; i < COMMAND_COUNT; i++) (void)fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].help);
    (void)fprintf(to, "  %-9s %s\n\n", "help", "explain a command: lockstep help COMMAND");
    (void)fprintf(to, "  --help     print this text\n"
                      "  --version  print the version\n\n"
                      "first steps:\n"
                      "  lockstep train --model mlp --dataset digits                    one worker\n"
                      "  lockstep run -np 2 -- lockstep train --model mlp --dataset digits   two workers\n\n"
                      "exit status: 0 success; 2 a bad command line or configuration; 138 a peer was lost or a\n"
                      "deadline passed, start me again; 143 stopped by SIGTERM; 1 anything else.\n");
}

/* Lists the commands, for the completion of shells. */
static int list_commands(void) {
    for (size_t i = 0; i < COMMAND_COUNT; i++) (void)puts(commands[i].name);
    return puts("help") < 0;
}

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static int refuse_command(const char *name) {
    const char *kind = name[0] == '-' ? "option" : "command";
    (void)fprintf(stderr, "lockstep: unknown %s '%s'; see 'lockstep --help'\n", kind, name);
    return LS_EXIT_USAGE;
}

static int help_main(int argc, char **argv) {
    if (argc < 2 || !strcmp(argv[1], "--help")) {
        print_commands(stdout);
        return 0;
    }
    const struct command *command = find_command(argv[1]);
    if (!command) return refuse_command(argv[1]);
    char help[] = "--help", *arguments[] = {argv[1], help, argc > 2 ? argv[2] : NULL, NULL};
    return command->main(argc > 2 ? 3 : 2, arguments);
}

/* Signals that the parent has blocked would stop nobody. Ones that it ignores (nohup) stay ignored. */
static void unblock_signals(void) {
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Output that was lost is a failure, though all else went well. */
static int finish(int status) {
    bool lost = fflush(stdout) != 0;
    if (!lost && !ferror(stdout)) return status;
    (void)fprintf(stderr, "lockstep: cannot write output%s%s\n", lost ? ": " : "", lost ? strerror(errno) : "");
    return status ? status : 1;
}

static int run_command(int argc, char **argv) {
    if (argc < 2) {
        print_commands(stderr);
        return LS_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version")) {
        (void)printf("lockstep %s\n", ls_version());
        return 0;
    }
    if (!strcmp(name, "--list-commands")) return list_commands();
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) return help_main(argc - 1, argv + 1);
    const struct command *command = find_command(name);
    return command ? command->main(argc - 1, argv + 1) : refuse_command(name);
}

int main(int argc, char **argv) {
    ls_tools_open_streams();
    unblock_signals();
    return finish(run_command(argc, argv));
}
