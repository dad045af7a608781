/* The readers of what Kubernetes' jobs set in their pods. */
#pragma once
#include "resolver/launcher.h"

/* An Indexed Job, or the pods of one job of a JobSet. */
ls_status ls_kubernetes_read_indexed_job(struct ls_launcher *launch);
/* A PyTorchJob, or a TrainJob of the torch runtime, whose pods start the program without torchrun. */
ls_status ls_kubernetes_read_pytorchjob(struct ls_launcher *launch);
/* A TrainJob of the JAX runtime. */
ls_status ls_kubernetes_read_jax(struct ls_launcher *launch);
