"""How a token's vector changes from its embedding to the output: a path on a plane."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from transom.names import Misfit, check_index
from transom.show.formatting import make_visible
from transom.show.lesson_sight import find_steps
from transom.show.panels.plane import Plane, PlaneVector, project_to_plane
from transom.show.picture import Picture, Source, Table

MOST_LANDMARKS = 6


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
    landmarks   other vectors for orientation; of Steps by default the embeddings of the other tokens
    """
    import numpy as np

    stages, name = find_stages(thing, row)
    marks = list(landmarks.items() if isinstance(landmarks, Mapping) else landmarks) or other_embeddings(thing, row)
    labels = [str(label) for label, _ in [*stages, *marks]]
    vectors = [np.asarray(vector, dtype=np.float64) for _, vector in [*stages, *marks]]
    count = len(stages)
    check_stages(labels, vectors, count)
    flat = project_to_plane(np.stack(vectors), through_zero=False)
    path = [PlaneVector(label, point, point, "landmark") for label, point in zip(labels, flat.points, strict=True)]
    for index in range(1, count):
        path[index] = PlaneVector(labels[index], flat.points[index - 1], flat.points[index], "stage")
    distances = [0.0, *(float(np.linalg.norm(after - before)) for before, after in pairwise(vectors[:count]))]
    rows = [(label, moved, *map(float, v)) for label, moved, v in zip(labels, distances, vectors, strict=False)]
    subject = f"“{make_visible(token or name)}”" if token or name else "a token"
    return Picture(
        view="context",
        title=f"How {subject} moves, from {make_visible(labels[0])} to {make_visible(labels[count - 1])}",
        panels=(Plane(vectors=tuple(path), across=flat.across, up=flat.up),),
        source=Source(model=model),
        notes=(flat.note,),
        table=Table(("stage", "moved by", *(f"number {i + 1}" for i in range(len(vectors[0])))), tuple(rows)),
    )


def check_stages(labels: list[str], vectors: list[Any], count: int) -> None:
    """Raise an error unless there are at least two stages, and all vectors have the same width."""
    if count < 2:
        raise Misfit(f"a path needs at least two stages, but {count} came; give [(stage, vector), …]")
    shape = vectors[0].shape
    for label, vector in zip(labels, vectors, strict=True):
        if vector.ndim != 1 or vector.shape != shape:
            raise Misfit(
                f"every stage should be one vector of the same width, but {label!r} has shape {vector.shape} and the"
                f" first {shape}; take one token's vector of each layer"
            )


def find_stages(thing: Any, row: int) -> tuple[list[tuple[str, Any]], str]:
    """The stages of a path, and the token's name if it is known."""
    steps = find_steps(thing)
    if steps is not None:
        stream = residual_stream(list(steps), len(steps.heads) < 2)
        same_width = [step for step in stream if step.values.shape[1] == stream[0].values.shape[1]]
        if not same_width:
            return [], ""
        row = check_index(row, "tokens", len(same_width[0].rows))
        several_layers = len(steps.layers) > 1
        return [(stage_name(step, several_layers), step.values[row]) for step in same_width], same_width[0].rows[row]
    if isinstance(thing, Mapping):
        return list(thing.items()), ""
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [(label, vector) for label, vector in thing], ""
    raise Misfit(
        f"a path is drawn of [(stage, vector), …] or of Steps, but got {type(thing).__name__}; a Trace holds"
        " attentions, not the vectors between layers: take the model's hidden states"
    )


def other_embeddings(thing: Any, row: int) -> list[tuple[str, Any]]:
    """The embeddings of the other tokens of Steps, each once, to see where a token moves to."""
    steps = find_steps(thing)
    if steps is None or "embedding" not in steps:
        return []
    embedding = steps["embedding"]
    own = embedding.index_of(row, "row")
    found: dict[tuple[float, ...], str] = {}
    for place, (label, vector) in enumerate(zip(embedding.rows, embedding.values.tolist(), strict=True)):
        if place != own and vector != embedding.values[own].tolist():
            found.setdefault(tuple(vector), f"embedding of {label}")
    return [(label, vector) for vector, label in list(found.items())[:MOST_LANDMARKS]]


def residual_stream(steps: list[Any], single_head: bool) -> list[Any]:
    """The steps that are the token's vector itself, without those that are only added to it."""
    if any(step.name.startswith("residual") for step in steps):
        normed = [
            step
            for previous, step in pairwise(steps)
            if step.name.startswith("norm") and previous.name.startswith("residual")
        ]
        return [
            step for step in steps if step.name == "embedding" or step.name.startswith("residual") or step in normed
        ]
    last = "output" if any(step.name == "output" for step in steps) else "joined"
    names = {"embedding", last, "feed_forward"}
    if single_head and not any(step.name == last for step in steps):
        names.add("sum")  # the weighted sum of a single head is the token's context
    return [step for step in steps if step.name in names]


def stage_name(step: Any, several_layers: bool) -> str:
    return f"{step.name}, layer {step.layer}" if several_layers and step.name != "embedding" else step.name
