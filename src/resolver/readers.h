/* The readers of what launchers set: a file each. */
#pragma once
#include <lockstep/lockstep.h>

#include "resolver/cluster_view.h"
#include "resolver/launcher.h"

/* Amazon SageMaker. */
ls_status ls_cloud_read_sagemaker(struct ls_launcher *launch);
/* AWS Batch's jobs of several nodes. */
ls_status ls_cloud_read_aws_batch(struct ls_launcher *launch);

ls_status ls_horovod_read(struct ls_launcher *launch);

/* An Indexed Job, or the pods of one job of a JobSet. */
ls_status ls_kubernetes_read_indexed_job(struct ls_launcher *launch);
/* A PyTorchJob, or a TrainJob of the torch runtime, whose pods start the program without torchrun. */
ls_status ls_kubernetes_read_pytorchjob(struct ls_launcher *launch);
/* A TrainJob of the JAX runtime. */
ls_status ls_kubernetes_read_jax(struct ls_launcher *launch);

/* Open MPI's mpirun. */
ls_status ls_mpi_read_openmpi(struct ls_launcher *launch);
/* PMI's processes: MPICH, Intel MPI, MVAPICH. */
ls_status ls_mpi_read_pmi(struct ls_launcher *launch);

/* In a step of srun with two tasks or more. The body of a batch script is none. */
ls_status ls_slurm_read(struct ls_launcher *launch);
/* Returns true if Slurm's job has several tasks (*tasks), and this process is in no step of it, but in the body of a
 * batch script or the like. Sets *first if Slurm counts this process as number 0, or does not say. */
bool ls_slurm_lacks_step(int *tasks, bool *first);

/* RANK and WORLD_SIZE; the pods of a PyTorchJob that no torchrun has started are pytorchjob.h's. */
ls_status ls_torchrun_read(struct ls_launcher *launch);

/* As ls_tf_config_parse; local mode where the variable is not set. */
ls_status ls_vertex_read(struct ls_cluster_view **spec);

#define LS_SLURM_NODES_MOST 65536

/* "n[01-03,7],login" as names: *names [*count], each and the array for ls_free. Returns INVALID_ARGUMENT with the
 * variable's name and the place. */
ls_status ls_slurm_nodes_expand(const char *variable, const char *text, char ***names, int *count);
void ls_slurm_nodes_free(char **names, int count);
/* "2(x3),1" as 2, 2, 2, 1 into counts [count]: exactly so many. */
ls_status ls_slurm_nodes_counts(const char *variable, const char *text, int *counts, int count);
