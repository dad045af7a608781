/* A handler has no handle, so its notes belong to the process, as signals do. */
#define _GNU_SOURCE
#include "cli/signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "launch/run_worker.h"

static volatile sig_atomic_t heard; /* the program has asked for requests, and will ask again */
static volatile sig_atomic_t stop;  /* the first signal to stop; 0 if none has come */
static volatile sig_atomic_t save;

/* Ends the process as without a handler. The first process of a container would survive the signal alone. */
static void end_at_once(int number) {
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    _exit(128 + number);
}

static void on_stop(int number, siginfo_t *info, void *context) {
    (void)context;
    bool leaves = info->si_code == SI_QUEUE && info->si_value.sival_int == LS_LAUNCH_LEAVE;
    if (!heard || stop || leaves) end_at_once(number);
    stop = number;
}

static void on_usr1(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    save = 1;
}

static void install(int number, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) || action.sa_handler == SIG_IGN) return;
    action = (struct sigaction){.sa_sigaction = handler, .sa_flags = SA_RESTART | SA_NODEFER | SA_SIGINFO};
    (void)sigaction(number, &action, NULL);
}

void ls_signals_install(bool checkpoints) {
    install(SIGTERM, on_stop);
    install(SIGINT, on_stop);
    if (checkpoints) install(SIGUSR1, on_usr1);
}

ls_request ls_signals_request(void *context) {
    (void)context;
    heard = 1;
    if (stop) return LS_STOP;
    if (!save) return LS_GO_ON;
    save = 0;
    return LS_SAVE;
}

int ls_signals_stopped(void) {
    heard = 1;
    return stop ? 128 + stop : 0;
}

int ls_signals_exit(ls_status status) {
    int code = ls_exit(status);
    return status == LS_CANCELLED && stop ? 128 + stop : code;
}
