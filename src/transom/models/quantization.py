"""Matrices in a file as int8: each row, one output channel, is whole numbers from −127 to 127 times its own scale.

The computation is in float32 or bfloat16 as before; int8 is how parameters are kept on disk, in a quarter of the room.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from transom.models.safetensors_files import SCALE, TensorInfo, load_tensors
from transom.names import Misfit

LARGEST = 127
Infos = Mapping[str, TensorInfo]


def quantize_rows(
    matrix: Float[Tensor, "d_out any"],
) -> tuple[Int8[Tensor, "d_out any"], Float[Tensor, " d_out"]]:
    """The nearest whole multiples of each row's scale, which is its largest magnitude over 127."""
    matrix = matrix.float()
    scale = matrix.abs().amax(dim=1) / LARGEST
    steps = torch.where(scale > 0, scale, 1.0)  # a row of zeros stays one
    return (matrix / steps[:, None]).round().clamp(-LARGEST, LARGEST).to(torch.int8), scale


def dequantize_rows(numbers: Int8[Tensor, "d_out any"], scale: Float[Tensor, " d_out"]) -> Float[Tensor, "d_out any"]:
    return numbers.float() * scale[:, None]


def quantize_parameters(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file: matrices as int8 with their scales; vectors, which are few numbers, in float32."""
    tensors: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        if parameter.ndim == 2 and parameter.numel():
            if not bool(parameter.isfinite().all()):
                raise Misfit(f"int8 holds finite numbers, but {name!r} has others; save it in float32 to look at it")
            tensors[name], tensors[name + SCALE] = quantize_rows(parameter)
        else:
            tensors[name] = parameter.float()
    return tensors


def find_scales(path: Path | str, infos: Infos, shapes: Mapping[str, torch.Size]) -> set[str]:
    """The names of the scales, after a check that each int8 matrix, and nothing else, has them."""
    names = {name for name in infos if name.endswith(SCALE) and name not in shapes}
    for name in sorted({name for name, info in infos.items() if info.dtype == "I8"}):
        scale = infos.get(name + SCALE)
        expected = tuple(shapes.get(name, ()))[:1]
        if scale is None or scale.dtype != "F32" or scale.shape != expected or len(infos[name].shape) != 2:
            raise Misfit(
                f"{path} holds {name!r} in int8, so {name + SCALE!r} should have one float32 number for each row of a"
                " matrix, but it does not; take another copy"
            )
    for name in sorted(names):
        base = infos.get(name.removesuffix(SCALE))
        if base is None or base.dtype != "I8":
            raise Misfit(f"{path} holds {name!r}, but no int8 matrix that it belongs to; take another copy")
    return names


def load_dequantized(path: Path, name: str, numbers: Int8[Tensor, "d_out any"]) -> Float[Tensor, "d_out any"]:
    """An int8 matrix of a file times its scales, which must be finite and not negative."""
    ((_, scale),) = load_tensors(path, [name + SCALE])
    if not bool((scale.isfinite() & (scale >= 0)).all()):
        raise Misfit(f"{path} holds {name!r} with a scale that is negative or not finite; take another copy")
    return dequantize_rows(numbers, scale)
