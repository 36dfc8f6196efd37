"""The precision of a run: autocast, loss scaling, and whether the processor computes in bfloat16."""

import math
import re
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch.optim import Optimizer

from transom.names import Misfit

AUTO = "auto"
PRECISIONS = ("float32", "bfloat16", "float16", AUTO)
CPUINFO = Path("/proc/cpuinfo")  # Linux only
BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # Intel and AMD, Intel's tiles, ARM
EMULATED = "7 to 12 times"  # as long as a step in float32: `python -m bench.precision` on a processor with only AVX2
LEAST_SCALE = 2.0**-14  # below this, an overflow has another cause than the scale


def has_bfloat16(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor has bfloat16 arithmetic, by the flags of its first core; False if they cannot be read."""
    try:
        content = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = re.search(r"^(?:flags|Features)[ \t]*:(.*)$", content, re.MULTILINE)  # of an x86, of an ARM
    return flags is not None and not set(flags[1].split()).isdisjoint(BFLOAT16_FLAGS)


class Precision:
    """Matrix products in a narrower dtype; parameters, loss and optimizer stay in float32.

    float16 covers only 6e-8 to 65,504. So the loss is multiplied by a scale before the backward pass, and the gradients
    are divided by it; a gradient that overflows halves the scale, many good ones double it (Micikevicius et al. 2018,
    section 3.2). The scale is PyTorch's GradScaler.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        name = resolve_precision(name, device)
        check_device(name, device)
        self.name, self.device = name, device
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "float16")  # pyright: ignore[reportPrivateImportUsage]

    def autocast(self) -> AbstractContextManager[object]:
        """Inside this block matrix products are in the dtype."""
        if self.name == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    def retry_overflow(
        self, optimizer: Optimizer, compute_gradients: Callable[[], float], clip_gradients: Callable[[], float]
    ) -> tuple[float, float]:
        """Loss and gradient norm; gradients that overflow because of the scale are computed again with half of it.

        So no update is skipped, and a run with a lower scale from the start would be the same.
        """
        while True:
            loss = compute_gradients()
            self.scaler.unscale_(optimizer)
            norm = clip_gradients()
            can_lower = self.scaler.is_enabled() and self.scaler.get_scale() > LEAST_SCALE
            if math.isfinite(norm) or not math.isfinite(loss) or not can_lower:
                return loss, norm
            self.scaler.update()
            optimizer.zero_grad(set_to_none=True)


def resolve_precision(name: str, device: torch.device) -> str:
    """The precision that "auto" means on a device: bfloat16 if it has that arithmetic, otherwise float32."""
    if name != AUTO:
        return name
    is_supported = {"cpu": has_bfloat16, "cuda": torch.cuda.is_bf16_supported}.get(device.type, lambda: False)
    return "bfloat16" if is_supported() else "float32"


def describe_emulation(name: str, device: torch.device) -> str | None:
    """The warning that a run will be slow, if the processor has to emulate bfloat16."""
    if name != "bfloat16" or device.type != "cpu" or has_bfloat16():
        return None
    return (
        f"warning: train.precision = 'bfloat16' needs a processor with bfloat16 arithmetic to be fast, but this one has"
        f" no {', '.join(BFLOAT16_FLAGS)}: a step may take {EMULATED} as long as in float32;"
        " train.precision = 'auto' would choose float32 here, in a new folder"
    )


def check_device(name: str, device: torch.device) -> None:
    """Raise an error if the device cannot compute in a precision, which is tried on a small product."""
    name = resolve_precision(name, device)
    if name == "float32":
        return
    dtype = getattr(torch, name)
    try:
        with warnings.catch_warnings(), torch.autocast(device.type, dtype=dtype):
            warnings.simplefilter("error")  # autocast only warns about a missing dtype
            x = torch.ones(2, 3, device=device, requires_grad=True)
            product = x @ x.mT
            product.sum().backward()
        reason = None if product.dtype == dtype else f"its products come out in {product.dtype}"
    except (RuntimeError, UserWarning) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    if reason is not None:
        raise Misfit(
            f"train.precision = {name!r} needs a device that multiplies in {name}, but {device.type} does not"
            f" ({reason}); use another precision; float32 always works"
        )
