"""Judges one subject: is what `watch` shows exact, is the rest named, and does the model run as it does unwatched?"""

from typing import Any

import torch
from torch import Tensor

from audit.attention_detector import ACTIVATED, LINEAR, Detected
from audit.evidence import Evidence, gather_evidence, same_bits, watch_run
from audit.judgement import (
    CHANGED,
    EXACT,
    FOREIGN,
    IN_WINDOWS,
    LISTED,
    NO_ATTENTION,
    NOT_BUILDABLE,
    RAISES,
    SILENT,
    UNPROVED,
    WRONG,
    Judgement,
)
from audit.subject import Subject, numbers, one_line
from transom.lens.trace import Trace

WHOLE_MODEL = "(model)"  # what a trace calls a model that attends without a module inside
TOLERANCE = {torch.float32: 5e-5, torch.float64: 1e-10, torch.float16: 2e-3, torch.bfloat16: 1e-2}
# Classes that sort queries and keys before they attend: what is shown in that order has the wrong positions.
SORTING = {"LSHSelfAttention": "sorts queries and keys into buckets, and shows them in that order"}


def judge(subject: Subject) -> Judgement:
    """Run the model unwatched, watched and under the detector, and compare."""
    plain = numbers(subject.run())
    if not same_bits(plain, numbers(subject.run())):
        return Judgement(NOT_BUILDABLE, "its output differs from call to call")
    evidence = gather_evidence(subject)
    trace = Trace()
    try:
        trace, watched, refusal = watch_run(subject)
    except Exception as error:
        judgement = Judgement(FOREIGN, one_line(f"{type(error).__name__}: {error}"))
    else:
        if watched is not None and not same_bits(plain, watched):
            judgement = Judgement(CHANGED, "the watched output differs")
        else:
            judgement = compare(trace, evidence, refusal, subject)
    judgement.own, judgement.detected, judgement.seen = len(evidence.own), evidence.count(), len(trace)
    judgement.unseen = [unseen_to_dict(one) for one in trace.unseen]
    return judgement


def unseen_to_dict(unseen: Any) -> dict[str, str]:
    return {"name": unseen.name, "class": unseen.class_name, "reason": unseen.reason, "evidence": unseen.evidence}


def compare(trace: Trace, evidence: Evidence, refusal: str, subject: Subject) -> Judgement:
    """The verdict on a trace, or on an error and what is listed when it is allowed."""
    if refusal and not len(trace) and not trace.unseen:
        return Judgement(RAISES if evidence.detected or evidence.own else NO_ATTENTION, one_line(refusal))
    fault = find_silence(trace, evidence, subject)
    if fault:
        return Judgement(SILENT, fault)
    fault = (
        find_contradiction(trace, evidence)
        or find_disorder(trace, evidence, subject)
        or find_invention(trace, evidence)
    )
    if fault:
        return Judgement(WRONG, fault)
    if refusal:
        return Judgement(RAISES, one_line(refusal))
    hidden = find_hidden(trace, evidence, subject)
    if any(one.evidence != "weak" or any(is_related(path, one.name) for path in hidden) for one in trace.unseen):
        return Judgement(LISTED, list_reasons(trace))
    doubts = [sight.receipt() for name, sight in trace.items() if not is_proved(name, sight, evidence)]
    windows = {sight.shape[0] for sight in trace} - {1, subject.batch}
    verdict = UNPROVED if doubts else IN_WINDOWS if windows else EXACT
    return Judgement(verdict, one_line(str(doubts[0])) if doubts else "", proof=describe(trace, evidence))


def find_hidden(trace: Trace, evidence: Evidence, subject: Subject) -> list[str]:
    """The modules in which attention was detected that is not shown, or not all of it."""
    shown = {path: sights_of(path, trace, found) for path, found in evidence.detected.items()}
    return [
        path for path, sights in shown.items() if not (sights and explains(sights, evidence.detected[path], subject))
    ]


def find_silence(trace: Trace, evidence: Evidence, subject: Subject) -> str:
    """In words, where attention was detected that is neither shown, all of it, nor listed; empty if nowhere."""
    silent = [path for path in find_hidden(trace, evidence, subject) if not is_listed(path, trace)]
    missing = [path for path in silent if not sights_of(path, trace, evidence.detected[path])]
    if missing:
        kinds = sorted({one.kind for path in missing for one in evidence.detected[path]})
        return f"{', '.join(kinds)} attention in {shorten(missing)} is neither shown nor listed"
    return f"of the attention in {shorten(silent)} only a part is shown, and nothing is listed" if silent else ""


def find_contradiction(trace: Trace, evidence: Evidence) -> str:
    """In words, own weights that differ from the attention of their shape that no own weights equal; empty if none do.

    Some models return scores, means over heads, or parts of what they used, under the name of attentions; so what a
    receipt and the detector agree on counts more.
    """
    own, left = unmatched_weights(evidence.own, [sight.weights() for sight in trace])
    agreed = [sight.weights() for name, sight in trace.items() if is_found(name, sight, evidence) and holds(sight)]
    shapes = {tuple(x.shape) for x in left if not any(x.equal(one) for one in agreed)}
    wrong = [x for x in own if tuple(x.shape) in shapes and torch.allclose(x.sum(-1), x.new_ones(()), atol=1e-3)]
    wrong = [x for x in wrong if not any(same_rows(x, sight) for sight in trace)]
    shape = tuple(wrong[0].shape) if wrong else ()
    return f"{len(wrong)} of {len(evidence.own)} own weights, {shape}, differ from what is shown" if wrong else ""


