"""Before and after: the same questions, asked in turn of the transom in another checkout and of this one.

    git worktree add ../before COMMIT
    (cd ../before && python setup.py build_ext --inplace)
    python -m bench attention generation --beside ../before

The bench, the interpreter and the peers are the same for both; only the folder that `import transom` finds differs. A
row has Transom's best figure of each tree, their ratio, and the ratio of the peer's figures. The peer is the same, so
if its ratio is far from 1, the machine was not quiet.
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.measuring.instruments import note
from bench.measuring.table import ROWS, Row, format_number, rows_of
from bench.measuring.timing import RUNS
from bench.peers.environment import ROOT

ENGINES = "transom/kernels/native/*.so"
Key = tuple[str, str, str, str]  # question, case, peer, unit


def check_trees(tree: Path) -> str:
    """Why two trees cannot be compared; empty if they can."""
    if not (tree / "src/transom/__init__.py").is_file():
        return f"--beside needs a checkout of Transom, but {tree} has no src/transom; name its root"
    built = {folder: bool(list((folder / "src").glob(ENGINES))) for folder in (tree, ROOT)}
    if len(set(built.values())) > 1:
        without = next(folder for folder, found in built.items() if not found)
        way_out = "build it: python setup.py build_ext --inplace"
        return f"both trees need their native engine, but {without} has none; {way_out}"
    return ""


def ask_tree(question: str, tree: Path, options: Namespace) -> dict[str, Any]:
    """The answer to a question with the transom of a tree."""
    command = [sys.executable, "-m", "bench", question, "--json", "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds)]
    command += [f"--{name}" for name in ("quick", "processor") if getattr(options, name)]
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve() / "src")}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise RuntimeError(f"{question} gave no answer with the transom of {tree}; its words are above")
    return json.loads(done.stdout)


def best_figures(rows: list[Row]) -> dict[Key, tuple[float | None, float | None]]:
    """The best figures of Transom and of the peer over all runs, by row."""
    found: dict[Key, tuple[float | None, float | None]] = {}
    for row in rows:
        key = (row.question, row.case, row.peer, row.unit)
        pairs = zip(found.get(key, (None, None)), (row.ours, row.theirs), strict=True)
        found[key] = tuple(min((one for one in pair if one is not None), default=None) for pair in pairs)  # pyright: ignore[reportArgumentType]
    return found


def format_ratio(after: float | None, before: float | None) -> str:
    return "–" if after is None or not before else f"{after / before:.2f}"


def render_comparison(before: list[Row], after: list[Row]) -> str:
    """A table with a row for each comparison of the tree here."""
    lines = ["| question | case | unit | before | after | after ÷ before | peer | peer's, after ÷ before |"]
    lines.append("|---|---|---|---:|---:|---:|---|---:|")
    then, now = best_figures(before), best_figures(after)
    for key, (ours, theirs) in now.items():
        question, case, peer, unit = key
        own, other = then.get(key, (None, None))
        cells = (
            question,
            case,
            unit,
            format_number(own),
            format_number(ours),
            format_ratio(ours, own),
            peer,
            format_ratio(theirs, other),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compare_trees(questions: list[str], options: Namespace) -> int:
    """Ask both trees in turn, twice, and print one table."""
    before: list[Row] = []
    after: list[Row] = []
    for run in range(RUNS):
        for question in questions or ROWS:
            for tree, rows in ((options.beside, before), (ROOT, after)):
                note(f"run {run + 1} of {RUNS}: {question}, {tree}")
                rows += rows_of(question, ask_tree(question, tree, options))
    print(render_comparison(before, after))
    return 0
