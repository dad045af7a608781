/* A table of launchers: the variable that says how many processes there are, and the one that says which this is. */
#include "resolver/launched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *size, *rank;
} table[] = {
    {"WORLD_SIZE", "RANK"},                           /* torchrun */
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, /* Open MPI's mpirun */
    {"PMI_SIZE", "PMI_RANK"},                         /* MPICH's and Intel's */
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},   /* MVAPICH2's */
    {"SLURM_NTASKS", "SLURM_PROCID"},                 /* srun */
    {"HOROVOD_SIZE", "HOROVOD_RANK"},                 /* horovodrun */
};

static long number(const char *name) {
    const char *text = getenv(name);
    char *end;
    long value = text && *text ? strtol(text, &end, 10) : -1;
    return value >= 0 && !*end ? value : -1;
}

bool ls_launched_find(struct ls_launched *launched) {
    size_t used = 0;
    *launched = (struct ls_launched){.first = true};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        long size = number(table[i].size), rank = number(table[i].rank);
        if (size <= 1 || (rank < 0 && !strcmp(table[i].size, "WORLD_SIZE"))) continue;
        if (used < LS_LAUNCHED_TEXT)
            used += (size_t)snprintf(launched->variables + used, LS_LAUNCHED_TEXT - used, "%s%s=%ld", used ? ", " : "",
                                     table[i].size, size);
        if (rank > 0) launched->first = false;
    }
    return used > 0;
}
