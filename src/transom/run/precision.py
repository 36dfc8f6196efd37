"""The dtype of matrix products in training: autocast, and for float16 a scale that keeps small gradients alive."""

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from transom.names import Misfit
from transom.run.processor import BFLOAT16_FLAGS, has_bfloat16

AUTO = "auto"
PRECISIONS = ("float32", "bfloat16", "float16", AUTO)
EMULATED = "7 to 12 times"  # as long as a step in float32: `python -m bench.precision` on a processor with AVX2 alone
Measured = tuple[float, float]  # loss, and norm of the gradient
LEAST_SCALE = 2.0**-14  # below, it is not the scale that makes gradients overflow


class Precision:
    """Products in a narrower dtype; parameters, loss and optimizer stay in float32.

    float16 has numbers from 6e-8 to 65,504 only. The loss is multiplied by a scale before the way back, and the
    gradients are divided by it again; a gradient that overflows halves it, many good ones double it (Micikevicius et
    al. 2018, section 3.2). The scale is PyTorch's GradScaler.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        name = resolve_precision(name, device)
        check(name, device)
        self.name, self.device = name, device
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "float16")  # pyright: ignore[reportPrivateImportUsage]

    def lowered(self) -> AbstractContextManager[object]:
        """The products of this block are in the dtype."""
        if self.name == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    def backward(self, loss: Tensor) -> None:
        self.scaler.scale(loss).backward()

    def measured(self, optimizer: Optimizer, gradients: Callable[[], float], norm: Callable[[], float]) -> Measured:
        """Loss and gradient norm; while the gradients overflow by the scale's fault, all again with half of it.

        So an update is never left out, and a run with a lower scale from the start would have gone the same way.
        """
        while True:
            loss = gradients()
            self.scaler.unscale_(optimizer)
            found = norm()
            if math.isfinite(found) or not math.isfinite(loss) or not self.lower():
                return loss, found
            optimizer.zero_grad(set_to_none=True)

    def lower(self) -> bool:
        """Whether the scale could be lowered after an overflow."""
        if not self.scaler.is_enabled() or self.scaler.get_scale() <= LEAST_SCALE:
            return False
        self.scaler.update()
        return True

    def settle(self) -> None:
        """After an update: many good ones raise the scale."""
        self.scaler.update()

    def state(self) -> dict[str, Any]:
        """The scale and how long it has been good, for a checkpoint; empty without one."""
        return self.scaler.state_dict()

    def put_back(self, state: dict[str, Any]) -> None:
        if state:
            self.scaler.load_state_dict(state)


def resolve_precision(name: str, device: torch.device) -> str:
    """The precision that "auto" means on a device: bfloat16 where it has that arithmetic, elsewhere float32."""
    if name != AUTO:
        return name
    has = {"cpu": has_bfloat16, "cuda": torch.cuda.is_bf16_supported}.get(device.type, lambda: False)
    return "bfloat16" if has() else "float32"


def describe_emulation(name: str, device: torch.device) -> str | None:
    """The warning that a run will be slow, where a processor has to emulate the precision it was asked for."""
    if name != "bfloat16" or device.type != "cpu" or has_bfloat16():
        return None
    return (
        f"warning: train.precision = 'bfloat16' needs a processor with its arithmetic to be quick, but this one has no"
        f" {', '.join(BFLOAT16_FLAGS)}: a step may take {EMULATED} as long as in float32;"
        " train.precision = 'auto' chooses float32 here, in a new folder"
    )


def check(name: str, device: torch.device) -> None:
    """Complain, before a run begins, if the device cannot do it: tried, not guessed."""
    name = resolve_precision(name, device)
    if name == "float32":
        return
    dtype = getattr(torch, name)
    try:
        with warnings.catch_warnings(), torch.autocast(device.type, dtype=dtype):
            warnings.simplefilter("error")  # where a dtype is not there, autocast warns and goes on without
            x = torch.ones(2, 3, device=device, requires_grad=True)
            found = x @ x.mT
            found.sum().backward()
        reason = None if found.dtype == dtype else f"its products come out in {found.dtype}"
    except (RuntimeError, UserWarning) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    if reason is not None:
        raise Misfit(
            f"train.precision = {name!r} needs a device that multiplies in {name}, but {device.type} does not"
            f" ({reason}); use another precision, float32 is everywhere"
        )
