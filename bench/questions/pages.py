"""How large does the page of an attention become with the length of the text, beside BertViz's?

One layer of GPT-2's small size (12 heads, random parameters). BertViz needs every weight (Hugging Face's eager
attention, `output_attentions=True`) and writes all of them as text into the page of its head view. Transom's page of
all heads has an exact map of each, pooled beyond 48 tokens; single weights are computed on demand from the trace, which
is measured too. So the two pages differ: BertViz's holds every weight of the layer.

    python -m bench pages [--json] [--quick] [--threads N]
"""

import json
import subprocess
import sys
from argparse import Namespace
from typing import Any

from bench.measuring.instruments import SHARE, MiB, free_memory, machine_info, note, print_answer
from bench.measuring.timing import RUNS, seconds_left, unsteady_contenders
from bench.peers.environment import ROOT, PeerUnavailable, failure_reason, module_command, require_peer, run_module

SIZES = {"heads": 12, "d_model": 768}
LENGTHS = [512, 1024, 2048]
# Roughly the memory that BertViz needs for a weight: a number in a list, its text, that text in a page.
BYTES_PER_WEIGHT = 160


def measure_transom(sizes: dict[str, Any]) -> dict[str, Any]:
    own_command = module_command("page_contender", "Transom", sizes, interpreter=sys.executable)
    done = subprocess.run(own_command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"Transom's page: {failure_reason(done.stderr, done.returncode)}")
    return json.loads(done.stdout)


def measure_bertviz(sizes: dict[str, Any]) -> dict[str, Any]:
    weights = sizes["heads"] * sizes["tokens"] ** 2
    size = weights * BYTES_PER_WEIGHT
    if size > SHARE * free_memory():
        return {"not run": f"{weights:,} weights as text would take about {size / 2**30:.0f} GiB of memory"}
    if seconds_left() < 0:
        return {"not run": "the time of this question was up; more of it: --seconds"}
    try:
        return {"version": require_peer("BertViz"), **run_module("page_contender", "BertViz", sizes, seconds=90)}
    except PeerUnavailable as missing:
        return {"not run": str(missing)}


def measure_length(sizes: dict[str, Any]) -> dict[str, Any]:
    """Both in turn, in two runs, each in a new process; only one run if there is no time for a second."""
    runs: dict[str, list[dict[str, Any]]] = {"Transom": [], "BertViz": []}
    for number in range(RUNS):
        note(f"{sizes['tokens']} tokens, run {number + 1} …")
        for name, measure in (("Transom", measure_transom), ("BertViz", measure_bertviz)):
            if not runs[name] or ("not run" not in runs[name][0] and seconds_left() > total_seconds(runs[name][0])):
                found = measure(sizes)
                runs[name] += [found] if not runs[name] or "not run" not in found else []
    times = {name: {"runs": [total_seconds(one) for one in found]} for name, found in runs.items()}
    best = {name: min(found, key=total_seconds) for name, found in runs.items()}
    once = [name for name, found in runs.items() if len(found) == 1 and "not run" not in found[0]]
    return {"tokens": sizes["tokens"], **best, "unsteady": unsteady_contenders(times), "one run": once}


def total_seconds(found: dict[str, Any]) -> float:
    return 0.0 if "not run" in found else found["seen_seconds"] + found["drawn_seconds"]


def run(options: Namespace) -> int:
    """Measure and print."""
    sizes = {**SIZES, "threads": options.threads}
    results = [measure_length({**sizes, "tokens": length}) for length in ([128] if options.quick else LENGTHS)]
    print_answer(options, {"machine": machine_info(), "compared": results}, render_table(results))
    return 0


def render_table(results: list[dict[str, Any]]) -> str:
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
