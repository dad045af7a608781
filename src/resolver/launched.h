/* Launchers that start several processes and whose variables are not read: torchrun, mpirun, srun, horovodrun. */
#pragma once
#include <stdbool.h>

#define LS_LAUNCHED_TEXT 256

struct ls_launched {
    char variables[LS_LAUNCHED_TEXT]; /* "WORLD_SIZE=4, SLURM_NTASKS=4" */
    bool first;                       /* whether the launcher counts this process as number 0, or does not say */
};
/* True if the environment says that this process is one of several. */
bool ls_launched_find(struct ls_launched *launched);
