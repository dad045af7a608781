/* mpirun and mpiexec. Their variables name no addresses, so the workers find each other where all are on this host. */
#include "resolver/readers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* All are here: their ports follow from the job's name, or from the process that has started them all. */
static ls_status put_here(struct ls_launcher *launch, const char *local_size, const char *job_variable) {
    const char *job = ls_launcher_variable(job_variable);
    char text[LS_LAUNCHER_TEXT];
    bool here = false;
    ls_status status = ls_launcher_all_here(launch, local_size, &here);
    if (status || !here) return status;
    (void)snprintf(text, sizeof(text), "mpi %.120s %d", job ? job : "", job ? 0 : (int)getppid());
    return ls_launcher_put_local(launch, text);
}

ls_status ls_mpi_read_openmpi(struct ls_launcher *launch) {
    ls_status status = ls_launcher_count(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    if (status || launch->size <= 1) return status;
    return put_here(launch, "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE");
}

/* Slurm's PMI-2 sets PMI_RANK for the tasks of srun too. */
static bool is_of_slurm(void) {
    const char *rank = ls_launcher_variable("PMI_RANK"), *task = ls_launcher_variable("SLURM_PROCID");
    return rank && task && !strcmp(rank, task) && !ls_launcher_variable("MPI_LOCALNRANKS");
}

ls_status ls_mpi_read_pmi(struct ls_launcher *launch) {
    ls_status status = LS_OK;
    if (is_of_slurm()) return LS_OK;
    bool mvapich = ls_launcher_variable("MV2_COMM_WORLD_SIZE");
    if (mvapich)
        status = ls_launcher_count(launch, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE");
    else
        status = ls_launcher_count(launch, "PMI_RANK", "PMI_SIZE");
    if (status || launch->size <= 1) return status;
    return put_here(launch, mvapich ? "MV2_COMM_WORLD_LOCAL_SIZE" : "MPI_LOCALNRANKS", "PMI_JOBID");
}
