"""The result of an audit: one JSON file, and the page of the docs that is made from it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from audit.configurations import BLOCK, IMPLEMENTATIONS
from audit.judgement import BAD, EXACT, NOT_BUILDABLE, NOT_OFFERED, VERDICTS
from audit.pool import Row

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "docs/audit.json", ROOT / "docs/audit.md"
COLUMNS = (*IMPLEMENTATIONS, BLOCK)
KEPT = ("name", "implementation", "class", "verdict", "reason", "seen", "own", "detected", "proof", "unseen")
MOST_UNSEEN = 3  # of the unseen modules of one configuration, so many are kept by name

INTRODUCTION = """# audit: every architecture, watched

`make audit` builds a small model with random parameters of every architecture that the installed `transformers` knows,
with sdpa and with eager attention, and of some blocks written for it. It runs each one unwatched, watched, and under a
detector that knows nothing of Transom, and compares. This page is its result; `docs/audit.json` has every row.

* **Output**: all numbers that the model returns are bit-identical, watched and unwatched.
* **Own weights**: those that the model itself returns (`output_attentions=True`, eager) equal those in the trace,
  within 5e-5 in float32.
* **The detector** (`audit/attention_detector.py`) follows products of activations through PyTorch's operators. A
  product that goes through a softmax, an exponential, a sigmoid or a rectifier into another product is attention, and
  its weights are compared as well; a product of products is linear attention. What it finds must be shown, listed in
  `trace.unseen`, or be the reason of an error. If it is none of these, the verdict is *silent*.

The plain model of each architecture is taken; its classes with a head run the same attention. Inputs are 11 tokens, or
a small image or sound, without padding. Each configuration runs in a process with limits on time and memory, so a crash
or a hang would be a row of its own.
"""


def summarise(rows: list[Row]) -> dict[str, dict[str, int]]:
    """How many configurations have each verdict, by implementation."""
    counts = Counter((row["verdict"], row["implementation"]) for row in rows)
    return {verdict: {column: counts[verdict, column] for column in COLUMNS} for verdict in VERDICTS}


def to_json(rows: list[Row], versions: dict[str, str], minutes: float) -> str:
    """The file that is kept."""
    ordered = sorted(rows, key=lambda row: (row["implementation"] == BLOCK, row["name"], row["implementation"]))
    kept = [{key: trim(key, row[key]) for key in KEPT if row.get(key)} for row in ordered]
    head = {"versions": versions, "minutes": minutes, "counts": summarise(rows)}
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in kept)
    return json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n'


def trim(key: str, value: Any) -> Any:
    return value[:MOST_UNSEEN] if key == "unseen" else value


def to_page(result: dict[str, Any]) -> str:
    """The page of the docs."""
    rows, versions = result["rows"], result["versions"]
    ran = [row for row in rows if row["verdict"] not in {NOT_BUILDABLE, NOT_OFFERED}]
    parts = [INTRODUCTION]
    parts.append("Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".\n")
    parts.append(f"## Counts\n\n{len(ran)} configurations ran; it took {result['minutes']} minutes on two cores.\n")
    parts.append(counts_table(result["counts"]))
    for verdict in VERDICTS:
        chosen = [row for row in rows if row["verdict"] == verdict]
        if chosen and verdict not in {EXACT, NOT_BUILDABLE, NOT_OFFERED}:
            parts.append(f"## {verdict.capitalize()}\n\n{rows_table(chosen)}")
    exact = sorted({row["name"] for row in rows if row["verdict"] == EXACT})
    parts.append(f"## Exact\n\n{', '.join(exact)}.\n")
    refused = sorted({(row["name"], row["reason"]) for row in rows if row["verdict"] == NOT_BUILDABLE})
    parts.append(
        "## Not buildable small\n\n| architecture | what the library says |\n|---|---|\n"
        + "".join(f"| {name} | {escape(reason)} |\n" for name, reason in dict(refused).items())
    )
    return "\n".join(parts)


def counts_table(counts: dict[str, dict[str, int]]) -> str:
    head = "| verdict | meaning | " + " | ".join(COLUMNS) + " |\n|---|---|" + "---|" * len(COLUMNS) + "\n"
    return head + "".join(
        f"| {verdict} | {meaning} | " + " | ".join(str(counts[verdict][column]) for column in COLUMNS) + " |\n"
        for verdict, meaning in VERDICTS.items()
    )


def rows_table(rows: list[Row]) -> str:
    """One row for each name and reason; the implementations that have it together."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row["name"], row.get("reason") or row.get("proof", "")), []).append(row["implementation"])
    lines = [f"| {name} | {', '.join(sorted(how))} | {escape(reason)} |\n" for (name, reason), how in grouped.items()]
    return "| configuration | attention | reason |\n|---|---|---|\n" + "".join(lines)


def escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def load() -> dict[str, Any]:
    """The result on file."""
    return json.loads(RESULT.read_text(encoding="utf-8"))


def write(rows: list[Row], versions: dict[str, str], minutes: float) -> None:
    """Write both files."""
    RESULT.write_text(to_json(rows, versions, minutes), encoding="utf-8")
    PAGE.write_text(to_page(load()), encoding="utf-8")


def summary(rows: list[Row]) -> str:
    """One line of counts."""
    counts = Counter(row["verdict"] for row in rows)
    words = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict] or verdict in BAD[:4]]
    return f"{len(rows)} configurations: {', '.join(words)}"
