"""`transom tour`: three words through self-attention with every number, and a slip in a note put right."""

import math
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from transom.cli import tour_translation
from transom.cli.output import print_json, print_note, print_styled
from transom.cli.tour_translation import SHADES, heats

LESSON, SLIP = "three-tokens", "a value misread"  # what is shown, and the case from which the note's figure follows
SEE = "transom doctor says what it ran on"
NEXT = {
    'see "Where do you live?"': "who looks at whom, in any sentence",
    "learn": "lessons, each number proved",
    "serve": "a page to look around in",
}

Row = Sequence[float]


def run(
    html: Annotated[Path | None, typer.Option("--html", help="A page with every number, to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All the numbers, in full, as JSON.")] = False,
) -> None:
    """“The cat sat” in four dimensions through a self-attention layer, with every number.

    Example: transom tour --json
    """
    steps = worked()
    if not (steps["receipt"]["holds"] and steps["translation"]["receipt"]["holds"]):
        print_note(f"these weights do not make the layer's output, so nothing is drawn; {SEE}")
        raise typer.Exit(1)
    if as_json:
        print_json(steps)
        return
    look = tour_translation.Look(**steps["translation"])
    page = [] if html is None else [drawn(html)]
    for line in (*told(steps), *tour_translation.told(look), *page, *next_commands()):
        print_styled(line)


def drawn(path: Path) -> Text:
    """Every step as a page of its own, in which each cell opens its arithmetic; gives the line that tells of it."""
    from transom.files.durable import complaining
    from transom.lessons.shelf import shipped
    from transom.show import draw

    with complaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    draw("steps", shipped(LESSON)).save(path)
    return Text(f"6  Every number of “The cat sat” with its arithmetic, to open in a browser: {path}")


def worked() -> dict[str, Any]:
    """Every step as plain numbers, in float64: what goes through the layer, and how the note's figure comes about."""
    import torch

    import transom
    from transom.equations import attention
    from transom.lessons.shelf import shipped

    lesson = shipped(LESSON)
    x = torch.from_numpy(lesson.steps()["embedding"].values)[None]
    layer = transom.layers.SelfAttention(d_model=x.shape[-1]).to(x.dtype)
    with torch.no_grad():
        for W in (layer.W_Q, layer.W_K, layer.W_V):
            W.weight.copy_(torch.eye(x.shape[-1]))
        Q, K, V = layer.projected(x)
        sight = transom.sight(Q, K, V)
        found = {"embeddings": x, "Q": Q[0], "K": K[0], "V": V[0], "scores": attention.scores(Q, K)[0]}
        found |= {"scaled": sight.scores(batch=0), "weights": sight.weights(batch=0), "context": layer(x)}
    steps = {name: tensor[0].tolist() for name, tensor in found.items()}
    receipt = {**asdict(sight.receipt()), "holds": sight.receipt().holds}
    own = {"slip": slip(steps["weights"][0], lesson), "receipt": receipt}
    return {"tokens": list(lesson.steps().tokens), **steps, **own, "translation": asdict(tour_translation.looked())}


def slip(weights: Row, lesson: Any) -> dict[str, Any]:
    """The context of "The" with the value of "sat" misread and the weights cut, not rounded, to four decimals."""
    printed = next([float(one) for one in claim.value] for claim in lesson.claims if claim.slip == "value vector")
    misread = lesson.steps(SLIP)["V"].values.tolist()
    cut = [math.floor(weight * 10_000) / 10_000 for weight in weights]
    retold = [round(number, 4) for number in weighted_sum(cut, misread)]
    return {"printed": printed, "weights": cut, "V": misread, "retold": retold, "reproduced": retold == printed}


def weighted_sum(weights: Row, V: Sequence[Row]) -> list[float]:
    return [
        sum(weight * number for weight, number in zip(weights, column, strict=True)) for column in zip(*V, strict=True)
    ]


