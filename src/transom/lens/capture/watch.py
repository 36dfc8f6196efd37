"""`watch`: keep each attention that a model runs; the model's output stays bit-identical."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from transom.equations.masks import Causal
from transom.kernels import Problem
from transom.lens.attention.kv_history import KVHistory, KVSlice
from transom.lens.attention.labels import find_patch_grid, find_vision_config
from transom.lens.attention.sight import Sight, StatsOnlySight
from transom.lens.capture.call_state import CAPTURE, AttentionListener, outside_model
from transom.lens.capture.captured_attention import CapturedAttention, Unreadable
from transom.lens.capture.dispatch_hooks import listen
from transom.lens.capture.eager_attention import looks_like_attention
from transom.lens.capture.evidence import WHOLE_MODEL, find_unseen, report_unseen
from transom.lens.capture.token_ids import read_tokens
from transom.lens.capture.torch_attention import FunctionCall
from transom.lens.trace import Trace, layer_matches, list_some, suggest_names
from transom.lens.unseen_attention import UnseenAttention
from transom.names import Misfit

KEEPS = ("qkv", "statistics")
UNSEEN = ("raise", "warn", "allow")
MASKS_COMPARED = 4  # of the masks kept so far, the last few may equal the next one
NO_MODULE = "(no module)"  # the name of an attention that has no path
Layers = Sequence[str | int] | str | int | None
Part = TypeVar("Part")


class AttentionNames:
    """The names of a model's attentions, and which of them ran."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.paths: dict[nn.Module, str] = {}
        self.add_paths(model, "", "")
        self.ran: list[str] = []
        self.foreign = 0  # attentions of other models

    def add_paths(self, module: nn.Module, path: str, prefix: str) -> None:
        """The path of a module and of all in it, as `named_modules` gives them, but quicker."""
        if module not in self.paths:
            self.paths[module] = path
            for name, child in module._modules.items():
                if child is not None:
                    self.add_paths(child, name := prefix + name, name + ".")

    def attention_name(self, modules: list[nn.Module], order: int) -> str | None:
        """The path of the innermost module that is the model's; None if the attention is another model's."""
        for module in reversed(modules):
            path = self.paths.get(module)
            if path is None and "_orig_mod" in module._modules:
                path = self.paths.get(module._modules["_orig_mod"])  # pyright: ignore[reportArgumentType]
            if path is not None:
                suffix = implied_suffix(module, order)
                return (f"{path}.{suffix}" if path and suffix else path or suffix) or WHOLE_MODEL
        return None if modules else NO_MODULE

    def record(self, modules: list[nn.Module], order: int) -> str | None:
        """The name of an attention that ran; None if it is another model's."""
        name = self.attention_name(modules, order)
        if name is None:
            self.foreign += 1
        else:
            self.ran.append(name)
        return name

    def check_any_ran(self) -> None:
        """Raise an error if no attention ran."""
        if self.ran:
            return
        similar = [name or WHOLE_MODEL for name, module in self.model.named_modules() if looks_like_attention(module)]
        clue = f"{list_some(similar)} look like attention" if similar else "none of its modules looks like attention"
        if self.foreign:
            clue += f"; {self.foreign} attentions ran in modules that are not part of it"
        raise Misfit(
            f"no attention of {type(self.model).__name__} was seen: {clue}; run it inside the block and in its thread,"
            ' with attention that PyTorch computes (for Hugging Face models attn_implementation="sdpa")'
        )


def implied_suffix(module: nn.Module, order: int) -> str:
    """What to append to the path of a module that runs its parts without calling them."""
    if isinstance(module, nn.TransformerEncoderLayer):
        return "self_attn"
    # Compiled code calls no modules, so its attentions are numbered.
    return f"compiled[{order}]" if "_orig_mod" in module._modules else ""


