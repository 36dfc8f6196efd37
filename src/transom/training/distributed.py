"""Training on several processes with PyTorch's DDP or FSDP2. With one process, everything here does nothing.

`torchrun` starts the processes and sets the rank of each in the environment. Every process sees the same global batches
in the same order and takes its share of the rows. Checkpoints hold whole tensors, for any number of processes.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transom.layers.blocks import Arrangement
from transom.names import Misfit

PATIENCE = 600.0  # seconds that a process waits for the others before it raises an error


class ForwardRouter(nn.Module):
    """A model whose forward calls any function on it: DDP and FSDP2 hook into forward, but a loss may call others."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(self.model, *args)


def wrap_ddp(model: nn.Module) -> nn.Module:
    """Every process holds all parameters, and gradients are averaged (DDP)."""
    # Buffers are tables computed on demand, as long as the batch needs, so they differ between processes.
    return DistributedDataParallel(ForwardRouter(model), broadcast_buffers=False)


def wrap_fsdp(model: nn.Module) -> nn.Module:
    """Every process holds its share of each parameter, gathered block by block when needed (FSDP2).

    Everything outside the blocks is one group: embedding and unembedding may be one parameter, which two groups cannot
    share.
    """
    from torch.distributed.fsdp import fully_shard

    for module in model.modules():
        if isinstance(module, Arrangement):
            fully_shard(module)
    outermost = ForwardRouter(model)
    fully_shard(outermost)
    return outermost


WRAPPINGS: dict[str, Callable[[nn.Module], nn.Module]] = {"ddp": wrap_ddp, "fsdp": wrap_fsdp}


@dataclass(frozen=True)
class World:
    """This process among all processes of a run."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    @property
    def part(self) -> slice:
        """The rows of a global batch that this process takes; with few rows it may take none."""
        return slice(self.rank, None, self.size)

    def wrap(self, model: nn.Module, wrapping: str) -> nn.Module:
        """The model wrapped in DDP or FSDP2; call it with `forward`."""
        if self.size == 1:
            return ForwardRouter(model)
        if wrapping not in WRAPPINGS:
            raise Misfit(
                f"{self.size} processes need the wrapping {' or '.join(WRAPPINGS)}, but got {wrapping!r};"
                " give one of these, or start one process"
            )
        return WRAPPINGS[wrapping](model)

    def forward(self, wrapped: nn.Module, function: Callable[..., Any], *args: Any) -> Any:
        """`function(model, *args)`, with gradients averaged over processes: multiply a loss by `size` for the sum."""
        return wrapped(function, *args)

    @contextmanager
    def no_sync(self, wrapped: nn.Module, enabled: bool = True) -> Iterator[None]:
        """Gradients of this block are not sent to other processes, but added to those of the next."""
        for group in fsdp_groups(wrapped)[:1]:
            group.set_requires_gradient_sync(not enabled)
        with wrapped.no_sync() if enabled and isinstance(wrapped, DistributedDataParallel) else nullcontext():
            yield

    @contextmanager
    def gather_parameters(self, wrapped: nn.Module) -> Iterator[None]:
        """Inside this block the model can be used without its wrapper, to evaluate or save it."""
        groups = fsdp_groups(wrapped)
        with torch.no_grad():
            wrapped(lambda model: None)  # FSDP2 initialises in the first forward, which must be the outermost module's
        for group in groups:
            group.unshard()
            group.set_reshard_after_forward(False, recurse=False)
        try:
            yield
        finally:
            for group in groups:
                # The outermost group is needed first in the backward pass.
                group.set_reshard_after_forward(group is not wrapped, recurse=False)
                group.reshard()

    def all_sum(self, number: float | int) -> float:
        """The sum of a number over all processes."""
        return float(self.all_reduce(number, dist.ReduceOp.SUM))

    def any(self, flag: bool) -> bool:
        """Whether a flag is set on any process; all get the same answer."""
        return bool(self.all_reduce(float(flag), dist.ReduceOp.MAX))

    def broadcast(self, number: float | int) -> float:
        """The number of the leading process."""
        return self.all_sum(number if self.leads else 0.0)

    def all_reduce(self, number: float | int, operation: Any) -> Tensor:
        tensor = torch.tensor(number, dtype=torch.float64, device=self.device)
        if self.size > 1:
            with lost_process_as_misfit("adding up"):
                dist.all_reduce(tensor, operation)
        return tensor

    def wait(self, where: str, seconds: float | int = PATIENCE) -> None:
        """Wait until all processes are here."""
        if self.size == 1:
            return
        with lost_process_as_misfit(where):
            if self.device.type == "cpu":
                dist.monitored_barrier(timeout=timedelta(seconds=seconds), wait_all_ranks=True)
            else:
                dist.barrier(device_ids=[self.device.index])

    def full(self, tensor: Tensor) -> Tensor:
        """The whole of a tensor of which this process may hold a share; every process must call this."""
        share = as_dtensor(tensor)
        return tensor if share is None else share.full_tensor()

    def gather_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors on the CPU of the leading process, nothing on the others; every process must call this."""
        gathered = {}
        for name, tensor in tensors.items():
            full = self.full(tensor.detach())
            if self.leads:
                gathered[name] = full.cpu()
        return gathered


