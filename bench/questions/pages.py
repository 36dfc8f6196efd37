"""How big does the picture of an attention get with the text, beside BertViz's?

One layer of GPT-2's small size (12 heads, random parameters). BertViz needs every weight (Hugging Face's eager
attention, `output_attentions=True`) and writes all of them into the page of its head view, as text. Transom's page of
all heads has an exact map of each, pooled beyond 48 tokens; single weights stay in the trace, which is counted too, and
are worked out when asked for. So the two pages do not hold the same: BertViz's has every weight of the layer inside.

    python -m bench pages [--json] [--quick] [--threads N]
"""

import json
import subprocess
import sys
from argparse import Namespace
from typing import Any

from bench.measuring.instruments import SHARE, MiB, answer, free, machine, note
from bench.measuring.timing import RUNS, left, unsteady
from bench.peers.environment import ROOT, Absent, asked, command, last_words, present

SIZES = {"heads": 12, "d_model": 768}
LENGTHS = [512, 1024, 2048]
# Bytes of memory that BertViz takes for a weight, roughly: a number in a list, its text, that text in a page.
A_WEIGHT = 160


def ours(sizes: dict[str, Any]) -> dict[str, Any]:
    asked_here = command("page_contender", "Transom", sizes, interpreter=sys.executable)
    done = subprocess.run(asked_here, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"Transom's page: {last_words(done.stderr, done.returncode)}")
    return json.loads(done.stdout)


def bertviz(sizes: dict[str, Any]) -> dict[str, Any]:
    weights = sizes["heads"] * sizes["tokens"] ** 2
    if weights * A_WEIGHT > SHARE * free():
        return {
            "not run": f"{weights:,} weights as text would take about {weights * A_WEIGHT / 2**30:.0f} GiB of memory"
        }
    if left() < 0:
        return {"not run": "the time of this question was up; more of it: --seconds"}
    try:
        return {"version": present("BertViz"), **asked("page_contender", "BertViz", sizes, seconds=90)}
    except Absent as missing:
        return {"not run": str(missing)}


def compared(sizes: dict[str, Any]) -> dict[str, Any]:
    """Both in turn, in two runs, each time in a new process; what took longer than the time left has one run."""
    runs: dict[str, list[dict[str, Any]]] = {"Transom": [], "BertViz": []}
    for number in range(RUNS):
        note(f"{sizes['tokens']} tokens, run {number + 1} …")
        for name, measure in (("Transom", ours), ("BertViz", bertviz)):
            if not runs[name] or ("not run" not in runs[name][0] and left() > seconds_of(runs[name][0])):
                found = measure(sizes)
                runs[name] += [found] if not runs[name] or "not run" not in found else []
    times = {name: {"runs": [seconds_of(one) for one in found]} for name, found in runs.items()}
    best = {name: min(found, key=seconds_of) for name, found in runs.items()}
    once = [name for name, found in runs.items() if len(found) == 1 and "not run" not in found[0]]
    return {"tokens": sizes["tokens"], **best, "unsteady": unsteady(times), "one run": once}


def seconds_of(found: dict[str, Any]) -> float:
    return 0.0 if "not run" in found else found["seen_seconds"] + found["drawn_seconds"]


def run(options: Namespace) -> int:
    """Measure and print."""
    sizes = {**SIZES, "threads": options.threads}
    results = [compared({**sizes, "tokens": length}) for length in ([128] if options.quick else LENGTHS)]
    answer(options, {"machine": machine(), "compared": results}, table(results))
    return 0


def table(results: list[dict[str, Any]]) -> str:
    lines = [f"{'tokens':>7}  {'':<10}{'seen s':>9}{'drawn s':>9}{'page MiB':>10}{'trace MiB':>11}{'peak MiB':>10}"]
    for one in results:
        for name in ("Transom", "BertViz"):
            found = one[name]
            if "not run" in found:
                lines.append(f"{one['tokens']:>7}  {name:<10}{found['not run']}")
                continue
            trace = f"{found['trace_bytes'] / MiB:.1f}" if "trace_bytes" in found else "–"
            lines.append(
                f"{one['tokens']:>7}  {name:<10}{found['seen_seconds']:>9.2f}{found['drawn_seconds']:>9.2f}"
                f"{found['page_bytes'] / MiB:>10.2f}{trace:>11}{found['peak'] / MiB:>10.0f}"
            )
        lines += [f"{'':>9}{name} has one run: the time was up" for name in one["one run"]]
    return "\n".join(lines)
