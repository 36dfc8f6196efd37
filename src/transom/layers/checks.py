"""What the layers take, and what they say when something else comes."""

import torch
from torch import Tensor

from transom.names import Misfit, spelled


def check_sizes(**sizes: int) -> None:
    """Every size is 1 or more."""
    for word, size in sizes.items():
        if size < 1:
            raise Misfit(f"{word} must be 1 or more, but got {size}; give a positive whole number")


def check_dropout(dropout: float) -> None:
    if not 0.0 <= dropout < 1.0:
        raise Misfit(f"dropout must be at least 0 and below 1, but got {dropout}; 0.1 drops a tenth")


def divided(whole: int, by: int, words: tuple[str, str], otherwise: str = "") -> int:
    """whole / by, which must come out even; `words` name the two, `otherwise` is a further way out."""
    if whole % by:
        nearest = min((size for size in range(1, whole + 1) if whole % size == 0), key=lambda size: abs(size - by))
        raise Misfit(f"{words[0]}={whole} does not divide into {words[1]}={by}; try {words[1]}={nearest}{otherwise}")
    return whole // by


def check_vectors(what: str, x: Tensor, width: int, parameter: Tensor, name: str = "x", axis: str = "token") -> None:
    """x is (batch, token, d_model), of the width, dtype and device that a layer's parameters have."""
    axes = f"batch {axis} d_model"
    if x.dim() != 3:
        raise Misfit(
            f"{what} takes {name} as ({axes.replace(' ', ', ')}), but it is {spelled(x, axes)};"
            f" a single sequence goes in as {name}[None]"
        )
    if not x.is_floating_point():
        raise Misfit(f"{what} takes {name} as vectors, but it is {x.dtype}; embed the tokens first")
    if x.shape[2] != width:
        raise Misfit(
            f"{what} was built for d_model={width}, but {name} is {spelled(x, axes)};"
            f" give vectors of that width, or build it for d_model={x.shape[2]}"
        )
    if x.device != parameter.device:
        raise Misfit(
            f"{what} has its parameters on {parameter.device}, but {name} is on {x.device};"
            f" move it with .to({str(parameter.device)!r})"
        )
    # Under autocast PyTorch converts both by itself.
    if x.dtype != parameter.dtype and not torch.is_autocast_enabled(x.device.type):
        raise Misfit(
            f"{what} has {parameter.dtype} parameters, but {name} is {x.dtype}; convert it with .to({parameter.dtype})"
        )


def looked_up(table: Tensor, ids: Tensor, complaint: str, padding: int | None = None) -> Tensor:
    """table[ids]; an id beyond the table is a Misfit that says `complaint`, and `padding` sends no gradient back.

    The check is PyTorch's own: on the CPU it refuses such an id before reading, so a good lookup pays nothing extra.
    Other devices check on their own side and stop there; asking them first would wait for the device at every step.
    """
    try:
        return torch.nn.functional.embedding(ids, table, padding)
    except IndexError as error:
        raise Misfit(complaint.format(lowest=int(ids.min()), highest=int(ids.max()))) from error