def fsdp_groups(wrapped: nn.Module) -> list[Any]:
    """The modules that FSDP2 shards, the outermost first; none without it."""
    if not dist.is_initialized():
        return []
    from torch.distributed.fsdp import FSDPModule  # takes a second to import

    return [module for module in wrapped.modules() if isinstance(module, FSDPModule)]


def as_dtensor(tensor: Tensor) -> Any:
    """The tensor as a DTensor if other processes hold parts of it, otherwise None."""
    if not dist.is_initialized():
        return None
    from torch.distributed.tensor import DTensor

    return tensor if isinstance(tensor, DTensor) else None


def shard_like(full: Tensor, own: Tensor) -> Tensor:
    """This process's share of a tensor, if its own one is sharded; every process has the full one."""
    share = as_dtensor(own)
    if share is None:
        return full.to(own.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(full.to(own.device), share.device_mesh, share.placements, src_data_rank=None)


@contextmanager
def lost_process_as_misfit(where: str) -> Iterator[None]:
    """PyTorch's error about a lost process as a Misfit."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Misfit(
            f"all processes of this run should meet at {where!r}, but one did not come ({reason});"
            " see what the others printed, then run the same command again"
        ) from error


@contextmanager
def join_world(device: str = "cpu", seconds: float | int = PATIENCE) -> Iterator[World]:
    """The processes that `torchrun` started, joined for this block; without it, this process alone."""
    rank, size, local_rank = read_torchrun_env(os.environ)
    own_device = torch.device(device, local_rank) if device == "cuda" else torch.device(device)
    if size == 1:
        yield World(device=own_device)
        return
    if own_device.type == "cuda":
        torch.cuda.set_device(own_device)
    backend = "nccl" if own_device.type == "cuda" else "gloo"
    with lost_process_as_misfit("the start"):
        dist.init_process_group(backend, rank=rank, world_size=size, timeout=timedelta(seconds=seconds))
    try:
        yield World(rank, size, own_device)
    finally:
        dist.destroy_process_group()


def read_torchrun_env(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Rank, number of processes, and rank on this machine, as `torchrun` sets them."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    values = [environment.get(name, "") for name in names]
    if not any(values):
        return 0, 1, 0
    settings = ", ".join(f"{name}={value or 'nothing'}" for name, value in zip(names, values, strict=True))
    way_out = "start with torchrun, or unset them to run alone"
    if not all(value.isdecimal() for value in values):
        raise Misfit(f"RANK, WORLD_SIZE and LOCAL_RANK must be whole numbers, but got {settings}; {way_out}")
    rank, size, local_rank = map(int, values)
    if not local_rank <= rank < size:
        raise Misfit(f"LOCAL_RANK ≤ RANK < WORLD_SIZE must hold, but got {settings}; {way_out}")
    return rank, size, local_rank
