/* The abort flag of a group: raised once a generation, by whoever learns first that the group cannot go on; every wait
 * tests it. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_abort;
ls_status ls_abort_new(struct ls_abort **abort);
void ls_abort_free(struct ls_abort *abort);
/* The first call wins; message is copied. Any thread. */
void ls_abort_raise(struct ls_abort *abort, ls_status status, const char *message);
/* As if it had never been raised; nobody waits for it. */
void ls_abort_reset(struct ls_abort *abort);
bool ls_abort_raised(const struct ls_abort *abort);
/* Readable for poll() once raised. */
int ls_abort_fd(const struct ls_abort *abort);
/* After it was raised: makes its message this thread's error and returns its status. */
ls_status ls_abort_status(struct ls_abort *abort);
