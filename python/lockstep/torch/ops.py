"""Horovod's collectives on tensors. Each is a Call, which is run or begun.

A name is alike on all ranks. Calls that are begun run in the order in which they were begun, which is alike on all ranks."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .. import _arrays
from .._library import AllGather, AllReduce, Broadcast, ReduceScatter
from ..communicator import Communicator, scaling, split_evenly
from ..errors import LockstepError, Status
from ..process_sets import ProcessSet, global_process_set
from .compression import Compression
from .handles import Call, Handle, synchronize
from .memory import CODES, Place, as_bytes, code, give_back, is_plain, need_tensor, of_memory, to_host

# Horovod's ops; numbers are those of ls_reduce_op.
Sum, Average, Min, Max, Product, Adasum = range(6)


def chosen_op(average: Optional[bool], op: Optional[int]) -> int:
    """Horovod's old argument average, or op; the default is Average."""
    if average is not None and op is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if op is not None:
        return op
    return Sum if average is False else Average


# ---- All-reduce ----------------------------------------------------------------------------------------------------


class Reduction:
    """The arguments of an all-reduce that are not tensors."""

    def __init__(self, average=None, op=None, prescale_factor=1.0, postscale_factor=1.0, compression=Compression.none,
                 process_set: ProcessSet = global_process_set):
        self.op = chosen_op(average, op)
        self.prescale, self.postscale = float(prescale_factor), float(postscale_factor)
        self.compression = compression
        self.group = process_set.communicator()

    def on_the_wire(self, tensor: torch.Tensor) -> Optional[str]:
        """The type to which the links round by themselves, if the compression is one of ours."""
        rounds = tensor.dtype == torch.float32 and self.op in (Sum, Average)
        return getattr(self.compression, "wire", None) if rounds else None

    def compress(self, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        if self.compression is Compression.none or self.on_the_wire(tensor):
            return tensor, None
        return self.compression.compress(tensor)

    def decompress(self, tensor: torch.Tensor, original: torch.Tensor, context: Any) -> torch.Tensor:
        if self.compression is Compression.none or self.on_the_wire(original):
            return tensor
        return self.compression.decompress(tensor, context)


class _Piece:
    """One tensor of an all-reduce: the library reads source and writes place, which is the output's memory where it can
    be."""

    def __init__(self, tensor: torch.Tensor, output: torch.Tensor, how: Reduction):
        packed, self.context = how.compress(need_tensor(tensor).detach())
        self.source, self.tensor, self.output = to_host(packed), tensor, output
        direct = is_plain(output) and output.dtype == self.source.dtype
        self.place = output.detach() if direct else self.source
        self.kind = (code(self.source), how.on_the_wire(tensor))

    def finish(self, how: Reduction) -> torch.Tensor:
        if self.place.data_ptr() != self.output.data_ptr() or self.place.dtype != self.output.dtype:
            give_back(how.decompress(self.place, self.tensor, self.context).reshape(self.output.shape), self.output)
        return self.output


def _options(name: bytes, how: Reduction, kind: Tuple[int, Optional[str]], pieces: List[_Piece]) -> AllReduce:
    """The call of pieces of one kind."""
    dtype, wire = kind
    return AllReduce(name, dtype=dtype, op=how.op, inputs=[Place(piece.source) for piece in pieces],
                     outputs=[Place(piece.place) for piece in pieces], counts=[piece.source.numel() for piece in pieces],
                     array_count=len(pieces), **scaling(wire, how.prescale, how.postscale))


def _all_reduce(tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], name: Optional[str], how: Reduction) -> Call:
    """Into outputs, which may be the tensors themselves: one call for each type."""
    group, called = how.group, how.group.name("allreduce", name)
    pieces = [_Piece(tensor, output, how) for tensor, output in zip(tensors, outputs)]
    kinds: Dict[Any, List[_Piece]] = {}
    for piece in pieces:
        kinds.setdefault(piece.kind, []).append(piece)
    calls = [_options(called if len(kinds) == 1 else b"%s.%d" % (called, i), how, kind, some)
             for i, (kind, some) in enumerate(kinds.items())]

    def work():
        for call in calls:
            group.direct("ls_all_reduce", call)
    return Call(group, called, work, lambda _: [piece.finish(how) for piece in pieces], calls[0] if len(calls) == 1 else None)


def _plain(tensor: torch.Tensor, output: torch.Tensor, name: Optional[str], how: Reduction) -> bool:
    """Reduces one tensor into output without the objects that other calls need: most calls are such. False: it is no such
    call, and nothing has happened."""
    kind = CODES.get(need_tensor(tensor).dtype)
    if (kind is None or how.compression is not Compression.none or how.prescale != 1 or how.postscale != 1
            or not how.group.idle or not is_plain(tensor)):
        return False
    how.group.call("ls_all_reduce", AllReduce(how.group.name("allreduce", name), tensor.data_ptr(), output.data_ptr(),
                                              tensor.numel(), kind, how.op))
    return True


