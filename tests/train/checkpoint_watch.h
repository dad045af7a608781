/* Waits for checkpoints that are written beside a training, which would be over before its first one. */
#pragma once
#include <stdint.h>

/* Until the folder has that step's, and nobody writes one. */
void checkpoint_watch_wait(const char *folder, int64_t step);