class TensorCopies:
    """Copies tensors to one device: a model may overwrite its own at once (residuals in place, caches).

    A mask that every layer repeats is stored once, and so are keys and values that a cache repeats at every step.
    """

    def __init__(self, device: torch.device | None) -> None:
        self.device = device
        self.masks: list[Tensor] = []
        self.histories: dict[str, KVHistory] = {}  # the latest keys and values under each name

    def copy(self, x: Tensor) -> Tensor:
        """A contiguous copy."""
        if type(x) is Tensor and (self.device is None or self.device == x.device):
            return x.clone(memory_format=torch.contiguous_format)
        return torch.empty(x.shape, dtype=x.dtype, device=self.device or x.device).copy_(x)

    def copy_mask(self, x: Tensor) -> Tensor:
        """A copy, or an equal one made before."""
        for mask in reversed(self.masks):
            if mask.shape == x.shape and mask.dtype == x.dtype and torch.equal(mask, x.to(mask.device)):
                return mask
        self.masks = [*self.masks[1 - MASKS_COMPARED :], self.copy(x)]
        return self.masks[-1]

    def copy_fields(self, part: Part) -> Part:
        """A mask or a bias, or a combination of them, with copies of its tensors."""
        if part is None or isinstance(part, Causal) or not is_dataclass(part) or isinstance(part, type):
            return part
        copies = {}
        for field in fields(part):
            value = getattr(part, field.name)
            copy = self.copy_mask(value) if isinstance(value, Tensor) else self.copy_fields(value)
            if copy is not value:
                copies[field.name] = copy
        return replace(part, **copies) if copies else part

    def copy_problem(self, problem: Problem, name: str) -> tuple[Problem, KVSlice]:
        """A copy of the problem under that name; of keys and values seen before, only the new ones are copied."""
        mask, bias, Q = self.copy_fields(problem.mask), self.copy_fields(problem.bias), self.copy(problem.Q)
        history, numbers = self.histories.get(name), (problem.scale, problem.softcap, problem.dropout, problem.seed)
        if history is not None:
            first = history.match_step(problem)
            if first is not None:
                kv_slice = history.slice_for(replace(problem, mask=mask, bias=bias), first)
                return Problem(Q, kv_slice.K, kv_slice.V, mask, bias, *numbers), kv_slice
        problem = Problem(Q, self.copy(problem.K), self.copy(problem.V), mask, bias, *numbers)
        self.histories[name] = history = KVHistory(problem.K, problem.V)
        return problem, history.slice_for(problem, 0)

    def copy_sight(self, captured: CapturedAttention, name: str) -> Sight:
        """A Sight of copies of what was captured under that name; it knows which keys of its history it used."""
        problem, kv_slice = self.copy_problem(captured.problem, name)
        output = None if captured.output is None else self.copy(captured.output)
        lse = None if captured.lse is None else self.copy(captured.lse)
        joined = self.copy_fields(captured.joined_output)
        sight = Sight(problem, output, lse, joined, captured.unproved, captured.weight_mask)
        sight.kv_slice = kv_slice
        return sight


def make_sight(call: FunctionCall, name: str, histories: dict[str, KVHistory]) -> Sight:
    """The Sight of a call whose tensors are copies already; its keys and values begin the history of that name."""
    with outside_model():
        captured = call.to_captured()
    problem = captured.problem
    histories[name] = history = KVHistory(problem.K, problem.V)
    sight = Sight(problem, captured.output, captured.lse, unproved=captured.unproved)
    sight.kv_slice = history.slice_for(problem, 0)
    return sight


class ModelCapture(AttentionListener):
    """Listens to every attention, and keeps those of the wanted layers of one model in a trace."""

    def __init__(
        self, model: nn.Module, trace: Trace, layers: list[str | int] | None, keep: str, copies: TensorCopies
    ) -> None:
        self.names = AttentionNames(model)
        self.trace, self.layers, self.keep, self.copies = trace, layers, keep, copies
        self.unread: dict[str, tuple[str, str]] = {}  # attentions that could not be read: their class, and why
        self.called: set[str] = set()  # attentions that ran before
        self.runs_before = CAPTURE.runs
        self.lock = threading.Lock()  # threads that the model starts report here too

    def wants(self, name: str) -> bool:
        return self.layers is None or any(layer_matches(layer, name) for layer in self.layers)

    def on_attention(self, captured: CapturedAttention | Unreadable, modules: list[nn.Module], order: int) -> None:
        with self.lock:
            name = self.names.record(modules, order)
            if name is not None and self.wants(name):
                self.keep_attention(name, captured, modules)

    def on_call(self, call: FunctionCall, modules: list[nn.Module], order: int) -> None:
        """Only copy the tensors of a first plain call, as the model may overwrite them; the rest can wait."""
        with self.lock:
            name = self.names.record(modules, order)
            if name is None or not self.wants(name):
                return
            if name in self.called or self.keep != "qkv" or not call.is_plain:
                self.keep_attention(name, call.to_captured(), modules)
            else:
                make = partial(make_sight, call.copy(self.copies.copy), name, self.copies.histories)
                self.trace.add_later(name, make)
                self.called.add(name)

    def keep_attention(self, name: str, captured: CapturedAttention | Unreadable, modules: list[nn.Module]) -> None:
        self.trace.make_waiting()
        self.called.add(name)
        if isinstance(captured, Unreadable):
            self.unread[name] = (type(modules[-1]).__name__ if modules else "", captured.reason)
        elif self.keep == "statistics":
            self.trace.add(name, StatsOnlySight(captured.to_sight(), self.copies.device))
        else:
            self.trace.add(name, self.copies.copy_sight(captured, name))

    def find_unseen(self) -> list[UnseenAttention]:
        """The attention of the wanted layers that ran and was not captured."""
        unseen = find_unseen(self.names.paths, self.names.ran, self.runs_before, self.unread)
        return [one for one in unseen if self.wants(one.name)]

    def check_layers(self) -> None:
        """Raise an error for a layer that was named and never ran."""
        ran = list(dict.fromkeys([*self.names.ran, *(one.name for one in self.trace.unseen)]))
        for layer in self.layers or ():
            if not any(layer_matches(layer, name) for name in ran):
                raise Misfit(
                    f"layer {layer!r} was to be watched, but no attention ran in it; {suggest_names(str(layer), ran)}"
                )