def _one(call: Call) -> Call:
    many = call.finish
    call.finish = lambda found: many(found)[0]
    return call


def _results(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in map(need_tensor, tensors)]


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set) -> Handle:
    how = Reduction(average, op, prescale_factor, postscale_factor, process_set=process_set)
    return _one(_all_reduce([tensor], _results([tensor]), name, how)).begin()


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set) -> Handle:
    how = Reduction(average, op, prescale_factor, postscale_factor, process_set=process_set)
    return _one(_all_reduce([tensor], [tensor], name, how)).begin()


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=global_process_set) -> torch.Tensor:
    how = Reduction(average, op, prescale_factor, postscale_factor, process_set=process_set)
    return tensor if _plain(tensor, tensor, name, how) else _one(_all_reduce([tensor], [tensor], name, how)).run()


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                            process_set=global_process_set) -> Handle:
    how = Reduction(average, op, prescale_factor, postscale_factor, process_set=process_set)
    return _all_reduce(list(tensors), _results(tensors), name, how).begin()


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                             process_set=global_process_set) -> Handle:
    how = Reduction(average, op, prescale_factor, postscale_factor, process_set=process_set)
    return _all_reduce(list(tensors), list(tensors), name, how).begin()


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                       process_set=global_process_set) -> List[torch.Tensor]:
    how = Reduction(average, op, prescale_factor, postscale_factor, process_set=process_set)
    return _all_reduce(list(tensors), list(tensors), name, how).run()


class _AllReduce(torch.autograd.Function):
    """Of one tensor or several; the gradient of each is reduced in the same way."""

    @staticmethod
    def forward(ctx, how, name, *tensors):
        ctx.how = how
        return tuple(_all_reduce(list(tensors), _results(tensors), name, how).run())

    @staticmethod
    def backward(ctx, *gradients):
        found = [gradient.contiguous() for gradient in gradients]
        return (None, None, *_all_reduce(found, _results(found), None, ctx.how).run())


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set) -> torch.Tensor:
    """A new tensor; gradients pass through it."""
    how = Reduction(average, op, prescale_factor, postscale_factor, compression, process_set)
    if not need_tensor(tensor).requires_grad:
        found = torch.empty_like(tensor)
        if is_plain(found) and _plain(tensor, found, name, how):
            return found
    return _AllReduce.apply(how, name, tensor)[0]


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
                      postscale_factor=1.0, process_set=global_process_set) -> List[torch.Tensor]:
    how = Reduction(average, op, prescale_factor, postscale_factor, compression, process_set)
    return list(_AllReduce.apply(how, name, *tensors)) if tensors else []


def sparse_allreduce_async(tensor, name=None, op=Average, process_set=global_process_set) -> Handle:
    """A sparse tensor's sum or average: indices and values of all ranks are gathered, and added where they are alike."""
    if op not in (Sum, Average):
        raise _arrays.refuse("sparse_allreduce_async adds: op is Sum or Average")
    own = tensor.coalesce()
    group = process_set.communicator()
    called = group.name("sparse_allreduce", name)
    indices = _all_gather([own.indices().t().contiguous(), own.values()], called.decode(), process_set)
    gathered = indices.finish

    def finish(found):
        places, values = gathered(found)
        total = torch.sparse_coo_tensor(places.t(), values, own.shape).coalesce()
        return total / group.size if op == Average else total
    indices.finish = finish
    return indices.begin()


# ---- All-gather ----------------------------------------------------------------------------------------------------


