"""A backend of torch.distributed: import lockstep.torch.c10d; dist.init_process_group("lockstep").

Sums have lockstep's fixed order, so that equal runs have equal bits. The processes are those of lockstep run, of TF_CONFIG,
or of torchrun: without a TF_CONFIG they find each other through torch's store."""
from __future__ import annotations

import importlib
import itertools
import json
import os
import socket
from typing import Any, Callable, List, Optional

import torch
import torch.distributed as dist

from .. import _arrays, process
from .._calls import Pending
from .._library import AllGather, Broadcast, ReduceScatter
from .._messages import Messages
from ..communicator import Communicator
from ..errors import LockstepError, Status
from . import ops
from .handles import Call
from .memory import Place, as_bytes, give_back, of_memory, to_host
from .compression import Compression

NAME = "lockstep"
_OPS = {dist.ReduceOp.SUM: ops.Sum, dist.ReduceOp.AVG: ops.Average, dist.ReduceOp.MIN: ops.Min, dist.ReduceOp.MAX: ops.Max,
        dist.ReduceOp.PRODUCT: ops.Product}


class _Work(dist.Work):
    """A begun call, with torch's future. begin(then) begins it."""

    def __init__(self, begin: Callable[[Callable[[Any], None]], Pending], outputs: Any):
        super().__init__()
        self._future: torch.futures.Future = torch.futures.Future()
        future = self._future

        def then(error):
            if error is None:
                future.set_result(outputs)
            else:
                future.set_exception(error)
        self._pending = begin(then)

    def wait(self, timeout=None) -> bool:
        seconds = timeout.total_seconds() if timeout else 0
        self._pending.wait(seconds if seconds > 0 else None)
        return True

    def is_completed(self) -> bool:
        return self._pending.done()

    def is_success(self) -> bool:
        return self._pending.done() and self._pending.error is None

    def exception(self):
        return self._pending.error if self._pending.done() else None

    def get_future(self) -> torch.futures.Future:
        return self._future

    def result(self):
        return self._future.wait()  # it is set after the call has ended


class _Done(dist.Work):
    """A call that was made at once, for torch waits for it: no thread has to wake another."""

    def __init__(self, call: Call, outputs: Any):
        super().__init__()
        self._outputs = outputs
        call.run()

    def wait(self, timeout=None) -> bool:
        return True

    is_completed = is_success = wait

    def exception(self):
        return None

    def get_future(self) -> torch.futures.Future:
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self._outputs)
        return future

    def result(self):
        return self._outputs


def _work(call: Call, outputs: Any, opts: Any) -> dist.Work:
    if not getattr(opts, "asyncOp", True):
        return _Done(call, outputs)
    return _Work(lambda then: call.group.begin(call.name.decode(), lambda: call.finish(call.work()), then), outputs)


class _Group:
    """What ops.Reduction wants of a process set."""

    def __init__(self, communicator: Communicator):
        self._communicator = communicator

    def communicator(self) -> Communicator:
        return self._communicator


class _OnCpu:
    """What torch asks of a group's backend of the device "cpu", such as in batch_isend_irecv."""
    supports_coalescing = supports_splitting = _supports_time_estimate = False

    def name(self) -> str:
        return NAME

    def supports_tensor_alloc(self, device: Any) -> bool:
        return False


