"""The steps of a Sight: what one head of a model did, number by number, from the Q, K and V that it used."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transom.lessons import made
from transom.lessons.made import Labels, Said
from transom.lessons.one_head import Head, dot_scores, scaled, weighing
from transom.lessons.steps import Matrix, Step, Steps
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.lens import Sight
    from transom.lens.asking.origin import Origin

MOST = 1024  # tokens whose matrices are held whole


def steps_of(
    sight: "Sight",
    batch: int = 0,
    head: int = 0,
    tokens: Sequence[str] | None = None,
    at_tokens: Sequence[str] | None = None,
    names: Iterable[str] | None = None,
    embedding: Any = None,
    parameters: Mapping[str, Any] | None = None,
    at_embedding: Any = None,
    origin: "Origin | None" = None,
) -> Steps:
    """Every step of one head in float64: Q, K, V, scores, scaled, masked, weights, weighted sum.

    names       only these steps
    embedding   what Q was made from, (queries, d_model); with `parameters` W_Q, W_K, W_V (and b_Q, b_K, b_V) of this
                head, each (d_model, d_head), the cells of Q, K and V open their arithmetic; with W_O (and b_O), all
                heads are joined and mapped at the end
    origin      all of these, as `lens.asking.origin` finds them in a model
    """
    if origin is not None:
        embedding, at_embedding, parameters = origin.embedding, origin.at_embedding, origin.parameters
    parameters = {} if parameters is None else parameters
    whole = sight.problem.whole
    check_asked(whole, batch, head)
    found = looked(sight, batch, head, labels(tokens, whole[2], "queries"), at_labels(tokens, at_tokens, whole))
    before = projections(found, embedding, at_embedding, parameters)
    own = scored(sight, found, batch)
    listed = [*before, *own, *together(sight, batch, found, own[-1], parameters)]
    steps = Steps(listed, found.rows, found.columns, () if origin is None else origin.notes)
    if names is None:
        return steps
    wanted = {steps[name].name for name in names}  # an unknown name is told with the nearest
    return Steps((step for step in steps if step.name in wanted), found.rows, found.columns, steps.notes)


def check_asked(whole: tuple[int, int, int, int], batch: int, head: int) -> None:
    for word, size, asked in (("batch", whole[0], batch), ("heads", whole[1], head)):
        if not 0 <= asked < size:
            raise Misfit(f"this attention has {word}={size}, so {asked} is none of them; count from 0")
    if max(whole[2:]) > MOST:
        raise Misfit(
            f"steps hold every number of at most {MOST} tokens, but there are queries={whole[2]} and keys={whole[3]};"
            " ask for a map of it, or look at a shorter text"
        )


def labels(tokens: Sequence[str] | None, size: int, axis: str) -> Labels:
    """The tokens, or their numbers where none are given."""
    if tokens is None:
        return made.counted(size)
    if len(tokens) != size:
        raise Misfit(f"this attention has {axis}={size}, but {len(tokens)} tokens came; give one for each")
    return tuple(tokens)


def at_labels(tokens: Sequence[str] | None, at_tokens: Sequence[str] | None, whole: tuple[int, ...]) -> Labels:
    same = tokens if at_tokens is None and whole[2] == whole[3] else at_tokens
    return labels(same, whole[3], "keys")


def looked(sight: "Sight", batch: int, head: int, rows: Labels, columns: Labels) -> Head:
    """Q, K and V of one head, and the scale, out of a Sight."""
    problem = sight.problem
    kv_head = head // problem.group
    Q, K, V = problem.Q[batch, head], problem.K[batch, kv_head], problem.V[batch, kv_head]
    seen = problem.seen(problem.block())
    allowed = None
    if seen is not None:
        allowed = np.asarray(seen.expand(problem.whole)[batch, head].cpu().numpy(), dtype=bool)
    divisor, spelled = written_scale(problem.scale, Q.shape[1])
    return Head(plain(Q), plain(K), plain(V), rows, columns, allowed, divisor, spelled, head)


def plain(tensor: Any) -> Matrix:
    """A matrix in float64, wherever it was."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().double().numpy()
    return np.asarray(tensor, dtype=np.float64)


def written_scale(scale: float, d_head: int) -> tuple[float | None, str]:
    """What scores are divided by, and how it is written."""
    if scale == 1.0:
        return None, "1"
    if np.isclose(scale, d_head**-0.5, rtol=1e-6):
        return float(np.sqrt(d_head)), f"√{d_head}"
    return 1.0 / scale, f"{1.0 / scale:.6g}"


