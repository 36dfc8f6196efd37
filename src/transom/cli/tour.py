"""`transom tour`: three tokens through self-attention with every number, a corrected mistake in a note, and one head of
a translator."""

import math
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from transom.cli.cli_io import AsJson, print_json, print_note, print_styled
from transom.files.atomic_files import write_errors_as_misfit
from transom.show.formatting import make_visible

if TYPE_CHECKING:
    from torch import Tensor

    from transom.runner.watched_run import TextRun

LESSON, SLIP = "three-tokens", "a value misread"  # the lesson, and its case that leads to the note's figure
SENTENCE = "We are going home."  # of two dozen short ones, the one with the arrow that matters most
WIDTH = 100  # columns of the widest line
SHADES = "░▒▓█"  # weights up to ¼, ½, ¾, 1
NEXT = {
    'see "Where do you live?"': "who looks at whom, in any sentence",
    "learn": "lessons, each number proved",
    "serve": "a page to look around in",
}

Row = Sequence[float]


@dataclass(frozen=True)
class TourTranslation:
    """One head of cross-attention in a translation, and the effect of one of its arrows."""

    source: str
    target: str
    sources: list[str]  # tokens of the source, one for each column
    reads: list[str]  # tokens that the decoder reads, one for each row
    targets: list[str]  # tokens that it writes, one for each row
    layer: int
    head: int
    weights: list[list[float]]
    receipt: dict[str, Any]
    row: int  # of the arrow that was knocked out
    column: int
    before: float  # the probability of the row's token with the arrow
    after: float  # and without it
    instead: str  # the token that is written without it

    def row_label(self, row: int) -> str:
        """The token that a row reads and, in brackets, the next one: as in `see` and on the page."""
        return f"{make_visible(self.reads[row])} ({make_visible(self.targets[row])})"


