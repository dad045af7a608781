"""Every public name of Horovod 0.28's modules is here, or is one error that says what to use instead; TensorFlow's strategies
are such errors too. argv: the modules."""
import importlib
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from lockstep import LockstepError, Status

BASICS = """init shutdown is_initialized start_timeline stop_timeline size local_size cross_size rank local_rank cross_rank
    mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built
    Compression Average Sum elastic"""
SETS = "ProcessSet global_process_set add_process_set remove_process_set"
KERAS = BASICS + """ callbacks DistributedOptimizer PartialDistributedOptimizer broadcast_global_variables allreduce allgather
    broadcast reducescatter load_model"""
CALLBACKS = """BroadcastGlobalVariablesCallback MetricAverageCallback LearningRateScheduleCallback LearningRateWarmupCallback
    BestModelCheckpoint"""
KERAS_ELASTIC = "KerasState CommitStateCallback UpdateBatchStateCallback UpdateEpochStateCallback run"
NAMES = {
    "lockstep.torch": BASICS + " " + SETS + """ allgather_object broadcast_object broadcast_optimizer_state
        broadcast_parameters allreduce allreduce_async allreduce_ allreduce_async_ grouped_allreduce grouped_allreduce_async
        grouped_allreduce_ grouped_allreduce_async_ sparse_allreduce_async allgather allgather_async grouped_allgather
        grouped_allgather_async broadcast broadcast_async broadcast_ broadcast_async_ alltoall alltoall_async reducescatter
        reducescatter_async grouped_reducescatter grouped_reducescatter_async join barrier poll synchronize is_homogeneous
        Adasum Min Max Product HorovodInternalError DistributedOptimizer SyncBatchNorm mpi_ops functions compression optimizer
        sync_batch_norm check_extension""",
    "lockstep.torch.elastic": "TorchState ElasticSampler run state sampler",
    "lockstep.tensorflow": BASICS + " " + SETS + """ allgather_object broadcast_object broadcast_object_fn broadcast_variables
        allgather grouped_allgather broadcast broadcast_ alltoall is_homogeneous rank_op local_rank_op size_op local_size_op
        process_set_included_op Adasum Min Max Product handle_average_backwards_compatibility check_num_rank_power_of_2
        vars_to_refs refs_to_vars join SyncBatchNormalization LocalGradientAggregationHelper check_extension gpu_available
        split_list allreduce reducescatter grouped_allreduce grouped_reducescatter broadcast_global_variables
        BroadcastGlobalVariablesHook DistributedOptimizer DistributedGradientTape PartialDistributedGradientTape mpi_ops
        functions compression sync_batch_norm MirroredStrategy MultiWorkerMirroredStrategy""",
    "lockstep.tensorflow.elastic": "TensorFlowKerasState TensorFlowState run HorovodInternalError",
    "lockstep.tensorflow.keras": KERAS + " " + SETS,
    "lockstep.tensorflow.keras.callbacks": CALLBACKS,
    "lockstep.tensorflow.keras.elastic": KERAS_ELASTIC,
    "lockstep.keras": KERAS + " Adasum global_process_set",
    "lockstep.keras.callbacks": CALLBACKS,
    "lockstep.keras.elastic": KERAS_ELASTIC,
}

for chosen in sys.argv[1:]:
    for module, names in NAMES.items():
        if module != chosen and not module.startswith(chosen + "."):
            continue
        found = importlib.import_module(module)
        for name in names.split():
            try:
                if getattr(found, name) is None:
                    raise AssertionError(f"{module}.{name} is None")
            except LockstepError as error:
                assert error.status == Status.UNIMPLEMENTED and f"{name} is not there: " in str(error), error
                assert not hasattr(found, name) and getattr(found, name, 7) == 7, name  # as libraries look for Horovod's
                try:
                    exec(f"from {module} import {name}")
                    raise AssertionError(f"{module}.{name} is imported")
                except ImportError as import_error:
                    assert f"{name} is not there: " in str(import_error), import_error
        try:
            found.no_name_of_horovod
            raise AssertionError(f"{module} has any name")
        except AttributeError:
            pass
print("whole")
