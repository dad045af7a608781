/* A ps task serves, whatever its command would do in a worker. */
#pragma once
#include <stdbool.h>

/* Returns true if the environment makes this process a parameter server. */
bool ls_serve_is_due(void);
/* Serves until the workers have finished. Returns the exit status. */
int ls_serve_run(void);