def _gather_one(group: Communicator, name: bytes, host: torch.Tensor) -> torch.Tensor:
    """From within work: the concatenation along the first dimension, which may differ between ranks."""
    flat = host.reshape(1) if host.dim() == 0 else host
    kind, width = as_bytes(flat)
    row = (flat.numel() // flat.shape[0] if flat.shape[0] else _row(flat)) * width
    rows = group.gather_counts(flat.shape[0], name)
    found = torch.empty((sum(rows), *flat.shape[1:]), dtype=flat.dtype)
    group.direct("ls_all_gather", AllGather(name, Place(flat), Place(found), [count * row for count in rows], kind))
    return found


def _row(tensor: torch.Tensor) -> int:
    elements = 1
    for extent in tensor.shape[1:]:
        elements *= extent
    return elements


def _all_gather(tensors: Sequence[torch.Tensor], name: Optional[str], process_set: ProcessSet) -> Call:
    group = process_set.communicator()
    called = group.name("allgather", name)
    hosts = [to_host(tensor) for tensor in tensors]

    def work():
        return [_gather_one(group, called if len(hosts) == 1 else b"%s.%d" % (called, i), host) for i, host in enumerate(hosts)]

    def finish(found):
        return [one.to(tensor.device) for one, tensor in zip(found, tensors)]
    return Call(group, called, work, finish)


def allgather_async(tensor, name=None, process_set=global_process_set) -> Handle:
    return _one(_all_gather([tensor], name, process_set)).begin()


def grouped_allgather_async(tensors, name=None, process_set=global_process_set) -> Handle:
    return _all_gather(list(tensors), name, process_set).begin()


class _AllGather(torch.autograd.Function):
    """The gradient is this rank's rows of the average over all ranks, as Horovod's."""

    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.process_set, ctx.rows = process_set, [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]
        return tuple(_all_gather(tensors, name, process_set).run())

    @staticmethod
    def backward(ctx, *gradients):
        return (None, None, *(_own_rows(gradient, rows, Average, ctx.process_set)
                              for gradient, rows in zip(gradients, ctx.rows)))


def _own_rows(gradient: torch.Tensor, rows: int, op: int, process_set: ProcessSet) -> torch.Tensor:
    group = process_set.communicator()
    total = allreduce(gradient.contiguous(), op=op, process_set=process_set)
    counts = group.run(lambda: group.gather_counts(rows, group.name("rows")))
    return total.narrow(0, sum(counts[:group.rank]), rows)


def allgather(tensor, name=None, process_set=global_process_set) -> torch.Tensor:
    """The tensors of all ranks along the first dimension, in which they may differ."""
    return _AllGather.apply(name, process_set, tensor)[0]


def grouped_allgather(tensors, name=None, process_set=global_process_set) -> List[torch.Tensor]:
    return list(_AllGather.apply(name, process_set, *tensors)) if tensors else []


# ---- Broadcast -----------------------------------------------------------------------------------------------------


def _broadcast(tensor: torch.Tensor, output: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Call:
    group = process_set.communicator()
    root = process_set.place_of(root_rank)
    called = group.name("broadcast", name)
    if output is not tensor and group.rank == root:
        output.detach().copy_(tensor.detach())
    host = to_host(output)
    kind, width = as_bytes(host)

    def work():
        group.direct("ls_broadcast", Broadcast(called, Place(host), host.numel() * width, kind, root))
    return Call(group, called, work, lambda _: give_back(host, output))


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set) -> Handle:
    return _broadcast(tensor, torch.empty_like(tensor, memory_format=torch.contiguous_format), root_rank, name, process_set).begin()


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set) -> Handle:
    return _broadcast(tensor, tensor, root_rank, name, process_set).begin()


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set) -> torch.Tensor:
    return _broadcast(tensor, tensor, root_rank, name, process_set).run()


class _Broadcast(torch.autograd.Function):
    """The gradient of the root is the sum over all ranks, divided as Horovod does by their number; others' are zero."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        output = torch.empty_like(tensor, memory_format=torch.contiguous_format)
        return _broadcast(tensor, output, root_rank, name, process_set).run()

    @staticmethod
    def backward(ctx, gradient):
        total = allreduce(gradient.contiguous(), op=Average, process_set=ctx.process_set)
        mine = ctx.process_set.place_of(ctx.root_rank) == ctx.process_set.rank()
        return (total if mine else total * 0), None, None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set) -> torch.Tensor:
    """A new tensor with the values of root_rank, which is a rank of all, in a process set too."""
    return _Broadcast.apply(tensor, root_rank, name, process_set)


# ---- Reduce-scatter ------------------------------------------------------------------------------------------------


def _reduce_scatter(tensors: Sequence[torch.Tensor], name: Optional[str], how: Reduction) -> Call:
    group = how.group
    called = group.name("reducescatter", name)
    packed = [how.compression.compress(tensor.detach() * how.prescale if how.prescale != 1.0 else tensor.detach())
              for tensor in tensors]
    hosts = [to_host(tensor) for tensor, _ in packed]
    for host in hosts:
        if not host.dim():
            raise _arrays.refuse("reducescatter wants a first dimension to divide; the tensor is a scalar")
        if not host.dtype.is_floating_point and (how.prescale, how.postscale) != (1.0, 1.0):
            raise _arrays.refuse(f"a factor cannot scale a tensor of {host.dtype}")

    def one(index: int, host: torch.Tensor) -> torch.Tensor:
        rows = split_evenly(host.shape[0], group.size)
        found = torch.empty((rows[group.rank], *host.shape[1:]), dtype=host.dtype)
        row = _row(host)
        group.direct("ls_reduce_scatter", ReduceScatter(
            called if len(hosts) == 1 else b"%s.%d" % (called, index), Place(host), Place(found), [count * row for count in rows],
            code(host), how.op))
        return found if how.postscale == 1.0 else found.mul_(how.postscale)

    def finish(found):
        return [how.compression.decompress(result, context).to(tensor.device)
                for result, (_, context), tensor in zip(found, packed, tensors)]
    return Call(group, called, lambda: [one(i, host) for i, host in enumerate(hosts)], finish)


def reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                        postscale_factor=1.0) -> Handle:
    how = Reduction(None, op, prescale_factor, postscale_factor, process_set=process_set)
    return _one(_reduce_scatter([tensor], name, how)).begin()


def grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set, prescale_factor=1.0,
                                postscale_factor=1.0) -> Handle:
    how = Reduction(None, op, prescale_factor, postscale_factor, process_set=process_set)
    return _reduce_scatter(list(tensors), name, how).begin()


class _ReduceScatter(torch.autograd.Function):
    """The gradient is the gathered gradients of all ranks; of a sum it counts the ranks, as Horovod's."""

    @staticmethod
    def forward(ctx, how, name, process_set, *tensors):
        ctx.how, ctx.process_set = how, process_set
        return tuple(_reduce_scatter(list(tensors), name, how).run())

    @staticmethod
    def backward(ctx, *gradients):
        factor = ctx.how.group.size if ctx.how.op == Sum else 1
        return (None, None, None, *(allgather(gradient.contiguous() * factor, process_set=ctx.process_set)
                                    for gradient in gradients))


