"""Checks of the layers' sizes and inputs."""

import torch
from torch import Tensor

from transom.names import Misfit, format_shape


def check_positive(**sizes: int) -> None:
    """Every size is 1 or more."""
    for name, size in sizes.items():
        if size < 1:
            raise Misfit(f"{name} must be 1 or more, but got {size}; give a positive whole number")


def check_share(name: str, share: object) -> None:
    """The share of dropped numbers is a number from 0 to below 1."""
    if isinstance(share, bool) or not isinstance(share, float | int) or not 0.0 <= share < 1.0:
        raise Misfit(f"{name} must be at least 0 and below 1, but got {share!r}; 0.1 drops a tenth")


def check_padding(padding: object, vocabulary: int) -> None:
    """The padding token is None or a token of the vocabulary."""
    if padding is not None and (type(padding) is not int or not 0 <= padding < vocabulary):
        raise Misfit(f"padding must be a token from 0 to {vocabulary - 1}, but got {padding!r}; None means no padding")


def divide_evenly(size: int, by: int, names: tuple[str, str], way_out: str = "") -> int:
    """size / by, which must be a whole number; `names` are those of the two, `way_out` is added to the error."""
    if size % by:
        divisors = (divisor for divisor in range(1, size + 1) if size % divisor == 0)
        nearest = min(divisors, key=lambda divisor: abs(divisor - by))
        raise Misfit(f"{names[0]}={size} does not divide into {names[1]}={by}; try {names[1]}={nearest}{way_out}")
    return size // by


def check_vectors(layer: str, x: Tensor, width: int, parameter: Tensor, name: str = "x", axis: str = "token") -> None:
    """x is (batch, token, d_model), of the width, dtype and device of a layer's parameters."""
    axes = f"batch {axis} d_model"
    if x.dim() != 3:
        raise Misfit(
            f"{layer} takes {name} as ({axes.replace(' ', ', ')}), but it is {format_shape(x, axes)};"
            f" a single sequence goes in as {name}[None]"
        )
    if not x.is_floating_point():
        raise Misfit(f"{layer} takes {name} as vectors, but it is {x.dtype}; embed the tokens first")
    if x.shape[2] != width:
        raise Misfit(
            f"{layer} was built for d_model={width}, but {name} is {format_shape(x, axes)};"
            f" give vectors of that width, or build it for d_model={x.shape[2]}"
        )
    if x.device != parameter.device:
        raise Misfit(
            f"{layer} has its parameters on {parameter.device}, but {name} is on {x.device};"
            f" move it with .to({str(parameter.device)!r})"
        )
    # Under autocast PyTorch converts both by itself.
    if x.dtype != parameter.dtype and not torch.is_autocast_enabled(x.device.type):
        raise Misfit(
            f"{layer} has {parameter.dtype} parameters, but {name} is {x.dtype}; convert it with .to({parameter.dtype})"
        )


def lookup(table: Tensor, ids: Tensor, message: str, padding: int | None = None) -> Tensor:
    """table[ids]; an id outside the table raises a Misfit with this message, and `padding` gets no gradient.

    The check is PyTorch's own: on the CPU it refuses such an id before reading, so a good lookup pays nothing extra.
    Other devices check it themselves; checking first would wait for the device at every step.
    """
    try:
        return torch.nn.functional.embedding(ids, table, padding)
    except IndexError as error:
        raise Misfit(message.format(lowest=int(ids.min()), highest=int(ids.max()))) from error
