"""Watching a model: each attention it runs, kept for looking, while the model runs its own with its own bits."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Literal

import torch
from torch import nn

from transom.lens.glance import Glance
from transom.lens.grids import found_grid
from transom.lens.hearing.copies import Copies
from transom.lens.hearing.eager import looks_like_attention
from transom.lens.hearing.ear import EAR
from transom.lens.hearing.heard import Heard
from transom.lens.hearing.interception import listening
from transom.lens.labels import whole
from transom.lens.sight import Sight
from transom.lens.trace import Trace, nearest, some
from transom.names import Misfit

KEEPS = ("qkv", "statistics")
WHOLE_MODEL, NO_MODULE = "(model)", "(no module)"  # names where there is no path
Layers = Sequence[str | int] | str | int | None


class ModelWatcher:
    """Hears every attention, and keeps those of one model's wanted layers in a trace."""

    def __init__(
        self, model: nn.Module, trace: Trace, layers: list[str | int] | None, keep: str, copies: Copies
    ) -> None:
        self.paths: dict[object, str] = {module: name for name, module in model.named_modules()}
        self.trace, self.layers, self.keep, self.copies = trace, layers, keep, copies
        self.ran: list[str] = []
        self.unread: list[str] = []
        self.foreign = 0

    def hear(self, one: Heard | None, modules: list[nn.Module], order: int) -> None:
        name = self.place(modules, order)
        if name is None:
            self.foreign += 1
            return
        self.ran.append(name)
        if self.layers is not None and not any(covers(layer, name) for layer in self.layers):
            return
        if one is None:
            self.unread.append(name)
        else:
            self.trace.add(name, self.kept(one, name))

    def kept(self, one: Heard, name: str) -> Sight:
        if self.keep == "statistics":
            sight = Sight(one.problem, one.output, one.lse, one.joined, one.unproved, one.zeroed)
            return Glance(sight, self.copies.device)
        one, stretch = self.copies.heard(one, name)
        sight = Sight(one.problem, one.output, one.lse, one.joined, one.unproved, one.zeroed)
        sight.stretch = stretch
        return sight

    def place(self, modules: list[nn.Module], order: int) -> str | None:
        """The path of the innermost module that is the model's; None inside other models alone."""
        for module in reversed(modules):
            path = self.paths.get(module, self.paths.get(getattr(module, "_orig_mod", None)))
            if path is not None:
                return ".".join(part for part in (path, unnamed_part(module, order)) if part) or WHOLE_MODEL
        return None if modules else NO_MODULE


def unnamed_part(module: nn.Module, order: int) -> str:
    """What a name needs behind the path of a module that runs its parts without going through them."""
    if isinstance(module, nn.TransformerEncoderLayer):
        return "self_attn"
    # Compiled code calls no modules: its attentions go by their order.
    return f"compiled[{order}]" if hasattr(module, "_orig_mod") else ""


def covers(layer: str | int, name: str) -> bool:
    """Whether a layer asked for is that of a name: a number in its path, the path or its beginning, or a pattern."""
    if isinstance(layer, int):
        return str(layer) in name.split(".")
    return name == layer or name.startswith(f"{layer}.") or fnmatchcase(name, layer)


@contextmanager
def watch(
    model: nn.Module,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    layers: Layers = None,
    keep: Literal["qkv", "statistics"] = "qkv",
    device: torch.device | str | None = None,
    targets: Sequence[str] | Sequence[Sequence[str]] | None = None,
    grid: tuple[int, int] | None = None,
) -> Iterator[Trace]:
    """While the block runs, keep each attention of the model for looking; the model's numbers stay as they are.

    tokens   the words of the sequence, or of each of the batch, for labels
    layers   only these: numbers (3 is any path with a part "3"), paths, beginnings of paths, or patterns with *
    keep     "qkv" for Q, K, V, output and log-sum-exp, or "statistics" for a few numbers per row and key
    device   where to keep it; by default where it is
    targets  the words that the decoder of an encoder–decoder reads
    grid     rows and columns of an image's patches, where the model's config does not tell them
    """
    if not isinstance(model, nn.Module):
        raise Misfit(f"watch takes a torch.nn.Module, but got {type(model).__name__}; give the model itself")
    if keep not in KEEPS:
        raise Misfit(f"keep must be one of {', '.join(KEEPS)}, but got {keep!r}; qkv keeps all that weights need")
    trace = Trace(tokens, targets)
    asked = [layers] if isinstance(layers, str | int) else layers if layers is None else list(layers)
    copies = Copies(None if device is None else torch.device(device))
    watcher = ModelWatcher(model, trace, asked, keep, copies)
    with listening(watcher):
        yield trace
        passed = dict(EAR.passed)
    check_passed(watcher, passed)
    check_seen(model, watcher)
    check_layers(watcher)
    check_read(watcher)
    lay_out(trace, model, grid)


def lay_out(trace: Trace, model: nn.Module, given: tuple[int, int] | None) -> None:
    """Give the trace the grid of its image, and its patches as words where all of it looks at them."""
    keys = [(name, whole(sight)[3]) for name, sight in trace.items()]
    trace.grid = grid = found_grid(model, keys, given)
    if grid is not None and trace.tokens is None and all(grid.covers(*one) for one in keys):
        trace.tokens = [grid.labels()] * whole(trace[0])[0]


def check_passed(watcher: ModelWatcher, passed: dict[nn.Module, tuple[int, ...]]) -> None:
    """Complain about a softmax that has the sizes of an attention, in a module that is not named after one."""
    keys = {whole(sight)[3] for sight in watcher.trace}
    for module, sizes in passed.items():
        name = watcher.paths.get(module)
        if name is None or len(sizes) != 4 or not (sizes[2] > 1 and (sizes[2] == sizes[3] or sizes[3] in keys)):
            continue
        if watcher.layers is None or any(covers(layer, name) for layer in watcher.layers):
            raise Misfit(
                f"a softmax over {sizes} ran in {name or WHOLE_MODEL!r}, which may be attention but is not named after"
                f" it; name its class so that attention is in it, as in {type(module).__name__}Attention, or leave it"
                " out with layers=…"
            )


def check_seen(model: nn.Module, watcher: ModelWatcher) -> None:
    """Complain if nothing was seen at all."""
    if watcher.ran:
        return
    like = [name or WHOLE_MODEL for name, module in model.named_modules() if looks_like_attention(module)]
    what = f"{some(like)} look like attention" if like else "none of its modules looks like attention"
    if watcher.foreign:
        what += f"; {watcher.foreign} attentions ran in modules that are not part of it"
    raise Misfit(
        f"no attention of {type(model).__name__} was seen: {what}; run it inside the block and in its thread, with"
        ' attention that PyTorch computes (for Hugging Face models attn_implementation="sdpa")'
    )


def check_layers(watcher: ModelWatcher) -> None:
    """Complain about a layer that was asked for and never ran."""
    ran = list(dict.fromkeys(watcher.ran))
    for layer in watcher.layers or ():
        if not any(covers(layer, name) for name in ran):
            raise Misfit(f"layer {layer!r} was to be watched, but no attention ran in it; {nearest(str(layer), ran)}")


def check_read(watcher: ModelWatcher) -> None:
    """Complain about attention in a form of its own."""
    if watcher.unread:
        names = list(dict.fromkeys(watcher.unread))
        raise Misfit(
            f"attention ran in {some(names)} in a form that cannot be read, as its weights are not queries by keys for"
            " each head; watch other modules with layers=…"
        )
