/* A handler has no handle: what it notes is of the process, as signals are. */
#define _GNU_SOURCE
#include "cli/train_signals.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t heard; /* fit has asked what there is to do, and will again */
static volatile sig_atomic_t stop, save;

/* As without a handler; the first process of a container survives that, though. */
static void end_at_once(int number) {
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    _exit(128 + number);
}

static void on_terminate(int number) {
    if (!heard || stop) end_at_once(number);
    stop = 1;
}

static void on_usr1(int number) {
    (void)number;
    save = 1;
}

static void install(int number, void (*handler)(int)) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) || action.sa_handler == SIG_IGN) return;
    action = (struct sigaction){.sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER};
    (void)sigaction(number, &action, NULL);
}

void ls_train_signals_install(bool checkpoints) {
    install(SIGTERM, on_terminate);
    if (checkpoints) install(SIGUSR1, on_usr1);
}

ls_request ls_train_signals_request(void *context) {
    (void)context;
    heard = 1;
    if (stop) return LS_STOP;
    if (!save) return LS_GO_ON;
    save = 0;
    return LS_SAVE;
}
