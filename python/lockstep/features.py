"""Horovod's questions of what it was built with. Lockstep has its own links between workers: none of the others' is there."""


def _no() -> bool:
    return False


mpi_built = mpi_enabled = gloo_built = gloo_enabled = ddl_built = ccl_built = cuda_built = rocm_built = _no


def nccl_built() -> int:
    """0: these collectives add in host memory."""
    return 0


def mpi_threads_supported() -> bool:
    """True: any thread may call; calls are made one at a time."""
    return True
