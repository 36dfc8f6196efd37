"""What the recipes reach, beside published figures: trains, evaluates, and saves figures and curves to docs/curves.

    python -m bench.results NAME … --data FOLDER [--runs out] [--set KEY=VALUE]
    python -m bench.results --table

FOLDER holds a folder for each data set, under the names in RESULTS; some results need none. A stopped run is resumed; a
finished one is only evaluated. `--table` rewrites the table of docs/results.md and the pictures of the curves from the
saved figures.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import torch

from bench.curves import mean_losses
from bench.measuring.instruments import note
from bench.peers.environment import ROOT
from bench.reference_results import RESULTS, TOKENISED, Curves, Result, ResultFigures
from transom.models import EncoderDecoder
from transom.models.folder import read_config_header
from transom.names import Misfit
from transom.show import draw
from transom.training.evaluate import evaluate
from transom.training.inference import load_for_task, translate
from transom.training.loop import Callback, TrainingLoop, UpdateResult
from transom.training.progress import format_duration, progress_for
from transom.training.recipe import Recipe, load_recipe
from transom.training.run_log import read_log as read_log
from transom.training.train import LOG, MODEL, train

CURVES, PAGE = ROOT / "docs" / "curves", ROOT / "docs" / "results.md"
BEGIN, END = "<!-- the table: python -m bench.results --table -->", "<!-- end of the table -->"
POINTS = 60  # of a curve, at most


def format_setting(key: str, files: str | tuple[str, str], data: Path) -> str:
    """One `--set`, with the paths of the files."""
    names = [files] if isinstance(files, str) else list(files)
    paths = [str(data / name) for name in names]
    return f"{key}={paths[0] if isinstance(files, str) else json.dumps(paths)}"


def load_result_recipe(result: Result, name: str, options: argparse.Namespace, final: bool = False) -> Recipe:
    """The recipe of a result with its data; `final` evaluates on the test set."""
    files = result.files | (result.final_files if final else {})
    sets = [format_setting(key, names, options.data) for key, names in files.items()]
    if final and result.final_files:
        sets.append("data.held_out=0")
    return load_recipe(ROOT / result.recipe, [*result.settings, *sets, f"folder={options.runs / name}", *options.sets])


class Clock(Callback):
    """Counts the seconds of a run, also of one that was stopped and resumed: saved beside its log."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "seconds.json"
        self.seconds: float = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else 0.0

    def on_update(self, training: TrainingLoop, result: UpdateResult) -> None:
        self.seconds += result.seconds
        if result.update % training.recipe.train.checkpoint_every == 0 or result.update == result.total_updates:
            self.file.write_text(json.dumps(self.seconds), encoding="utf-8")


def train_once(recipe: Recipe) -> float:
    """Train unless the run has finished; returns the seconds it took, without evaluation."""
    clock = Clock(Path(recipe.folder))
    if not (Path(recipe.folder) / MODEL).exists():
        train(recipe, callbacks=[progress_for(sys.stderr), clock])
    return clock.seconds


