/* The reader of a Slurm step's variables. */
#pragma once
#include "resolver/launcher.h"

/* In a step of srun with two tasks or more. The body of a batch script is none. */
ls_status ls_slurm_read(struct ls_launcher *launch);
/* True: Slurm's job has several tasks (*tasks), and this is no step of them, but the body of a batch script or the
 * like. *first: Slurm counts this process as number 0, or does not say. */
bool ls_slurm_lacks_step(int *tasks, bool *first);
