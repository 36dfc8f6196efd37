"""Reports attention by hand: when W_O takes its output, and when the module in which it ran ends."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from transom.lens.capture.call_state import CAPTURE, Leftover, is_concrete, outside_model
from transom.lens.capture.captured_attention import CapturedAttention, Unreadable
from transom.lens.capture.eager_attention import UNREAD, from_softmax, looks_like_attention
from transom.lens.capture.joined_pieces import (
    CUT_IN_PIECES,
    IN_BLOCKS,
    IN_PIECES,
    drop_rearranged,
    group_pieces,
    has_other_queries,
    join_proven,
)
from transom.lens.capture.layer_kinds import has_projections, other_kind, value_projections
from transom.lens.capture.segment_sums import judge_segment_sums
from transom.lens.capture.value_probe import first_tensor, probe_weights
from transom.lens.capture.weight_products import Normalisation, WeightedSum
from transom.lens.unseen_attention import Evidence

WEIGHTS_ALONE = ("its values were not seen", "strong")  # it is reported without them
NOT_MULTIPLIED = "its softmax is not multiplied with values as one matrix of queries by keys"


@dataclass(frozen=True, eq=False)
class EndedCall:
    """A module's forward has ended; after an exception there is no result."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: object


def note_consumer(module: nn.Module, x: object) -> None:
    """A module gets x; if that is the output of an attention by hand, it proves the order of its rows."""
    call, hand = CAPTURE.module_call, CAPTURE.hand
    if call is None or not isinstance(x, Tensor) or not is_concrete(x) or CAPTURE.attention is not None:
        return
    own = [one for one in hand.sums if one.modules and one.modules[-1] is call.module and not one.in_order]
    if not own:
        return
    with outside_model():
        joined = join_proven(own, x)
    hand.sums = [one for one in hand.sums if one not in own] + joined
    weight = getattr(module, "weight", None)
    is_last = isinstance(weight, Tensor) and weight.dim() == 2  # W_O: nothing more is to come
    if is_last and not strays(call.module):
        for one in joined:
            if one.in_order and not one.tentative and not one.refused:
                report_sum(one)


def report_ended(ended: EndedCall) -> None:
    """Report the attention by hand that ran in a module, now that it ends."""
    hand, module = CAPTURE.hand, ended.module
    if CAPTURE.attention is not None:
        return
    sums, named, stray = hand.take_sums(module), hand.take_named(module), strays(module)
    output = first_tensor(ended.result)
    named = [event for event in named if not note_gate(event, output)]
    if is_other_kind(CAPTURE.modules):
        hand.waiting = [event for event in hand.waiting if event not in stray]
        sums, named, stray = [], [], []
    if output is not None and is_concrete(output) and any(not one.in_order for one in sums):
        with outside_model():
            sums = join_proven(sums, output)
    groups = list(group_pieces(drop_rearranged(sums), has_other_queries))
    reason = why_incomplete(groups, named, stray)
    if reason:
        hand.waiting = [event for event in hand.waiting if event not in stray]
        hand.refused.append((CAPTURE.modules, reason))
    else:
        for group in groups:
            report_group(group)
        for event in named:
            CAPTURE.publish(partial(read_softmax, event), event.modules)
    if hand.refused:
        resolve_refused(ended)
    over_edges = judge_segment_sums(module, first_tensor(ended.args)) if hand.segment_sums else None
    if over_edges is not None and not is_other_kind(CAPTURE.modules):
        add_leftover(CAPTURE.modules, *over_edges, beside=True)
    if len(CAPTURE.module_calls) == 1:
        judge_leftovers()


def strays(module: nn.Module) -> list[Normalisation]:
    """Softmaxes of an attention module over scores, which no product took as weights."""
    events = [event for event in CAPTURE.hand.waiting if event.module is module and event.weights is None]
    in_attention = any(looks_like_attention(outer) for outer in CAPTURE.modules if outer is not module)
    # A part of an attention may pool by a softmax: that of a product is more.
    events = [event for event in events if event.of_product or (len(event.shape) >= 4 and not in_attention)]
    is_attention = events and (looks_like_attention(module) or has_projections(module, CAPTURE.ran.keys()))
    return events if is_attention else []


def note_gate(event: Normalisation, output: Tensor | None) -> bool:
    """Whether a softmax is the gate of its module, which is then listed: no product came before or after it, and it has
    the shape of the output, but is not the output."""
    if event.of_product or event.multiplied or output is None or output.shape != event.shape:
        return False
    with outside_model():
        if event.weights is None or not is_concrete(output) or torch.equal(event.weights, output):
            return False
    add_leftover(event.modules, f"a softmax over {event.shape} ran in it, and scaled its output", "weak")
    return True


def is_other_kind(modules: list[nn.Module]) -> bool:
    return any(other_kind(type(module).__name__) for module in modules)


