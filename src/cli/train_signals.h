/* What a training does on signals: SIGTERM stops all workers after one step, SIGUSR1 saves a checkpoint. */
#pragma once
#include <lockstep/lockstep.h>

/* Before the first step there is nothing to save, so SIGTERM ends the process at once, as a second SIGTERM does.
 * SIGUSR1 is left alone where no checkpoints are kept, and what was ignored at the start stays so. */
void ls_train_signals_install(bool checkpoints);
/* An ls_request_fn: what has come since the last call. */
ls_request ls_train_signals_request(void *context);