@contextmanager
def watch(
    model: nn.Module,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    layers: Layers = None,
    keep: Literal["qkv", "statistics"] = "qkv",
    device: torch.device | str | None = None,
    targets: Sequence[str] | Sequence[Sequence[str]] | None = None,
    grid: tuple[int, int] | None = None,
    unseen: Literal["raise", "warn", "allow"] = "raise",
    tokenizer: Any = None,
) -> Iterator[Trace]:
    """While the block runs, keep each attention of the model; its output stays bit-identical.

    tokens   the tokens of the sequence, or of each sequence of the batch, as text labels
    layers   only these: numbers (3 is any path with a part "3"), paths, beginnings of paths, or patterns with *
    keep     "qkv" for Q, K, V, output and log-sum-exp, or "statistics" for a few numbers per row and key
    device   the device for the kept tensors; by default they stay where they are
    targets  the tokens that the decoder of an encoder–decoder reads
    grid     rows and columns of an image's patches, if the model's config does not give them
    unseen   what to do if attention ran that could not be captured: "raise" an error, "warn", or "allow" it;
             `trace.unseen` lists it
    tokenizer  instead of tokens: it spells the input ids that the model is called with. Hugging Face's, Transom's, or
             one of the package tokenizers
    """
    check_is_model(model, "watch")
    if keep not in KEEPS:
        raise Misfit(f"keep must be one of {', '.join(KEEPS)}, but got {keep!r}; qkv keeps all that weights need")
    if unseen not in UNSEEN:
        raise Misfit(
            f"unseen must be one of {', '.join(UNSEEN)}, but got {unseen!r}; trace.unseen lists what is unseen"
        )
    trace = Trace(tokens, targets)
    if layers is not None:
        layers = [layers] if isinstance(layers, str | int) else list(layers)
    capture = ModelCapture(model, trace, layers, keep, TensorCopies(None if device is None else torch.device(device)))
    with read_tokens(model, trace, tokenizer), listen(capture):
        yield trace
        trace.unseen = capture.find_unseen()
    report_unseen(trace.unseen, unseen)
    if all(one.evidence == "weak" for one in trace.unseen):
        capture.names.check_any_ran()
    capture.check_layers()
    set_grid(trace, capture.names.paths, grid)


def check_is_model(model: object, caller: str) -> None:
    """Raise an error unless it is a PyTorch model."""
    if not isinstance(model, nn.Module):
        raise Misfit(f"{caller} takes a torch.nn.Module, but got {type(model).__name__}; give the model itself")


def set_grid(trace: Trace, paths: dict[nn.Module, str], grid: tuple[int, int] | None) -> None:
    """Give the trace the grid of its image, and patches as tokens if every attention is over all patches."""
    if grid is None and find_vision_config(paths)[1] is None:
        return  # without looking at the Sights, which are made when they are asked for
    key_counts = [(name, sight.shape[3]) for name, sight in trace.items()]
    trace.grid = patches = find_patch_grid(paths, key_counts, grid)
    if patches is not None and trace.tokens is None and all(patches.covers(*item) for item in key_counts):
        trace.tokens = [patches.labels()] * trace[0].shape[0]
