"""What is known of a run: the model's own weights, what the detector finds, and what `watch` shows."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import transom
from audit.attention_detector import POOLED, Detected, detect
from audit.subject import Subject, numbers
from transom.lens.trace import Trace
from transom.names import Misfit

CHOOSERS = {"indexer": "ranks keys for the attention beside it, and mixes no values"}  # by the last part of a path


@dataclass
class Evidence:
    """What is known without Transom: own weights, and what was detected in which module.

    A softmax that is no softmax of a product, as in pooling and routing, counts as attention only in a module that is
    named after it and has no other; the rest is `pooled`, which may be shown but need not be.
    """

    own: list[Tensor]
    detected: dict[str, list[Detected]]
    pooled: dict[str, list[Detected]]

    def count(self) -> int:
        return sum(len(found) for found in self.detected.values())


def gather_evidence(subject: Subject) -> Evidence:
    found = detect_attention(subject)
    detected = {path: [one for one in some if one.kind != POOLED] for path, some in found.items()}
    named = [path for path in found if not detected[path] and ("attention" in path.lower() or "attn" in path.lower())]
    detected = {path: some for path, some in detected.items() if some} | {path: found[path] for path in named}
    pooled = {path: [one for one in some if one.kind == POOLED] for path, some in found.items() if path not in named}
    return Evidence(own_weights(subject), detected, pooled)


def own_weights(subject: Subject) -> list[Tensor]:
    """The attention weights that the model returns by itself in eager mode; none if it cannot."""
    if subject.eager is None or not hasattr(subject.eager, "config"):
        return []
    try:
        result = subject.run(subject.eager, output_attentions=True)
    except Exception:
        return []
    if not is_close(numbers(result)[0], numbers(subject.run())[0]):
        return []  # this architecture computes something else in eager mode
    return [x for x in attention_fields(result) if x.dim() == 4 and x.is_floating_point()]


def is_close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.float(), other.float(), rtol=1e-2, atol=1e-2)


def attention_fields(result: Any) -> list[Tensor]:
    """The tensors of every field that is called attentions, also in the results inside a result."""
    found: list[Tensor] = []
    if isinstance(result, dict):
        for name, value in result.items():
            if "attentions" in name:
                found += [x for x in tree_leaves(value) if isinstance(x, Tensor)]
            else:
                found += attention_fields(value)
    return found


def detect_attention(subject: Subject) -> dict[str, list[Detected]]:
    """What the detector finds, by the path of the innermost module."""
    paths: dict[nn.Module, str] = {module: name for name, module in subject.model.named_modules()}
    with detect(subject.model) as detector:
        subject.run()
    found: dict[str, list[Detected]] = {}
    for one in detector.found:
        path = next((paths[module] for module in reversed(one.modules) if module in paths), "")
        if path.rpartition(".")[2] not in CHOOSERS:
            found.setdefault(path, []).append(one)
    return found


def watch_run(subject: Subject) -> tuple[Trace, list[Tensor] | None, str]:
    """The trace by default; or, if that raises an error, the error's words and the trace that is given when allowed."""
    refusal, watched = "", None
    try:
        with transom.watch(subject.model) as trace:
            watched = numbers(subject.run())
    except Misfit as error:
        refusal = str(error)
        trace = Trace()
        try:
            with transom.watch(subject.model, unseen="allow") as trace:
                watched = numbers(subject.run())
        except Misfit as still:
            refusal = str(still)
    return trace, watched, refusal


def same_bits(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(as_bits(a), as_bits(b))
        for a, b in zip(one, other, strict=True)
    )


def as_bits(x: Tensor) -> Tensor:
    """Numbers as integers, so that NaN equals NaN and −0 differs from 0."""
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.contiguous().view(kinds[x.element_size()]) if x.is_floating_point() and x.element_size() in kinds else x