def find_disorder(trace: Trace, evidence: Evidence, subject: Subject) -> str:
    """In words, a module that attends in another order than the tokens' and is shown in that order; empty if none."""
    modules = dict(subject.model.named_modules())
    for name, sight in trace.items():
        kind = type(modules.get(name)).__name__
        if kind in SORTING and not any(same_weights(one, sight.weights()) for one in evidence.own):
            return f"{name!r} {SORTING[kind]}"
    return ""


def find_invention(trace: Trace, evidence: Evidence) -> str:
    """In words, a module that is shown though nothing says that it attends; empty if there is none."""
    paths = {*evidence.detected, *evidence.pooled}
    for name, sight in trace.items():
        known = any(is_related(path, name) for path in paths) or holds(sight)
        if not known and not any(same_weights(one, sight.weights()) for one in evidence.own):
            return f"{name!r} is shown, but no attention was detected in it"
    return ""


def is_proved(name: str, sight: Any, evidence: Evidence) -> bool:
    """Whether the model's own weights, the detector or a receipt say that an attention is what the model computed."""
    own = any(same_weights(one, sight.weights()) for one in evidence.own)
    return own or holds(sight) or is_found(name, sight, evidence)


def is_found(name: str, sight: Any, evidence: Evidence) -> bool:
    """Whether the detector found the same weights in that module."""
    some = [*evidence.detected.items(), *evidence.pooled.items()]
    found = [one.weights for path, ones in some if is_related(path, name) for one in ones]
    return any(same_weights(one, sight.weights()) for one in found)


def holds(sight: Any) -> bool:
    return sight.receipt().holds


def sights_of(path: str, trace: Trace, found: list[Detected]) -> list[Any]:
    """The attentions of a module in the trace; or those of one around it, if their weights are the same."""
    names = {path or WHOLE_MODEL, f"{path}.self_attn".lstrip(".")}
    own = [sight for name, sight in trace.items() if name in names]
    around = [sight for name, sight in trace.items() if path.startswith(f"{name}.") or name == WHOLE_MODEL]
    return own or [sight for sight in around if any(same_weights(one.weights, sight.weights()) for one in found)]


def explains(shown: list[Any], found: list[Detected], subject: Subject) -> bool:
    """Whether what is shown of a module is what the detector found in it: the same weights, or the same mass of them.

    A model that computes rows in chunks, or keys in blocks, has more products than attentions. Then receipts must say
    that what is shown gives the model's output, or that they cannot; and it must be all: a row for each token, or as
    much weight as was found.
    """
    weights = [one.weights for one in found if one.weights is not None]
    if any(one.kind == LINEAR for one in found):
        return False
    if not unmatched_weights(weights, [sight.weights() for sight in shown])[0]:
        return True
    mass, expected = sum(float(sight.weights().sum()) for sight in shown), sum(float(x.sum()) for x in weights)
    unnormalised = any(one.function in ACTIVATED for one in found)
    whole = any(sight.shape[0] == subject.batch and sight.shape[2] in subject.lengths for sight in shown)
    # Rows of padding, and rows that are computed twice, need not be shown.
    complete = whole or unnormalised or 0.95 * expected <= mass <= 1.001 * expected
    return complete and all(holds(sight) or sight.receipt().unproved for sight in shown)


def is_listed(path: str, trace: Trace) -> bool:
    """Whether that module, one inside it or one around it is listed as unseen."""
    return any(is_related(path, one.name) for one in trace.unseen)


def is_related(path: str, name: str) -> bool:
    """Whether two paths are the same, or one is inside the other."""
    whole = {path, name} & {"", WHOLE_MODEL}
    return path == name or path.startswith(f"{name}.") or name.startswith(f"{path}.") or bool(whole)


def describe(trace: Trace, evidence: Evidence) -> str:
    """What exactness rests on, counted."""
    receipts = [sight.receipt() for sight in trace]
    own = len(evidence.own) - len(unmatched_weights(evidence.own, [sight.weights() for sight in trace])[0])
    parts = [f"{own} of {len(evidence.own)} own weights"] if evidence.own else []
    held = sum(receipt.holds for receipt in receipts)
    return ", ".join([*parts, f"{evidence.count()} detected", f"{held} of {len(receipts)} receipts"])


def unmatched_weights(wanted: list[Tensor], shown: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Those that equal none of the shown ones, each of which is taken once; and the shown ones that are left."""
    left, unmatched = list(shown), []
    for x in wanted:
        index = next((i for i, y in enumerate(left) if same_weights(x, y)), None)
        if index is None:
            unmatched.append(x)
        else:
            left.pop(index)
    return unmatched, left


def same_weights(one: Tensor | None, other: Tensor) -> bool:
    """Equal within rounding, with batch and heads as one axis or as two."""
    if one is None or one.shape[-2:] != other.shape[-2:] or one.numel() != other.numel():
        return False
    tolerance = TOLERANCE.get(one.dtype, 5e-5)
    return torch.allclose(one.reshape(other.shape).float(), other.float(), rtol=0, atol=tolerance)


def same_rows(own: Tensor, sight: Any) -> bool:
    """Whether own weights have the same rows in another order, and a receipt says that the order shown is right."""
    if own.shape != sight.shape or not holds(sight):
        return False
    distances = torch.cdist(own.flatten(0, 1), sight.weights().flatten(0, 1), p=float("inf"))
    return bool((distances.amin(-1) < 5e-5).all() and (distances.amin(-2) < 5e-5).all())


def shorten(names: list[str]) -> str:
    listed = ", ".join(repr(name or WHOLE_MODEL) for name in names[:2])
    return listed + (f" and {len(names) - 2} more" if len(names) > 2 else "")


def list_reasons(trace: Trace) -> str:
    return one_line("; ".join(sorted({f"{one.class_name}: {one.reason}" for one in trace.unseen})))
