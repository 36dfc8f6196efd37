"""How do models that differ in one setting learn? Trains them by one recipe, and draws curves to docs/curves.

    python -m bench.curves [arrangements] [positions] [mask --text input.txt] [--updates N] [--into docs/curves]

Each comparison becomes a JSON file (every figure, and what the models generated) and a picture. `mask` needs a long
text, such as tiny Shakespeare. All of them take a quarter of an hour.
"""

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.measuring.instruments import note
from bench.peers.environment import ROOT
from transom.layers.positions import POSITIONS
from transom.models import Decoder, EncoderDecoder
from transom.show import draw
from transom.text.corpora import Pair
from transom.training.dataset import train_and_validation
from transom.training.inference import continue_text, load_for_task, translate
from transom.training.recipe import Recipe, load_recipe
from transom.training.run_log import read_log as read_log
from transom.training.train import LOG, train

MEAN_OF = 10  # updates in one point of a training loss
PROMPT, CHARACTERS = "ROMEO:\n", 200
LENGTHS, EXAMPLES, TRIALS = (1, 12, 18), 12_000, 100  # of digits: shortest, longest in training, longest in the test


def evaluate_translation(model: Path, recipe: Recipe) -> dict[str, Any]:
    """How many held-out sources it translates correctly, and the first few."""
    found, (_, unseen) = load_for_task(model, "encoder_decoder"), train_and_validation(recipe, Pair, on_test_set=False)
    assert isinstance(found.model, EncoderDecoder)
    translations = translate(found.model, found.tokenizer, [pair.source for pair in unseen])
    right = sum(words == pair.target for words, pair in zip(translations, unseen, strict=True))
    wrote = [{"source": pair.source, "wrote": words} for words, pair in zip(translations[:3], unseen, strict=False)]
    return {"right": right, "of": len(unseen), "examples": wrote}


def evaluate_by_length(model: Path, recipe: Recipe) -> dict[str, Any]:
    """The share of new sequences that it reverses without a mistake, by length, also beyond the trained lengths."""
    found = load_for_task(model, "encoder_decoder")
    assert isinstance(found.model, EncoderDecoder)
    random.seed(2)
    right = []
    for length in range(LENGTHS[0], LENGTHS[2] + 1):
        pairs = [digits_and_reverse(length) for _ in range(TRIALS)]
        translations = translate(found.model, found.tokenizer, [source for source, _ in pairs])
        right.append(
            (length, sum(words == target for words, (_, target) in zip(translations, pairs, strict=True)) / TRIALS)
        )
    return {"right_by_length": right}


def digits_and_reverse(length: int) -> tuple[str, str]:
    """Random digits, and the same in reverse."""
    digits = random.choices("0123456789", k=length)
    return " ".join(digits), " ".join(reversed(digits))


def shipped_pairs(options: argparse.Namespace, folder: Path) -> str:
    return f"{ROOT}/recipes/reverse.tsv"


def text_option(options: argparse.Namespace, folder: Path) -> str:
    return options.text


def write_digits(options: argparse.Namespace, folder: Path) -> str:
    """Write a file of distinct digit sequences with their reverse; most are long, since there are more long ones."""
    random.seed(1)
    first, longest, _ = LENGTHS
    pairs = {digits_and_reverse(random.randint(first, longest)) for _ in range(EXAMPLES)}
    file = folder / "digits.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in sorted(pairs)), encoding="utf-8")
    return str(file)


def generate_sample(model: Path, recipe: Recipe) -> dict[str, Any]:
    """What it generates after a prompt, by sampling."""
    found = load_for_task(model, "decoder")
    assert isinstance(found.model, Decoder)
    settings = {"do_sample": True, "seed": 1, "eos_token_id": None, "max_new_tokens": CHARACTERS}
    return {"prompt": PROMPT, "wrote": continue_text(found.model, found.tokenizer, PROMPT, **settings)}


@dataclass(frozen=True)
class Comparison:
    """A recipe with settings, and its curves: for each a label and the one setting that differs."""

    title: str
    recipe: str
    settings: tuple[str, ...]
    curves: dict[str, str]
    evaluate: Callable[[Path, Recipe], dict[str, Any]]
    notes: tuple[str, ...]
    data: Callable[[argparse.Namespace, Path], str] = shipped_pairs
    plotted_key: str = "held_out"
    across: str = "update"


