"""One run on several processes, by PyTorch's own engines: DDP and FSDP2. Alone, everything here does nothing.

Started by `torchrun`, which tells each process its rank through the environment. Every process sees the same global
batches in the same order and takes its share of the rows; what is kept on disk is whole, so any number of processes may
go on from it.
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

PATIENCE = 600.0  # seconds that a process waits for the others before it says that one is lost


class Called(nn.Module):
    """A model whose forward is whatever is asked of it: the engines see to parameters and gradients around one forward,
    and a loss may need other ways into the model than its own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, asked: Callable[..., Any], *given: Any) -> Any:
        return asked(self.model, *given)


def replicated(model: nn.Module) -> nn.Module:
    """Every process holds all parameters, and gradients are averaged (DDP)."""
    # Buffers here are tables worked out on demand, as long as the batch needed: never the same on two processes.
    return DistributedDataParallel(Called(model), broadcast_buffers=False)


def sharded(model: nn.Module) -> nn.Module:
    """Every process holds its share of each parameter, gathered block by block when needed (FSDP2).

    All that is in no block is one group: embedding and unembedding may be one parameter, which two groups cannot share.
    """
    from torch.distributed.fsdp import fully_shard

    for module in model.modules():
        if isinstance(module, Arrangement):
            fully_shard(module)
    outermost = Called(model)
    fully_shard(outermost)
    return outermost


WRAPPINGS: dict[str, Callable[[nn.Module], nn.Module]] = {"ddp": replicated, "fsdp": sharded}


@dataclass(frozen=True)
class World:
    """This process among all that run together."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def leads(self) -> bool:
        """Whether this is the one process that writes and speaks."""
        return self.rank == 0

    @property
    def part(self) -> slice:
        """The rows of a global batch that this process takes; with few rows it may take none."""
        return slice(self.rank, None, self.size)

    def wrapped(self, model: nn.Module, sharding: str) -> nn.Module:
        """The model in the engine that keeps the processes together; call it by `forward`."""
        if self.size == 1:
            return Called(model)
        if sharding not in WRAPPINGS:
            raise Misfit(
                f"{self.size} processes train together by {' or '.join(WRAPPINGS)}, but sharding is {sharding!r};"
                " give one of these, or start one process alone"
            )
        return WRAPPINGS[sharding](model)

    def forward(self, wrapped: nn.Module, asked: Callable[..., Any], *given: Any) -> Any:
        """`asked(model, *given)`, with gradients that reach all processes.

        They are the mean over the processes: multiply a loss by `size` to have their sum.
        """
        return wrapped(asked, *given)

    @contextmanager
    def quiet(self, wrapped: nn.Module, wanted: bool = True) -> Iterator[None]:
        """Gradients of this block stay where they are, to be added up with those of the next."""
        for group in groups(wrapped)[:1]:
            group.set_requires_gradient_sync(not wanted)
        with wrapped.no_sync() if wanted and isinstance(wrapped, DistributedDataParallel) else nullcontext():
            yield

    @contextmanager
    def whole(self, wrapped: nn.Module) -> Iterator[None]:
        """Inside, the model itself may be used in any way, without its engine: for judging and for saving it."""
        held = groups(wrapped)
        with torch.no_grad():
            wrapped(nothing)  # an engine gets ready in its first forward, which must be that of the outermost part
        for group in held:
            group.unshard()
            group.set_reshard_after_forward(False, recurse=False)
        try:
            yield
        finally:
            for group in held:
                # What the outermost holds is needed at once in backward.
                group.set_reshard_after_forward(group is not wrapped, recurse=False)
                group.reshard()

    def summed(self, number: float | int) -> float:
        """A number added up over all processes."""
        return float(self.reduced(number, dist.ReduceOp.SUM))

    def any(self, flag: bool) -> bool:
        """Whether it is so on any process; all get the same answer, so that all stop or none."""
        return bool(self.reduced(float(flag), dist.ReduceOp.MAX))

    def agreed(self, number: float | int) -> float:
        """The number of the process that leads."""
        return self.summed(number if self.leads else 0.0)

    def reduced(self, number: float | int, how: Any) -> Tensor:
        told = torch.tensor(number, dtype=torch.float64, device=self.device)
        if self.size > 1:
            with complaining("adding up"):
                dist.all_reduce(told, how)
        return told

    def wait(self, where: str, seconds: float | int = PATIENCE) -> None:
        """Go on when all processes are here."""
        if self.size == 1:
            return
        with complaining(where):
            if self.device.type == "cpu":
                dist.monitored_barrier(timeout=timedelta(seconds=seconds), wait_all_ranks=True)
            else:
                dist.barrier(device_ids=[self.device.index])

    def full(self, tensor: Tensor) -> Tensor:
        """All of a tensor of which this process may hold a share; every process must ask."""
        share = as_share(tensor)
        return tensor if share is None else share.full_tensor()

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors in the memory of the process that leads, nothing on the others; every process must ask."""
        found = {}
        for name, tensor in tensors.items():
            whole = self.full(tensor.detach())
            if self.leads:
                found[name] = whole.cpu()
        return found