def projections(head: Head, embedding: Any, at_embedding: Any, parameters: Mapping[str, Any]) -> list[Step]:
    """The embedding, and Q, K and V: with their arithmetic where it is known what they were made from."""
    steps = []
    own = None if embedding is None else plain(embedding)
    other = own if at_embedding is None else plain(at_embedding)
    if own is not None:
        steps.append(made.given(Said("embedding", "each token as a vector", "X"), own, head.rows))
    if at_embedding is not None and other is not None:
        steps.append(
            made.given(
                Said("at_embedding", "each token looked at, as a vector", "X of the other sequence"),
                other,
                head.columns,
            )
        )
    for letter, title, x, values, rows in (
        ("Q", "what each token asks for", own, head.Q, head.rows),
        ("K", "what each token answers to", other, head.K, head.columns),
        ("V", "what each token gives", other, head.V, head.columns),
    ):
        if x is None or f"W_{letter}" not in parameters:
            steps.append(made.given(head.said(letter, title, f"{letter}, as used"), values, rows))
        else:
            bias = "" if parameters.get(f"b_{letter}") is None else f" + b_{letter}"
            said = head.said(letter, title, f"{letter} = X W_{letter}{bias}")
            steps.append(projected(said, x, parameters, values, rows))
    return steps


def projected(said: Said, x: Matrix, parameters: Mapping[str, Any], used: Matrix, rows: Labels) -> Step:
    """x W (+ b), once it is found to be what the attention used."""
    W, b = plain(parameters[f"W_{said.name}"]), parameters.get(f"b_{said.name}")
    if x.shape[1] != W.shape[0]:
        raise Misfit(f"W_{said.name} takes d_model={W.shape[0]}, but the embedding has {x.shape[1]}; transpose one?")
    bias = None if b is None else plain(b)
    step = made.product(said, x, W, rows, made.counted(W.shape[1]), made.counted(len(W)), bias)
    if step.values.shape != used.shape or not np.allclose(step.values, used, rtol=1e-3, atol=1e-4):
        raise Misfit(
            f"the embedding and W_{said.name} should give the {said.name} that was used, but they do not;"
            " leave `parameters` out (rotary positions turn Q and K after the projection)"
        )
    return step


def scored(sight: "Sight", head: Head, batch: int) -> list[Step]:
    """From the scores on: scaled, capped and biased as the attention did it."""
    problem = sight.problem
    scores = dot_scores(head)
    steps = [scores]
    if head.divisor is not None:
        steps.append(scaled(head, scores, head.divisor))
    if problem.softcap is not None:
        cap = problem.softcap
        said = head.said("capped", "scores bent into a range", f"{cap:g} · tanh(scores / {cap:g})")
        bent = cap * np.tanh(steps[-1].values / cap)
        steps.append(made.applied(said, steps[-1], bent, f"{cap:g} · tanh(… / {cap:g}) of "))
    if problem.bias is not None:
        added = problem.bias.added(problem.block()).expand(problem.whole)[batch, head.head]
        said = head.said("biased", "scores and what positions add to them", "scores + bias")
        parts = {"score": steps[-1].values, "bias": plain(added)}
        steps.append(made.added(said, parts, head.rows, head.columns))
    return [*steps, *weighing(head, steps[-1])]


def together(sight: "Sight", batch: int, head: Head, own: Step, parameters: Mapping[str, Any]) -> list[Step]:
    """All heads joined, and what W_O makes of them; nothing where W_O is not known."""
    if "W_O" not in parameters:
        return []
    heads, rows, columns = sight.problem.whole[1], head.rows, head.columns
    others = (looked(sight, batch, one, rows, columns) if one != head.head else None for one in range(heads))
    sums = [own.values if one is None else scored(sight, one, batch)[-1].values for one in others]
    joined = made.side_by_side(Said("joined", "the heads side by side", made.JOINED), sums, rows)
    W_O, b_O = plain(parameters["W_O"]), parameters.get("b_O")
    if len(W_O) != len(joined.columns):
        raise Misfit(f"W_O takes {len(W_O)} numbers, but the heads joined have {len(joined.columns)}; transpose it?")
    bias = None if b_O is None else plain(b_O)
    equation = "output = joined W_O" if bias is None else "output = joined W_O + b_O"
    said = Said("output", "what the heads found, mixed into one vector", equation)
    return [joined, made.product(said, joined.values, W_O, rows, made.counted(W_O.shape[1]), joined.columns, bias)]