def loss_curves(lines: list[dict[str, Any]]) -> Curves:
    """Training losses, as means of several updates each, and held-out losses."""
    losses = [(line["update"], line["loss"]) for line in lines if "loss" in line]
    judged = [(line["update"], round(line["judged"]["loss"], 4)) for line in lines if "judged" in line]
    return {"while learning": mean_losses(losses, max(1, len(losses) // POINTS)), "held out": judged}


def add_published_level(found: Curves, level: float) -> Curves:
    """The curves with a horizontal line at the published loss."""
    first, *_, last = sorted(update for points in found.values() for update, _ in points)
    return {**found, "published, at its end": [(first, level), (last, level)]}


def train_and_evaluate(name: str, result: Result, options: argparse.Namespace) -> ResultFigures:
    """Train by a recipe, and evaluate."""
    recipe = load_result_recipe(result, name, options)
    seconds = train_once(recipe)
    folder = Path(recipe.folder)
    found = evaluate(load_result_recipe(result, name, options, final=True), folder / MODEL, result.beams, note)
    measures = dict(found.metrics)
    if result.moses:
        measures[TOKENISED] = moses_bleu(result, folder / MODEL, options.data)
    threads = recipe.train.threads or torch.get_num_threads()
    course = loss_curves(read_log(folder / LOG))
    if recipe.judge.examples:
        course = add_final_loss(course, recipe.judge.examples, round(measures["loss"], 4))
    return ResultFigures(measures, found.signature, seconds, threads, course, (loss_note(recipe, folder / MODEL),))


def loss_note(recipe: Recipe, model: Path) -> str:
    """A note on the losses of a run, for those who read its curves."""
    dropped = any(share for word, share in read_config_header(model).items() if word.endswith("dropout"))
    there = {"label smoothing": recipe.train.smoothing, "dropout": dropped}
    only = " and ".join(word for word, share in there.items() if share)
    loss = "Loss in nats a text" if recipe.task == "classify" else "Loss in nats a token"
    return f"{loss}; while learning with {only}, held out without." if only else f"{loss}."


def add_final_loss(course: Curves, examples: int, whole: float) -> Curves:
    """The curves of a run that was evaluated on a part while training, with the final loss on all held-out data."""
    judged = course["held out"]
    training = {"while learning": course["while learning"]}
    return {**training, f"held out, the first {examples}": judged, "held out, all": [(judged[-1][0], whole)]}


def moses_bleu(result: Result, folder: Path, data: Path) -> float:
    """BLEU over Moses' tokens in lower case: as it is published, not as sacreBLEU tokenises."""
    from sacrebleu.metrics.bleu import BLEU
    from sacremoses import MosesTokenizer

    sources, targets = (
        gzip.decompress((data / file).read_bytes()).decode().splitlines() for file in result.final_files["data.valid"]
    )
    found = load_for_task(folder, "encoder_decoder")
    assert isinstance(found.model, EncoderDecoder)
    translations = translate(found.model, found.tokenizer, sources, result.beams)
    split = MosesTokenizer(lang=result.moses)
    theirs, ours = (
        [" ".join(split.tokenize(line.lower(), aggressive_dash_splits=True, escape=False)) for line in lines]
        for lines in (targets, translations)
    )
    return BLEU(tokenize="none", force=True).corpus_score(ours, [theirs]).score


def save_result(name: str, result: Result, options: argparse.Namespace) -> None:
    """Compute one result; save its figures and its curves."""
    found = result.work() if result.work else train_and_evaluate(name, result, options)
    figures = {
        "recipe": result.recipe,
        "settings": list(options.sets),
        "measures": {key: round(value, 4) for key, value in found.measures.items()},
        "signature": found.signature,
        "seconds": round(found.seconds),
        "threads": found.threads,
        "curves": found.curves,
        "notes": found.notes,
    }
    CURVES.mkdir(parents=True, exist_ok=True)
    (CURVES / f"{name}.json").write_text(json.dumps(figures) + "\n", encoding="utf-8")
    (CURVES / f"{name}.svg").write_text(render_curves(name), encoding="utf-8")
    note(f"{name}: {result.measure} {found.measures[result.measure]:.4g}")


def saved_names() -> list[str]:
    return [name for name in RESULTS if (CURVES / f"{name}.json").exists()]


def load_figures(name: str) -> dict[str, Any]:
    return json.loads((CURVES / f"{name}.json").read_text(encoding="utf-8"))


def render_curves(name: str) -> str:
    """The saved curves of a result, as SVG."""
    result, figures = RESULTS[name], load_figures(name)
    lines = figures["curves"] if result.level is None else add_published_level(figures["curves"], result.level)
    return draw("curves", lines, title=result.what, across="update", notes=figures["notes"]).svg()


def render_table() -> str:
    """The saved results, as a Markdown table."""
    lines = ["| what | recipe | judged on | published | here | time |", "|---|---|---|---|---|---|"]
    for name in saved_names():
        result, figures = RESULTS[name], load_figures(name)
        here = "; ".join(f"{word} **{figures['measures'][word]:.4g}**" for word in (result.measure, *result.also))
        threads = "one thread" if figures["threads"] == 1 else f"{figures['threads']} threads"
        took = f"{format_duration(float(figures['seconds']))}, {threads}"
        recipe = f"`{Path(result.recipe).name}`, [curve](curves/{name}.svg)"
        lines.append(f"| {result.what} | {recipe} | {result.judged_on} | {result.published} | {here} | {took} |")
    return "\n".join(lines)


def write_table() -> None:
    for name in saved_names():
        (CURVES / f"{name}.svg").write_text(render_curves(name), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{render_table()}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.results", description="What the recipes reach")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RESULTS))
    parser.add_argument("--data", type=Path, help="the folder with the data sets")
    parser.add_argument("--runs", type=Path, default=ROOT / "out", help="where runs are kept")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help="as in train")
    parser.add_argument("--table", action="store_true", help="write the table of docs/results.md and its pictures anew")
    options = parser.parse_args()
    for name in options.names:
        if name not in RESULTS:
            parser.error(f"there is no result {name!r}; there is {', '.join(RESULTS)}")
        if RESULTS[name].files and options.data is None:
            parser.error(f"{name} learns from data, but no folder was named; give --data FOLDER")
        if options.sets and RESULTS[name].work:
            parser.error(f"{name} has no recipe, so --set {options.sets[0]} can change nothing; leave it out")
    for name in options.names:
        try:
            save_result(name, RESULTS[name], options)
        except Misfit as error:
            parser.error(f"{name}: {error}")
    if options.table:
        write_table()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
