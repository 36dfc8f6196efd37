"""Finds attention that ran and was not captured: by its query, key and value projections, its softmax, or its class.

All of this is worked out when the block ends, from the modules that ran; while the model runs nothing is computed.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property

from torch import nn

from transom.lens.capture.call_state import CAPTURE, Leftover
from transom.lens.capture.compiled_graphs import GRAPHS
from transom.lens.capture.eager_attention import is_attention_class, looks_like_attention
from transom.lens.capture.hand_reports import report_rest
from transom.lens.capture.layer_kinds import has_projections, other_kind
from transom.lens.trace import Trace
from transom.lens.unseen_attention import UnseenAttention, group_by_reason
from transom.names import Misfit

WHOLE_MODEL = "(model)"  # the name of an attention that is the model itself
PROJECTIONS_RAN = "its query, key and value projections ran, but no attention was seen under it"
NAMED = "its class is named after attention, but no attention was seen under it"
COMPILED = "it is compiled: attention by hand in its code cannot be seen"
COMPILED_INSIDE = "a function was compiled for the first time while it was watched; watch it once more to see what ran"
WAY_OUT = (
    'compute it with F.scaled_dot_product_attention (for Hugging Face models attn_implementation="sdpa"), leave it out'
    ' with layers=…, or give unseen="allow" and read trace.unseen'
)


class UnseenAttentionFinder:
    """Compares the modules that ran with the attentions that were captured, under the names of one model."""

    def __init__(
        self, names: dict[nn.Module, str], ran: set[nn.Module], captured: list[str], unread: dict[str, tuple[str, str]]
    ) -> None:
        self.names, self.ran, self.captured = names, ran, captured
        self.found = {name: UnseenAttention(name, *why) for name, why in unread.items()}

    @cached_property
    def paths(self) -> dict[str, nn.Module]:
        """The modules that ran, by their names."""
        return {name: module for module, name in self.names.items() if module in self.ran}

    def add_leftovers(self, leftovers: Sequence[Leftover]) -> None:
        """Softmaxes that became part of no captured attention."""
        for leftover in leftovers:
            name = None if leftover.module is None else self.names.get(leftover.module)
            if name is None or self.is_other_kind(name):
                continue
            # A product without a softmax, beside an attention that was captured, is something else.
            if leftover.evidence == "strong" or leftover.beside or not self.is_captured(name):
                class_name = type(leftover.module).__name__
                self.found.setdefault(name, UnseenAttention(name, class_name, leftover.reason, leftover.evidence))

    def is_captured(self, name: str) -> bool:
        """Whether an attention was captured in that module or below it."""
        prefix = f"{name}." if name else ""
        return any(known == (name or WHOLE_MODEL) or known.startswith(prefix) for known in self.captured)

    def is_other_kind(self, name: str) -> bool:
        """Whether a module is, or is in, a layer that is known to be no softmax attention."""
        parts = name.split(".")
        outer = (self.paths.get(".".join(parts[:count])) for count in range(len(parts) + 1))
        return any(module is not None and other_kind(type(module).__name__) for module in outer)

    def find(self) -> list[UnseenAttention]:
        """The modules whose attention was not captured, the innermost where one contains another."""
        any_compiled = False
        for module, name in self.names.items():
            if is_compiled(module):
                any_compiled, unseen = True, self.judge_compiled(name, module)
            elif module not in self.ran or not (module._modules or is_telling_class(type(module))):
                continue
            else:
                unseen = self.judge(name, module)
            before = self.found.get(name)
            if unseen is not None and (before is None or (before.evidence, unseen.evidence) == ("weak", "strong")):
                self.found[name] = unseen
        if GRAPHS.compiled_inside() and not any_compiled and "" in self.paths:
            self.found.setdefault("", UnseenAttention("", type(self.paths[""]).__name__, COMPILED_INSIDE, "weak"))
        found = [one for one in self.found.values() if not self.has_inner(one)]
        return [replace(one, name=one.name or WHOLE_MODEL) for one in found]

    def has_inner(self, unseen: UnseenAttention) -> bool:
        """Whether a module inside it is unseen, and is as surely attention as it is."""
        prefix = f"{unseen.name}." if unseen.name else ""
        inner = [one for name, one in self.found.items() if name != unseen.name and name.startswith(prefix)]
        return any(one.evidence == "strong" or unseen.evidence != "strong" for one in inner)

    def judge(self, name: str, module: nn.Module) -> UnseenAttention | None:
        """What one module says of itself: its projections, or its class."""
        class_name = type(module).__name__
        kind = other_kind(class_name)
        projected = has_projections(module, self.ran)
        if (kind is None and not projected and not looks_like_attention(module)) or self.is_captured(name):
            return None
        if kind is not None:
            return UnseenAttention(name, class_name, f"{kind}: it has no attention weights", "other kind")
        if self.is_part_of_captured(name):
            return None
        if projected:
            return UnseenAttention(name, class_name, PROJECTIONS_RAN)
        return UnseenAttention(name, class_name, NAMED, "weak")

    def is_part_of_captured(self, name: str) -> bool:
        """Whether the attention of a module was captured in one around it: it only projects, or masks, or pools."""
        parts = name.split(".")
        outer = {".".join(parts[:count]) for count in range(1, len(parts))}
        return bool(outer & set(self.captured)) or (len(parts) == 1 and WHOLE_MODEL in self.captured)

    def judge_compiled(self, name: str, module: nn.Module) -> UnseenAttention:
        """Compiled code calls no modules: as many attentions should have been captured in it as it has modules."""
        inside = list(module.modules())
        expected = sum(has_projections(part, inside) for part in inside)
        prefix = f"{name}.compiled[" if name else "compiled["
        seen = len({known for known in self.captured if known.startswith(prefix)})
        original = type(getattr(module, "_orig_mod", module)).__name__
        if seen < expected and "_orig_mod" in module._modules:
            reason = (
                f"it is compiled, and {seen} attentions were seen in its code, but its projections are for {expected}"
            )
            return UnseenAttention(name, original, reason)
        return UnseenAttention(name, original, COMPILED, "weak")


@cache
def is_telling_class(kind: type[nn.Module]) -> bool:
    """Whether the name of a class says anything of attention, or of what does its work."""
    return is_attention_class(kind) or other_kind(kind.__name__) is not None


def is_compiled(module: nn.Module) -> bool:
    """Whether a module runs as compiled code."""
    return "_orig_mod" in module._modules or module._compiled_call_impl is not None


def find_unseen(
    names: dict[nn.Module, str], ran: Sequence[str], runs_before: int, unread: dict[str, tuple[str, str]]
) -> list[UnseenAttention]:
    """The attention of a model that ran in this thread and was not captured, when the block is about to end.

    names         the modules of the model
    ran           the names of its attentions that ran
    runs_before   how many modules had run when the block began
    unread        of those attentions the ones that could not be read: their class, and why
    """
    report_rest()
    modules = {module for module, number in CAPTURE.ran.items() if number > runs_before}
    finder = UnseenAttentionFinder(names, modules, [name for name in ran if name not in unread], unread)
    finder.add_leftovers([leftover for leftover in CAPTURE.leftovers if leftover.run > runs_before])
    return finder.find()


def report_unseen(unseen: Sequence[UnseenAttention], mode: str) -> None:
    """Raise an error or warn of what did attention's work unseen; warn once of layers of another kind."""
    strong = [one for one in unseen if one.evidence == "strong"]
    if strong and mode != "allow":
        message = f"attention ran that could not be captured: {group_by_reason(strong)}; {WAY_OUT}"
        if mode == "raise":
            raise Misfit(message)
        warnings.warn(message, stacklevel=4)
    others = [one for one in unseen if one.evidence == "other kind"]
    if others and mode != "allow":
        warnings.warn(f"not shown, as trace.unseen lists: {group_by_reason(others)}", stacklevel=4)


def require_attention(trace: Trace) -> Trace:
    """The trace itself, if anything was captured; otherwise an error that says what was not."""
    if not trace.entries:
        report_unseen(trace.unseen, "raise")
        raise Misfit(f"the model has no attention to show: {group_by_reason(trace.unseen)}; take another model")
    return trace