def why_incomplete(groups: list[list[WeightedSum]], named: list[Normalisation], stray: list[Normalisation]) -> str:
    """Why what was seen of an attention by hand is not the whole of it; empty if it is."""
    refused = next((piece.refused for group in groups for piece in group if piece.refused), "")
    if refused:
        return refused
    if any(len(group) > 1 and not all(piece.tentative for piece in group) for group in groups):
        return IN_PIECES
    sure = [group[0] for group in groups if not group[0].tentative]
    if any(one.axes > 4 and not one.in_order for one in sure):
        return IN_BLOCKS
    if len({one.weights.shape for one in sure}) > 1 and not any(one.in_order for one in sure):
        return IN_PIECES
    if any(isinstance(read_softmax(event), Unreadable) for event in named):
        return UNREAD
    return NOT_MULTIPLIED if stray and not (sure and all(one.reported for one in sure)) else ""


def read_softmax(event: Normalisation) -> CapturedAttention | Unreadable:
    assert event.weights is not None
    assert event.module is not None
    return from_softmax(event.weights, event.module) or Unreadable(UNREAD)


def resolve_refused(ended: EndedCall) -> None:
    """Attention that ran in pieces in a module that ends: asked by its values, if it projects to them, or refused."""
    hand, outer = CAPTURE.hand, CAPTURE.modules[:-1]
    if not value_projections(ended.module):
        if not any(value_projections(module) for module in outer):
            for modules, reason in hand.refused:
                CAPTURE.publish(partial(Unreadable, reason), modules)
            hand.refused = []
        return
    reason = hand.refused[0][1]
    found = CUT_IN_PIECES
    if not CAPTURE.cutters:
        found = probe_weights(ended.module, ended.args, ended.kwargs, ended.result)
    captured = Unreadable(f"{reason}; {found}") if isinstance(found, str) else found
    CAPTURE.publish(lambda: captured)
    hand.refused = []


def report_group(group: list[WeightedSum]) -> None:
    """Report one attention by hand: one sum, or pieces of what is probably none."""
    one = group[0]
    queries, keys = one.weights.shape[2:]
    if not all(piece.tentative for piece in group):
        if not one.reported:
            report_sum(one)
    elif one.in_order and queries > 1 and keys in {queries, *CAPTURE.key_counts}:
        report_sum(one)
    elif queries > 1 or one.axes >= 4 or (one.modules and looks_like_attention(one.modules[-1])):
        reason = f"a softmax over {tuple(one.weights.shape)} was multiplied with values in it"
        add_leftover(one.modules, reason, "weak", beside=True)


def report_sum(one: WeightedSum) -> None:
    """Report one attention by hand; edges can be cut only out of one that ran in one piece."""
    refused = one.refused or (CUT_IN_PIECES if CAPTURE.cutters and one.pieces > 1 else "")
    CAPTURE.publish(partial(Unreadable, refused) if refused else one.to_captured, one.modules)
    one.reported = True


def report_rest() -> None:
    """Report what ran outside any module, and what nobody took."""
    hand = CAPTURE.hand
    for group in group_pieces(hand.take_sums(None), has_other_queries):
        if len(group) > 1 and not all(piece.tentative for piece in group):
            group[0].refused = IN_PIECES
        report_group(group)
    for modules, reason in hand.refused:
        CAPTURE.publish(partial(Unreadable, reason), modules)
    judge_leftovers()


def judge_leftovers() -> None:
    """Keep what says that a softmax that became part of no captured attention did attention's work."""
    for event in CAPTURE.hand.waiting:
        found = judge_leftover(event, CAPTURE.key_counts)
        if found == WEIGHTS_ALONE:
            CAPTURE.publish(partial(read_softmax, event), event.modules)
        elif found is not None:
            add_leftover(event.modules, *found)
    for event, count in count_columns(CAPTURE.hand.waiting):
        add_leftover(event.modules, f"an exp over {event.shape} ran {count} times in it, as if key by key", "weak")
    for modules, shape in CAPTURE.hand.unexplained:
        add_leftover(modules, f"a product over {shape} was multiplied with something in it, without a softmax", "weak")
    CAPTURE.hand.clear()


def count_columns(events: list[Normalisation]) -> Iterator[tuple[Normalisation, int]]:
    """Exps of one column, of which one module took at least as many as they have rows: one for each key, perhaps."""
    columns = [event for event in events if event.shape[-1] == 1 and len(event.shape) >= 4 and event.module is not None]
    counts = Counter((event.module, event.shape) for event in columns)
    first = {(event.module, event.shape): event for event in reversed(columns)}
    return ((first[key], count) for key, count in counts.items() if count >= key[1][-2])


def add_leftover(modules: list[nn.Module], reason: str, evidence: Evidence, beside: bool = False) -> None:
    module = modules[-1] if modules else None
    CAPTURE.leftovers.append(Leftover(module, reason, evidence, CAPTURE.runs, beside))


def judge_leftover(event: Normalisation, key_counts: set[int]) -> tuple[str, Evidence] | None:
    """Why a softmax that no captured attention used may be attention, and how surely; None if it is nothing of it."""
    shape = event.shape
    if event.of_product and event.multiplied:
        reason = f"a softmax of a product over {shape} was multiplied with values, but its weights could not be read"
        return reason, "strong"
    in_shape = len(shape) == 4 and shape[2] > 1 and shape[3] in {shape[2], *key_counts}
    if event.of_product and in_shape and event.weights is not None and event.module is not None:
        return WEIGHTS_ALONE
    return (f"a softmax over {shape} ran in it", "weak") if event.of_product or in_shape else None
