/* Slurm's short lists. */
#pragma once
#include <lockstep/lockstep.h>

#define LS_SLURM_NODES_MOST 65536

/* "n[01-03,7],login" as names: *names [*count], each and the array for ls_free. Returns INVALID_ARGUMENT with the
 * variable's name and the place. */
ls_status ls_slurm_nodes_expand(const char *variable, const char *text, char ***names, int *count);
void ls_slurm_nodes_free(char **names, int count);
/* "2(x3),1" as 2, 2, 2, 1 into counts [count]: exactly so many. */
ls_status ls_slurm_nodes_counts(const char *variable, const char *text, int *counts, int count);