COMPARISONS = {
    "arrangements": Comparison(
        "Six letters backwards: three arrangements of a block, 2 + 2 layers",
        "recipes/reverse.toml",
        (
            *("model.encoder_layers=2", "model.decoder_layers=2", "optimizer.rate=3e-3", "schedule.warmup=50"),
            *("train.updates=500", "train.judge_every=25", "judge.write=false"),
        ),
        {
            "post-norm": "model.arrangement=post_norm",
            "pre-norm": "model.arrangement=pre_norm",
            "no skip around attention": "model.arrangement=no_skip",
        },
        evaluate_translation,
        ("Loss on held-out pairs, in nats a token.",),
    ),
    "mask": Comparison(
        "A writer of characters, with and without the causal mask",
        "recipes/shakespeare_char.toml",
        (
            *("model.layers=2", "model.d_model=64", "model.d_hidden=256", "model.longest=16"),
            *("train.block=16", "train.rows=48", "optimizer.rate=3e-3"),
            *("train.updates=600", "train.judge_every=30", "judge.examples=960"),
        ),
        {"without the mask": "model.causal=false", "with the mask": "model.causal=true"},
        generate_sample,
        ("Loss on held-out text, in nats a character. Without the mask the next character is among those it sees.",),
        data=text_option,
    ),
    "positions": Comparison(
        "Digits backwards: six ways to tell positions, learned up to 12 digits",
        "recipes/reverse.toml",
        (
            *("model.encoder_layers=2", "model.decoder_layers=2", "model.d_model=64", "model.d_hidden=128"),
            *("model.longest=32", "data.longest=32", "optimizer.rate=2e-3", "schedule.warmup=100"),
            *("train.tokens=1024", "train.updates=1200", "train.judge_every=100", "judge.write=false"),
        ),
        {kind: f"model.positions={kind}" for kind in POSITIONS},
        evaluate_by_length,
        ("Share of sequences turned round without a mistake, by length. It learned from up to 12 digits.",),
        data=write_digits,
        plotted_key="right_by_length",
        across="digits",
    ),
}


def train_and_read_log(recipe: Recipe) -> list[dict[str, float]]:
    """Train; returns the lines of the log."""
    train(recipe)
    return read_log(Path(recipe.folder) / LOG)


def mean_losses(losses: list[tuple[int, float]], of: int = MEAN_OF) -> list[tuple[int, float]]:
    """Training losses, averaged over every few updates."""
    parts = [losses[first : first + of] for first in range(0, len(losses), of)]
    return [(part[-1][0], round(sum(loss for _, loss in part) / len(part), 4)) for part in parts]


def train_curve(comparison: Comparison, change: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train and evaluate one model; its figures."""
    with TemporaryDirectory() as folder:
        data = f"data.train={comparison.data(options, Path(folder))}"
        sets = [*comparison.settings, change, *update_settings(options), data, f"folder={folder}/run"]
        recipe = load_recipe(ROOT / comparison.recipe, sets)
        lines: list[Any] = train_and_read_log(recipe)
        evaluation = comparison.evaluate(Path(recipe.folder) / "model", recipe)
    return {
        "setting": change,
        "training": mean_losses([(line["update"], line["loss"]) for line in lines if "loss" in line]),
        "held_out": [(line["update"], round(line["judged"]["loss"], 4)) for line in lines if "judged" in line],
        **evaluation,
    }


def update_settings(options: argparse.Namespace) -> list[str]:
    return [f"train.updates={options.updates}"] if options.updates else []


def run_comparison(name: str, options: argparse.Namespace) -> None:
    """Train all models of a comparison; save the curves as JSON and as a picture."""
    comparison, curves, into = COMPARISONS[name], {}, options.into
    for label, change in comparison.curves.items():
        note(f"{name}: {label}")
        curves[label] = train_curve(comparison, change, options)
    into.mkdir(parents=True, exist_ok=True)
    (into / f"{name}.json").write_text(to_json(comparison, update_settings(options), curves), encoding="utf-8")
    lines = {label: one[comparison.plotted_key] for label, one in curves.items()}
    picture = draw("curves", lines, title=comparison.title, across=comparison.across, notes=comparison.notes)
    (into / f"{name}.svg").write_text(picture.svg(), encoding="utf-8")
    note(f"{into / name}.json and .svg")


def to_json(comparison: Comparison, updates: list[str], curves: dict[str, Any]) -> str:
    """A JSON document with one line for each curve."""
    lines = ",\n".join(f"{json.dumps(label)}: {json.dumps(one, ensure_ascii=False)}" for label, one in curves.items())
    header = [
        f'"recipe": {json.dumps(comparison.recipe)}',
        f'"settings": {json.dumps([*comparison.settings, *updates])}',
    ]
    return "{\n" + ",\n".join([*header, f'"curves": {{\n{lines}\n}}']) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.curves", description="Curves of models that differ in one thing"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(COMPARISONS)}; all unless named")
    parser.add_argument("--text", help="a long text for mask to learn from")
    parser.add_argument("--updates", type=int, help="fewer or more than the comparison has")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "curves", help="the folder to write to")
    options = parser.parse_args()
    names = options.names or list(COMPARISONS)
    for name in names:
        if name not in COMPARISONS:
            parser.error(f"there is no comparison {name!r}; there is {', '.join(COMPARISONS)}")
        if COMPARISONS[name].data is text_option and options.text is None:
            parser.error(f"{name} learns from a long text, but none was named; give --text input.txt")
    for name in names:
        run_comparison(name, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
