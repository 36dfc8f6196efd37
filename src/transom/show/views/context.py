"""How a token's vector moves, from its embedding to the output: a path on a plane."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from transom.names import Misfit
from transom.show.panels import Plane, Vector
from transom.show.picture import Picture, Source, Table
from transom.show.projection import projected
from transom.show.visible import visible
from transom.show.worked import steps_in


def context(
    thing: Any,
    *,
    row: int = 0,
    landmarks: Mapping[str, Any] | Sequence[tuple[str, Any]] = (),
    token: str = "",
    model: str = "",
) -> Picture:
    """One token's vector, stage by stage.

    thing       [(stage, vector), …] or {stage: vector} in order, such as the hidden states of each layer; or Steps, of
                which the embedding and all later steps of the same width are taken, for the token `row`
    landmarks   other vectors to find one's way by, such as the embeddings of other tokens
    """
    import numpy as np

    stages, name = staged(thing, row)
    marks = list(landmarks.items() if isinstance(landmarks, Mapping) else landmarks)
    named = [(str(label), np.asarray(vector, dtype=np.float64)) for label, vector in [*stages, *marks]]
    width = check(named, len(stages))
    flat = projected(np.stack([vector for _, vector in named]), through_zero=False)
    points, labels = flat.points, [label for label, _ in named]
    count = len(stages)
    arrows = [Vector(labels[0], points[0], points[0], "landmark")]
    arrows += [Vector(labels[one], points[one - 1], points[one], "stage") for one in range(1, count)]
    arrows += [Vector(labels[one], points[one], points[one], "landmark") for one in range(count, len(named))]
    moved = [float(np.linalg.norm(named[one][1] - named[one - 1][1])) if one else 0.0 for one in range(count)]
    rows = tuple((label, moved[one], *map(float, vector)) for one, (label, vector) in enumerate(named[:count]))
    who = f"“{visible(token or name)}”" if token or name else "a token"
    return Picture(
        view="context",
        title=f"How {who} moves, from {visible(labels[0])} to {visible(labels[count - 1])}",
        panels=(Plane(vectors=tuple(arrows), across=flat.across, up=flat.up),),
        source=Source(model=model),
        notes=(flat.note,),
        table=Table(("stage", "moved by", *(f"number {one + 1}" for one in range(width))), rows),
    )


def check(named: list[tuple[str, Any]], stages: int) -> int:
    """Complain unless there is a path to draw; gives the width of its vectors."""
    if stages < 2:
        raise Misfit(f"a path needs at least two stages, but {stages} came; give [(stage, vector), …]")
    width = named[0][1].shape
    for label, vector in named:
        if vector.ndim != 1 or vector.shape != width:
            raise Misfit(
                f"every stage should be one vector of the same width, but {label!r} has shape {vector.shape} and the"
                f" first {width}; take one token's vector of each layer"
            )
    return width[0]


def staged(thing: Any, row: int) -> tuple[list[tuple[str, Any]], str]:
    """The stages of what came, and the token's name if it is known."""
    steps = steps_in(thing)
    if steps is not None:
        found = list(steps)
        way = stream(found, len(steps.heads) < 2)
        width = way[0].values.shape[1] if way else 0
        same = [step for step in way if step.values.shape[1] == width]
        if same and not -len(same[0].rows) <= row < len(same[0].rows):
            raise Misfit(f"there are {len(same[0].rows)} tokens, so {row} is none of them; count from 0")
        name = same[0].rows[row] if same else ""
        return [(stage(step, found), step.values[row]) for step in same], name
    if isinstance(thing, Mapping):
        return list(thing.items()), ""
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [(label, vector) for label, vector in thing], ""
    raise Misfit(
        f"a path is drawn of [(stage, vector), …] or of Steps, but got {type(thing).__name__}; a Trace holds"
        " attentions, not the vectors between layers: take the model's hidden states"
    )


def stream(steps: list[Any], one_head: bool) -> list[Any]:
    """The steps that are the token's vector itself; what is only added to it on the way is none of them."""
    if any(step.name.startswith("residual") for step in steps):
        after = [
            step
            for before, step in pairwise(steps)
            if step.name.startswith("norm") and before.name.startswith("residual")
        ]
        return [step for step in steps if step.name == "embedding" or step.name.startswith("residual") or step in after]
    last = "output" if any(step.name == "output" for step in steps) else "joined"
    names = {"embedding", last, "feed_forward"}
    if one_head and not any(step.name == last for step in steps):
        names.add("sum")  # one head's sum is the token's context itself
    return [step for step in steps if step.name in names]


def stage(step: Any, all_steps: list[Any]) -> str:
    layers = {one.layer for one in all_steps}
    return f"{step.name}, layer {step.layer}" if len(layers) > 1 and step.name != "embedding" else step.name
