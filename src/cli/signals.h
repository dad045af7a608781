/* The signals of a command that works with other workers. The first SIGTERM or SIGINT stops all workers in order;
 * SIGUSR1 saves a checkpoint. The second SIGTERM or SIGINT ends the process at once; so does the first one before the
 * program has first asked for signals. A signal that was ignored at the start stays ignored. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_SIGNALS_HELP                                                                                                \
    "  SIGTERM, SIGINT (Ctrl-C) to any worker   all workers end: this one with status 143 or 130, the others, who "    \
    "are\n"                                                                                                            \
    "                          told, with 143. A second one ends the process at once\n"

/* checkpoints: SIGUSR1 is taken as well. */
void ls_signals_install(bool checkpoints);
/* An ls_request_fn: the request of the signals since the last call. */
ls_request ls_signals_request(void *context);
/* The exit status of a command that has been told to stop and has nothing to bring to an end: 143 or 130; 0 if no
 * signal has come. */
int ls_signals_stopped(void);
/* ls_exit; 130 in place of 143 where SIGINT was the first. */
int ls_signals_exit(ls_status status);