class ProcessGroupLockstep(dist.ProcessGroup):
    """A process group over a communicator. Calls are begun, and made in their order by one thread."""

    def __init__(self, communicator: Communicator, rank: int, size: int, own: bool):
        super().__init__(rank, size)
        self._group, self._own = communicator, own  # own: closed with this process group
        self._set = _Group(communicator)
        communicator.open_messages()  # all ranks come here
        self._numbers = itertools.count(1)
        self._name, self._desc = "lockstep", "lockstep"

    # ---- What torch asks ----------------------------------------------------------------------------------------

    def getBackendName(self) -> str:
        return NAME

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._desc

    def setGroupDesc(self, desc: str) -> None:
        self._desc = desc

    def _get_backend(self, device: Any) -> _OnCpu:
        """Of batch_isend_irecv and pipelining."""
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"the backend lockstep has no device {device}: its calls are of tensors on the CPU")
        return _OnCpu()

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def getRank(self) -> int:
        return self.rank()

    def getSize(self) -> int:
        return self.size()

    def shutdown(self) -> None:
        if self._own:
            self._group.close()
        elif process.is_initialized() and self._group is process.world():
            process.shutdown()

    def abort(self) -> None:
        self._group.abort("torch.distributed aborts the group")

    # ---- Calls --------------------------------------------------------------------------------------------------

    def _called(self, kind: str) -> bytes:
        return f"{self._name}/{kind}.{next(self._numbers)}".encode()

    def _begin(self, kind: str, work: Callable[[bytes], Any], finish: Callable[[Any], Any], outputs: Any,
               opts: Any = None) -> dist.Work:
        name = self._called(kind)
        return _work(Call(self._group, name, lambda: work(name), finish), outputs, opts)

    def _how(self, op: Any) -> ops.Reduction:
        for theirs, ours in _OPS.items():
            if op == theirs:
                return ops.Reduction(op=ours, process_set=self._set, compression=Compression.none)
        raise _arrays.refuse(f"the backend lockstep has no {op}; it has SUM, AVG, MIN, MAX and PRODUCT")

    def allreduce(self, tensors, opts=None):
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM if opts is None else opts)
        return _work(ops._all_reduce(tensors, tensors, self._called("all_reduce").decode(), self._how(op)), tensors, opts)

    def allreduce_coalesced(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    def reduce(self, tensors, opts):
        outputs = tensors if self.rank() == opts.rootRank else [tensor.clone() for tensor in tensors]
        call = ops._all_reduce(tensors, outputs, self._called("reduce").decode(), self._how(opts.reduceOp))
        return _work(call, tensors, opts)

    def broadcast(self, tensors, opts):
        hosts = [to_host(tensor) for tensor in tensors]

        def work(name):
            for host in hosts:
                kind, width = as_bytes(host)
                self._group.direct("ls_broadcast", Broadcast(name, Place(host), host.numel() * width, kind, opts.rootRank))
        return self._begin("broadcast", work, lambda _: [give_back(*pair) for pair in zip(hosts, tensors)], tensors, opts)

    def _gather(self, kind: str, inputs: List[torch.Tensor], take: Callable[[int, List[torch.Tensor]], None], outputs: Any,
                opts: Any):
        """All-gathers of as many elements from each rank; take gets what all ranks have given of each input."""
        hosts = [to_host(tensor) for tensor in inputs]

        def work(name):
            found = []
            for host in hosts:
                number, width = as_bytes(host)
                all_ = torch.empty((self.size(), *host.shape), dtype=host.dtype)
                self._group.direct("ls_all_gather", AllGather(name, Place(host), Place(all_),
                                                              [host.numel() * width] * self.size(), number))
                found.append(all_)
            return found

        def finish(found):
            for index, all_ in enumerate(found):
                take(index, list(all_))
        return self._begin(kind, work, finish, outputs, opts)

    def allgather(self, output_lists, inputs, opts=None):
        def take(index, parts):
            for output, part in zip(output_lists[index], parts):
                output.detach().copy_(part.view(output.shape))
        return self._gather("all_gather", inputs, take, output_lists, opts)

    def all_gather_single(self, output, tensor, opts=None):
        def take(_, parts):
            output.detach().view(-1).copy_(torch.cat([part.reshape(-1) for part in parts]))
        return self._gather("all_gather", [tensor], take, [output], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        def take(index, parts):
            outputs[index].detach().view(-1).copy_(torch.cat([part.reshape(-1) for part in parts]))
        return self._gather("all_gather", inputs, take, outputs, opts)

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        def take(index, parts):
            for rank, part in enumerate(parts):
                output_lists[rank][index].detach().copy_(part)
        return self._gather("all_gather", inputs, take, output_lists, opts)

    def gather(self, output_lists, inputs, opts):
        def take(index, parts):
            if self.rank() == opts.rootRank:
                for output, part in zip(output_lists[index], parts):
                    output.detach().copy_(part)
        return self._gather("gather", inputs, take, output_lists, opts)

    def scatter(self, outputs, input_lists, opts):
        """The root's whole list goes to all, and each takes its part."""
        first = outputs[0]
        whole = torch.empty((self.size(), *first.shape), dtype=first.dtype)
        if self.rank() == opts.rootRank:
            whole.copy_(torch.stack([tensor.detach().to("cpu") for tensor in input_lists[0]]))
        kind, width = as_bytes(whole)

        def work(name):
            self._group.direct("ls_broadcast", Broadcast(name, Place(whole), whole.numel() * width, kind, opts.rootRank))
        return self._begin("scatter", work, lambda _: first.detach().copy_(whole[self.rank()]), outputs, opts)

    def _reduce_scatter(self, outputs, wholes, opts):
        """wholes[i] has the parts of all ranks for outputs[i], one after the other."""
        how = self._how(getattr(opts, "reduceOp", dist.ReduceOp.SUM))
        hosts = [to_host(whole).reshape(-1) for whole in wholes]

        def work(name):
            found = []
            for host, output in zip(hosts, outputs):
                part = torch.empty(output.numel(), dtype=host.dtype)
                self._group.direct("ls_reduce_scatter", ReduceScatter(name, Place(host), Place(part), [part.numel()] * self.size(),
                                                                      ops.code(host), how.op))
                found.append(part)
            return found

        def finish(found):
            for part, output in zip(found, outputs):
                output.detach().copy_(part.view(output.shape))
        return self._begin("reduce_scatter", work, finish, outputs, opts)

    def reduce_scatter(self, outputs, input_lists, opts=None):
        return self._reduce_scatter(outputs, [torch.cat([t.detach().reshape(-1) for t in parts]) for parts in input_lists], opts)

    def reduce_scatter_single(self, output, tensor, opts=None):
        return self._reduce_scatter([output], [tensor], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return self._reduce_scatter(outputs, inputs, opts)

    def _exchange(self, source: torch.Tensor, counts: List[int], take: Callable[[torch.Tensor], None], outputs: Any, opts: Any):
        """counts[rank] elements of source for each rank; take gets what came, one rank after the other."""
        host = to_host(source).reshape(-1)
        kind, width = as_bytes(host)

        def work(name):
            memory, _ = self._group.exchange_parts(name, kind, Place(host), [count * width for count in counts])
            return of_memory(memory, host.dtype, ())

        return self._begin("all_to_all", work, take, outputs, opts)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        rows = list(input_splits) or [tensor.shape[0] // self.size()] * self.size()
        row = tensor.numel() // tensor.shape[0] if tensor.shape[0] else 0
        return self._exchange(tensor, [count * row for count in rows],
                              lambda found: output.detach().copy_(found.view(output.shape)), [output], opts)

    def alltoall(self, outputs, inputs, opts=None):
        def take(found):
            for part, output in zip(found.split([output.numel() for output in outputs]), outputs):
                output.detach().copy_(part.view(output.shape))
        return self._exchange(torch.cat([tensor.detach().reshape(-1) for tensor in inputs]),
                              [tensor.numel() for tensor in inputs], take, outputs, opts)

    def send(self, tensors, to, tag):
        host = to_host(*tensors)
        kind, width = as_bytes(host)
        return _Work(lambda then: self._messages().send(f"tag {tag}", to, kind, Place(host), host.numel() * width, then), tensors)

    def recv(self, tensors, source, tag):
        host = to_host(*tensors)
        kind, width = as_bytes(host)
        return _Work(lambda then: self._messages().receive(f"tag {tag}", source, kind, Place(host), host.numel() * width,
                                                           lambda: give_back(host, *tensors), then), tensors)

    def _messages(self) -> Messages:
        found = self._group.open_messages()
        if found is None:
            raise LockstepError(Status.UNIMPLEMENTED, "there is no send and recv where init was called with negotiate=True: its "
                                                      "calls are matched by their names, and messages are not")
        return found

    def recv_anysource(self, tensors, tag):
        raise LockstepError(Status.UNIMPLEMENTED, "the backend lockstep receives from a rank that is named; give recv a src")

    def barrier(self, opts=None):
        return self._begin("barrier", lambda name: self._group.direct("ls_barrier", name), lambda _: None, [], opts)

    # torch's names before 2.13
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


# ---- How a group is made -------------------------------------------------------------------------------------------


def _clustered() -> bool:
    return "TF_CONFIG" in os.environ


def _own_address(store: Any) -> str:
    """An address of this host that the others reach: that of the route to the store's host."""
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def _meet(store: Any, rank: int, size: int, timeout: float) -> Communicator:
    """A communicator of the ranks that share the store: each says its address there."""
    if size == 1:
        return Communicator(tf_config="{}")
    with socket.socket() as holder:  # until the library listens: with SO_REUSEADDR both may have the port, and nobody else
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        store.set(f"lockstep/{rank}", f"{_own_address(store)}:{holder.getsockname()[1]}")
        workers = [store.get(f"lockstep/{other}").decode() for other in range(size)]
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        return Communicator(tf_config=json.dumps(config), join_timeout=timeout)


def _create(options: Any, _: Any = None) -> ProcessGroupLockstep:
    rank, size = options.group_rank, options.group_size
    if _clustered():
        process.init()
        everybody = process.world()
        if everybody.size == size:
            if everybody.rank != rank:
                raise LockstepError(Status.INVALID_ARGUMENT, f"torch's rank is {rank}, and TF_CONFIG's is {everybody.rank}: give "
                                                             f"init_process_group the rank of TF_CONFIG, or none", everybody.rank)
            return ProcessGroupLockstep(everybody, rank, size, own=False)
    timeout = options.timeout.total_seconds()
    return ProcessGroupLockstep(_meet(options.store, rank, size, timeout), rank, size, own=True)


_handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers  # public only for new names
_torch_env = _handlers["env"]


def _env(url: str, timeout=dist.default_pg_timeout, **options):
    """env:// without MASTER_ADDR, as lockstep run starts processes: rank 0 opens torch's store and tells the others."""
    if "MASTER_ADDR" in os.environ or not _clustered():
        yield from _torch_env(url, timeout=timeout, **options)
        return
    process.init()
    group = process.world()
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    host = config["cluster"][task["type"]][int(task["index"])].rsplit(":", 1)[0].strip("[]")
    store: Optional[Any] = None
    if group.rank == 0:
        store = dist.TCPStore(host, 0, group.size, is_master=True, timeout=timeout, wait_for_workers=False)
    from ..objects import broadcast_object
    place = broadcast_object((host, store.port) if store else None, 0, "torch's store")
    if store is None:
        store = dist.TCPStore(*place, group.size, is_master=False, timeout=timeout)
    yield store, group.rank, group.size


_handlers["env"] = _env
dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