def run(
    html: Annotated[Path | None, typer.Option("--html", help="Save a page with every number in this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """“The cat sat” in four dimensions through a self-attention layer, with every number.

    Example: transom tour --json
    """
    steps = compute_tour()
    translation = translate_example()
    if not (steps["receipt"]["holds"] and translation.receipt["holds"]):
        print_note("these weights do not reproduce the layer's output, so nothing is shown; transom doctor says more")
        raise typer.Exit(1)
    if as_json:
        print_json(steps | {"translation": asdict(translation)})
        return
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        note_if_narrow(shutil.get_terminal_size().columns)
    page = [] if html is None else [save_page(html)]
    for line in (*tour_lines(steps), *translation_lines(translation), *page, *next_commands()):
        print_styled(line)


def save_page(path: Path) -> Text:
    """Save every step as a page, in which each cell opens its arithmetic; returns a line about it."""
    from transom.lessons.lesson_file import load_shipped
    from transom.show import draw

    with write_errors_as_misfit(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    draw("steps", load_shipped(LESSON)).save(path)
    return Text(f"6  Every number of “The cat sat” with its arithmetic, to open in a browser: {path}")


def compute_tour() -> dict[str, Any]:
    """Every step in float64: what the layer computes, and how the note's figure comes about."""
    import torch

    import transom
    from transom.equations import attention
    from transom.lessons.lesson_file import load_shipped

    lesson = load_shipped(LESSON)
    x = torch.from_numpy(lesson.steps()["embedding"].values)[None]
    layer = transom.layers.SelfAttention(d_model=x.shape[-1]).to(x.dtype)
    with torch.no_grad():
        for W in (layer.W_Q, layer.W_K, layer.W_V):
            W.weight.copy_(torch.eye(x.shape[-1]))
        Q, K, V = layer.project(x)
        sight = transom.sight(Q, K, V)
        tensors = {"embeddings": x, "Q": Q[0], "K": K[0], "V": V[0], "scores": attention.scores(Q, K)[0]}
        tensors |= {"scaled": sight.scores(batch=0), "weights": sight.weights(batch=0), "context": layer(x)}
    steps = {name: tensor[0].tolist() for name, tensor in tensors.items()}
    slip = reproduce_slip(steps["weights"][0], lesson)
    return {"tokens": list(lesson.steps().tokens), **steps, "slip": slip, "receipt": receipt_to_dict(sight)}


def receipt_to_dict(sight: Any) -> dict[str, Any]:
    receipt = sight.receipt()
    return {**asdict(receipt), "holds": receipt.holds}


def reproduce_slip(weights: Row, lesson: Any) -> dict[str, Any]:
    """The context of "The" with the value of "sat" misread and the weights cut, not rounded, to four decimals."""
    printed = next([float(number) for number in claim.value] for claim in lesson.claims if claim.slip == "value vector")
    misread = lesson.steps(SLIP)["V"].values.tolist()
    cut = [math.floor(weight * 10_000) / 10_000 for weight in weights]
    columns = zip(*misread, strict=True)
    sums = [sum(weight * number for weight, number in zip(cut, column, strict=True)) for column in columns]
    retold = [round(number, 4) for number in sums]
    return {"printed": printed, "weights": cut, "V": misread, "retold": retold, "reproduced": retold == printed}


def translate_example() -> TourTranslation:
    """Translate the sentence, find the head and the arrow that matter most, and knock the arrow out."""
    from transom.lens.attribution.head_ranking import HeadRanker, preferred_layers
    from transom.runner import load_text_model
    from transom.runner.watched_run import encode_and_continue, watch_run

    model = load_text_model()
    target = model.translate([SENTENCE], beams=1)[0]
    text_run = encode_and_continue(model, SENTENCE, target)
    encoded, (trace, logits) = text_run.encoded, watch_run(text_run)
    layer, head, *_ = HeadRanker(model.model, encoded.inputs, preferred_layers(trace)).rank().first
    sight = trace[layer]
    weights = sight.weights(batch=0, head=head)
    row, column, before, after, instead = strongest_effect(text_run, (layer, head), weights, logits)
    return TourTranslation(
        source=SENTENCE,
        target=target,
        sources=encoded.tokens,
        reads=encoded.targets,
        targets=encoded.written,
        layer=int(layer.split(".")[2]),
        head=head,
        weights=weights.tolist(),
        receipt=receipt_to_dict(sight),
        row=row,
        column=column,
        before=before,
        after=after,
        instead=instead,
    )


def strongest_effect(
    text_run: "TextRun", head: tuple[str, int], weights: "Tensor", logits: "Tensor"
) -> tuple[int, int, float, float, str]:
    """Of each row's strongest arrow, the one whose loss costs its token most: row and column, the probability of the
    token before and after, and the token written without the arrow."""
    from transom.lens import knock_out

    model, (layer, number) = text_run.model, head
    before = logits[0].softmax(dim=-1)
    written = before.argmax(dim=-1).tolist()  # greedy search wrote the most likely tokens
    trials = []
    for row, token in enumerate(written):
        column = int(weights[row].argmax())
        with knock_out(model.model, layer=layer, head=number, query=row, key=column):
            after = model.run(text_run.encoded)[0].softmax(dim=-1)
        loss = float(before[row, token] - after[row, token])
        trials.append((loss, row, column, float(after[row, token]), int(after[row].argmax())))
    _, row, column, chance, instead = max(trials, key=lambda trial: trial[0])
    return row, column, float(before[row, written[row]]), chance, model.token_strings([instead])[0]


def tour_lines(steps: dict[str, Any]) -> Iterator[Text]:
    """The steps in words and numbers, line by line."""
    tokens = steps["tokens"]
    yield Text(
        f"“{' '.join(tokens)}” in four dimensions, through a self-attention layer with identity parameters", "bold"
    )
    yield Text("1  Each token is a vector x. Since W_Q = W_K = W_V = I, it is its query, key and value too.")
    for token, vector in zip(tokens, steps["embeddings"], strict=True):
        yield Text.assemble("   ", (token, "bold"), f"  {format_vector(vector)}")
    yield Text("2  Each row looks from a token, each column is looked at. Softmax makes a row of weights sum to 1.")
    yield from matrix_lines(steps)
    yield Text("3  The context of a token: each value times its weight, summed up (shown to four decimals).")
    for token, weights, context in zip(tokens, steps["weights"], steps["context"], strict=True):
        yield Text.assemble("   ", (token, "bold"), f"  {weighted_sum_text(weights, steps['V'], context)}")
    yield from correction_lines(steps)


def matrix_lines(steps: dict[str, Any]) -> Iterator[Text]:
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
        blocks = "  ".join(shade(weight) * 5 for weight in steps["weights"][row])
        yield Text.assemble("   ", (f"{token:<9}", "bold"), numbers, "    ", (blocks, "cyan"))


def correction_lines(steps: dict[str, Any]) -> Iterator[Text]:
    """The note's figure, why it is impossible, how it comes about, and the right one."""
    slip, tokens = steps["slip"], steps["tokens"]
    exact, cut, misread = steps["weights"][0][1], slip["weights"][1], format_vector(slip["V"][2])
    printed = format_vector(slip["printed"], ".4f")
    yield Text(f"4  The note this example comes from prints {printed} for “{tokens[0]}”. It cannot be:")
    yield Text("   values from 0 to 1 with weights that sum to 1 give contexts from 0 to 1. The figure comes out if")
    yield Text(
        f"   the value of “{tokens[2]}” is taken as {misread} and the weights are cut off ({exact:.6f} to {cut}):"
    )
    outcome = "as printed" if slip["reproduced"] else "not as printed"
    yield Text(f"   {weighted_sum_text(slip['weights'], slip['V'], slip['retold'])} {outcome}")
    yield Text(f"   {weighted_sum_text(steps['weights'][0], steps['V'], steps['context'][0])} right")


def translation_lines(translation: TourTranslation) -> Iterator[Text]:
    """The translation, the head as a picture, and the effect of one arrow."""
    rows = [translation.row_label(row) for row in range(len(translation.reads))]
    sources = list(map(make_visible, translation.sources))
    head = f"layer {translation.layer}, head {translation.head}"
    yield Text()
    yield Text(f"5  The translator that comes with Transom: “{translation.source}” → “{translation.target}”")
    yield Text(f"   Where {head} looked, the head it needs most here (in brackets: what comes next):")
    widths, margin = [max(3, len(token)) for token in sources], max(11, *map(len, rows))
    names = "  ".join(f"{token:<{width}}" for token, width in zip(sources, widths, strict=True))
    yield Text(f"   {'from ↓ at →':<{margin}}  {names}".rstrip())
    for label, weights in zip(rows, translation.weights, strict=True):
        blocks = "  ".join(f"{shade(weight) * 3:<{width}}" for weight, width in zip(weights, widths, strict=True))
        yield Text.assemble("   ", (f"{label:<{margin}}", "bold"), "  ", (blocks.rstrip(), "cyan"))
    token, instead = translation.targets[translation.row].strip(), translation.instead.strip()
    weight = translation.weights[translation.row][translation.column]
    then = "it would still be written" if instead == token else f"“{instead}” would be written"
    arrow = f"“{rows[translation.row]}” → “{sources[translation.column]}”"
    yield Text(f"   Knock out the arrow {arrow} (weight {weight:.2f}; · is a space):")
    chances = f"from {translation.before:.3f} to {translation.after:.3f}"
    yield Text(f"   the chance of “{token}” goes {chances}, and {then}.")


def note_if_narrow(columns: int) -> None:
    if columns < WIDTH:
        print_note(f"the tour's tables need {WIDTH} columns, and this terminal has {columns}: lines will wrap")


def next_commands() -> Iterator[Text]:
    yield Text()
    yield Text("Next, try:")
    for command, purpose in NEXT.items():
        yield Text(f"   {command_as_typed()} {command:<32} {purpose}")


def shade(weight: float) -> str:
    """A weight as a block: the darker, the larger."""
    return SHADES[max(0, math.ceil(weight * len(SHADES)) - 1)]


def weighted_sum_text(weights: Row, V: Sequence[Row], total: Row) -> str:
    terms = (f"{weight:.4f}·{format_vector(value)}" for weight, value in zip(weights, V, strict=True))
    return f"{' + '.join(terms)} = {format_vector(total, '.4f')}"


def format_vector(vector: Row, number_format: str = "g") -> str:
    return f"[{' '.join(f'{number:{number_format}}' for number in vector)}]"


def command_as_typed() -> str:
    """How this command is called here: `transom`, or the path it was called by if the shell would not find it."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        return "python -m transom"
    return "transom" if shutil.which("transom") == called else shlex.quote(called)