def reducescatter(tensor, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                  prescale_factor=1.0, postscale_factor=1.0) -> torch.Tensor:
    """This rank's rows of the reduction; the first rows mod size ranks get one more."""
    how = Reduction(None, op, prescale_factor, postscale_factor, compression, process_set)
    return _ReduceScatter.apply(how, name, process_set, tensor)[0]


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average, process_set=global_process_set,
                          prescale_factor=1.0, postscale_factor=1.0) -> List[torch.Tensor]:
    how = Reduction(None, op, prescale_factor, postscale_factor, compression, process_set)
    return list(_ReduceScatter.apply(how, name, process_set, *tensors)) if tensors else []


# ---- All-to-all ----------------------------------------------------------------------------------------------------


def _all_to_all(tensor: torch.Tensor, splits, name: Optional[str], process_set: ProcessSet) -> Call:
    """Every rank gets its part of every rank's tensor; the parts are rows, splits[rank] for each."""
    group = process_set.communicator()
    called = group.name("alltoall", name)
    host = to_host(tensor)
    rows = _splits(host, splits, group.size)
    kind, width = as_bytes(host)
    row = _row(host) * width

    def work():
        memory, received = group.exchange_parts(called, kind, Place(host), [count * row for count in rows])
        return of_memory(memory, host.dtype, host.shape[1:]), received

    def finish(found):
        output, elements = found
        received = [count // row if row else 0 for count in elements]
        output = output.to(tensor.device)
        return output if splits is None else (output, torch.tensor(received, dtype=torch.int32))
    return Call(group, called, work, finish)


def _splits(host: torch.Tensor, splits, size: int) -> List[int]:
    if not host.dim():
        raise _arrays.refuse("alltoall wants a first dimension to divide; the tensor is a scalar")
    if splits is None:
        if host.shape[0] % size:
            raise _arrays.refuse(f"alltoall without splits divides {host.shape[0]} rows by {size} ranks, which is no whole number")
        return [host.shape[0] // size] * size
    rows = [int(count) for count in splits]
    if len(rows) != size or min(rows) < 0 or sum(rows) != host.shape[0]:
        raise _arrays.refuse(f"splits {rows} must be {size} numbers, not negative, of {host.shape[0]} together")
    return rows


def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set) -> Handle:
    return _all_to_all(tensor, splits, name, process_set).begin()


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        rows = _splits(tensor, splits, process_set.size())
        output, received = _all_to_all(tensor, rows, name, process_set).run()
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, _):
        back, _ = _all_to_all(gradient.contiguous(), ctx.received, None, ctx.process_set).run()
        return back, None, None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    """The rows that all ranks have for this one; with splits also how many came from each."""
    output, received = _AllToAll.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


# ---- Barrier, join -------------------------------------------------------------------------------------------------


def barrier(process_set=global_process_set) -> None:
    process_set.communicator().barrier()


def join(device: int = -1) -> int:
    """Returns when all ranks have joined: the last one. Meanwhile this rank gives zeros to the others' all-reduces."""
    from ..process import world
    return world().join()