def nothing(model: nn.Module) -> None:
    """What is asked of a model when only its engine is meant."""


def groups(wrapped: nn.Module) -> list[Any]:
    """The parts of a wrapped model that FSDP2 looks after, the outermost first; none without it."""
    if not dist.is_initialized():
        return []
    from torch.distributed.fsdp import FSDPModule  # a second of import that a process alone need not wait for

    return [module for module in wrapped.modules() if isinstance(module, FSDPModule)]


def as_share(tensor: Tensor) -> Any:
    """The tensor as PyTorch's DTensor if other processes hold parts of it, or else None."""
    if not dist.is_initialized():
        return None
    from torch.distributed.tensor import DTensor

    return tensor if isinstance(tensor, DTensor) else None


def shared_like(whole: Tensor, held: Tensor) -> Tensor:
    """This process's share of a whole tensor, if that is how `held` is held; every process has the whole one."""
    share = as_share(held)
    if share is None:
        return whole.to(held.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.to(held.device), share.device_mesh, share.placements, src_data_rank=None)


@contextmanager
def complaining(where: str) -> Iterator[None]:
    """A process that is lost as a Misfit."""
    try:
        yield
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Misfit(
            f"all processes of this run should meet at {where!r}, but one did not come ({first});"
            " see what the others printed, then run the same command again"
        ) from error


@contextmanager
def joined(device: str = "cpu", seconds: float | int = PATIENCE) -> Iterator[World]:
    """The world that `torchrun` tells of, for as long as the block; without it, this process alone."""
    rank, size, local = told(os.environ)
    own = torch.device(device, local) if device == "cuda" else torch.device(device)
    if size == 1:
        yield World(device=own)
        return
    if own.type == "cuda":
        torch.cuda.set_device(own)
    with complaining("the start"):
        dist.init_process_group(
            "nccl" if own.type == "cuda" else "gloo", rank=rank, world_size=size, timeout=timedelta(seconds=seconds)
        )
    try:
        yield World(rank, size, own)
    finally:
        dist.destroy_process_group()


def told(environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Rank, number of processes, and rank on this machine, as `torchrun` sets them."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    given = [environment.get(name, "") for name in names]
    if not any(given):
        return 0, 1, 0
    spelled = ", ".join(f"{name}={value or 'nothing'}" for name, value in zip(names, given, strict=True))
    way_out = "start with torchrun, or unset them to run alone"
    if not all(value.isdecimal() for value in given):
        raise Misfit(f"RANK, WORLD_SIZE and LOCAL_RANK must be whole numbers, but got {spelled}; {way_out}")
    rank, size, local = map(int, given)
    if not local <= rank < size:
        raise Misfit(f"LOCAL_RANK ≤ RANK < WORLD_SIZE must hold, but got {spelled}; {way_out}")
    return rank, size, local
