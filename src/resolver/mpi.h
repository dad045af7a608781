/* The readers of what the launchers of MPI's implementations set. */
#pragma once
#include "resolver/launcher.h"

/* Open MPI's mpirun. */
ls_status ls_mpi_read_openmpi(struct ls_launcher *launch);
/* PMI's processes: MPICH, Intel MPI, MVAPICH. */
ls_status ls_mpi_read_pmi(struct ls_launcher *launch);