def told(steps: dict[str, Any]) -> Iterator[Text]:
    """The steps in words and numbers, line by line."""
    tokens = steps["tokens"]
    yield Text(
        f"“{' '.join(tokens)}” in four dimensions, through a self-attention layer with identity parameters", "bold"
    )
    yield Text("1  Each token is a vector x. Since W_Q = W_K = W_V = I, it is its query, key and value too.")
    for token, vector in zip(tokens, steps["embeddings"], strict=True):
        yield Text.assemble("   ", (token, "bold"), f"  {bare(vector)}")
    yield Text("2  Each row looks from a token, each column is looked at. Softmax makes a row of weights sum to 1.")
    yield from matrices(steps)
    yield Text("3  The context of a token: each value times its weight, summed up (shown to four decimals).")
    for token, weights, context in zip(tokens, steps["weights"], steps["context"], strict=True):
        yield Text.assemble("   ", (token, "bold"), f"  {arithmetic(weights, steps['V'], context)}")
    yield from mended(steps)


def next_commands() -> Iterator[Text]:
    yield Text()
    yield Text("Next, try:")
    for command, purpose in NEXT.items():
        yield Text(f"   {as_typed()} {command:<32} {purpose}")


def matrices(steps: dict[str, Any]) -> Iterator[Text]:
    """Scores, scaled scores and weights side by side, and the weights once more as a picture."""
    tokens, d_head = steps["tokens"], len(steps["Q"][0])
    captions = f"{'scores Q Kᵀ':>15}{f'scaled by 1/√{d_head}':>18}{'weights = softmax':>24}"
    yield Text(f"{'':12}{captions}    {' '.join(SHADES)} up to ¼ ½ ¾ 1")
    names = "".join(f"{token:>{width}}" for width in (5, 6, 8) for token in tokens)
    yield Text(f"from ↓ at → {names}    {'  '.join(f'{token:<5}' for token in tokens)}".rstrip())
    for row, token in enumerate(tokens):
        numbers = "".join(f"{score:5.0f}" for score in steps["scores"][row])
        numbers += "".join(f"{score:6.1f}" for score in steps["scaled"][row])
        numbers += "".join(f"{weight:8.4f}" for weight in steps["weights"][row])
        yield Text.assemble("   ", (f"{token:<9}", "bold"), numbers, "    ", (heats(steps["weights"][row], 5), "cyan"))


def mended(steps: dict[str, Any]) -> Iterator[Text]:
    """The note's figure, why it cannot be, how it comes about, and the right one."""
    slip, tokens = steps["slip"], steps["tokens"]
    exact, cut, misread = steps["weights"][0][1], slip["weights"][1], bare(slip["V"][2])
    yield Text(f"4  The note this example comes from prints {fixed(slip['printed'])} for “{tokens[0]}”. It cannot be:")
    yield Text("   values from 0 to 1 with weights that sum to 1 give contexts from 0 to 1. The figure comes out if")
    yield Text(
        f"   the value of “{tokens[2]}” is taken as {misread} and the weights are cut off ({exact:.6f} to {cut}):"
    )
    outcome = "as printed" if slip["reproduced"] else "not as printed"
    yield Text(f"   {arithmetic(slip['weights'], slip['V'], slip['retold'])} {outcome}")
    yield Text(f"   {arithmetic(steps['weights'][0], steps['V'], steps['context'][0])} right")


def arithmetic(weights: Row, V: Sequence[Row], total: Row) -> str:
    terms = (f"{weight:.4f}·{bare(value)}" for weight, value in zip(weights, V, strict=True))
    return f"{' + '.join(terms)} = {fixed(total)}"


def bare(vector: Row) -> str:
    return f"[{' '.join(f'{number:g}' for number in vector)}]"


def fixed(vector: Row) -> str:
    return f"[{' '.join(f'{number:.4f}' for number in vector)}]"


def as_typed() -> str:
    """How this command is called from here: `transom`, or the path it was called by if the shell would not find it."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        return "python -m transom"
    return "transom" if shutil.which("transom") == called else shlex.quote(called)
