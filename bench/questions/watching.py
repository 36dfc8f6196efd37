"""What does it cost to watch a model, beside the ways there are to have its weights?

A random GPT-2 of the small size, without its head. First in one process, in turn: its forward pass watched ÷ unwatched,
and every statistic of every head ÷ the attention's own forward; and what watching keeps beside what it says it keeps.
Then, each in a process of its own, at growing lengths: time and peak memory of a forward pass that leaves its attention
behind, by Transom, by Hugging Face's eager attention, by TransformerLens and by nnsight. What would not fit into memory
is not run; its weights alone are counted instead.

    python -m bench watching [--json] [--quick] [--threads N]

TransformerLens and nnsight want packages of their own: `make bench-peers` installs them (see bench/peers). Lengths
for which the time is too short are left out, and said to be; `--seconds 900` has time for all.
"""

import json
import subprocess
import sys
from argparse import Namespace
from typing import Any

import torch
import torch.nn.functional as F

from bench.measuring.instruments import SHARE, MiB, answer, free, interleaved, left, machine, note, peak_memory, spelled
from bench.peers.environment import ROOT, Absent, command, last_words, present, python
from bench.peers.watched_by import CONTENDERS, gpt2, text, unwatched, watched

SIZES = {"tokens": 2048, "layers": 12, "d_model": 768, "heads": 12}
LENGTHS = [2048, 512, 4096, 8192]  # in this order, as the time allows
QUICK = {"tokens": 256, "layers": 2, "d_model": 96, "heads": 3}
TIME_BAR, STATISTICS_BAR = 1.05, 0.6
HOLD_WEIGHTS = ("Hugging Face eager", "TransformerLens", "nnsight")
ELSEWHERE = ("TransformerLens", "nnsight")  # contenders that may need another python
A_PROCESS = 15  # seconds that one at 2,048 tokens may be expected to take


def in_turn(sizes: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Watched ÷ unwatched, and statistics ÷ attention, in one process."""
    import transom

    note(f"{sizes['tokens']} tokens, watched and unwatched in turn …")
    repeats, seconds = (3, 2) if quick else (15, max(20.0, min(120.0, left() / 6)))
    with torch.no_grad():
        times = interleaved({"unwatched": unwatched(sizes), "watched": watched(sizes)}, repeats, seconds)
        model, tokens = gpt2(sizes, "sdpa"), text(sizes)
        with transom.watch(model) as trace:
            model(tokens)
        sights = list(trace)

        def attention() -> None:
            for sight in sights:
                F.scaled_dot_product_attention(sight.Q, sight.K, sight.V, is_causal=True)

        def statistics() -> None:
            for sight in sights:
                vars(sight).pop("statistics", None)  # it is kept once it is known
                _ = sight.statistics

        looks = interleaved({"attention": attention, "statistics": statistics}, repeats, seconds)
    kept = sum(x.nbytes for sight in sights for x in (sight.Q, sight.K, sight.V, sight.output, sight.lse))
    peaks = {name: peak_memory(make, sizes) for name, make in (("unwatched", unwatched), ("watched", watched))}
    return {
        "sizes": sizes,
        "seconds": {name: time["best"] for name, time in (times | looks).items()},
        "watched ÷ unwatched": times["watched"]["best"] / times["unwatched"]["best"],
        "of the medians": times["watched"]["median"] / times["unwatched"]["median"],
        "statistics ÷ attention": looks["statistics"]["best"] / looks["attention"]["best"],
        "kept_MiB": kept / MiB,
        "more_MiB": (peaks["watched"] - peaks["unwatched"]) / MiB,
    }


def one(contender: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """Time and peak memory of one contender, or why there is none."""
    weights = sizes["layers"] * sizes["heads"] * sizes["tokens"] ** 2 * 4
    if contender in HOLD_WEIGHTS and weights > SHARE * free():
        return {"not run": f"its weights alone take {weights / 2**30:.1f} GiB, and {free() / 2**30:.1f} GiB are free"}
    if left() < A_PROCESS * sizes["tokens"] / SIZES["tokens"]:
        return {"not run": "the time of this question was up; more of it: --seconds"}
    try:
        interpreter = python() if contender in ELSEWHERE and present(contender) else sys.executable
    except Absent as missing:
        return {"not run": str(missing)}
    note(f"{sizes['tokens']} tokens, {contender} …")
    done = subprocess.run(
        command("watched_by", contender, sizes, interpreter=interpreter),
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        return {"not run": f"it ended with {last_words(done.stderr, done.returncode)}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def compared(sizes: dict[str, Any]) -> dict[str, Any]:
    return {"tokens": sizes["tokens"], "contenders": {name: one(name, sizes) for name in CONTENDERS}}


def table(first: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The ratios of the first part, then seconds and MiB of each contender at each length."""
    lines = [
        f"{first['sizes']['tokens']} tokens, {first['sizes']['layers']} layers, d_model {first['sizes']['d_model']}",
        f"  watched ÷ unwatched     {first['watched ÷ unwatched']:.3f}  (of the medians {first['of the medians']:.3f};"
        f" the bar is {TIME_BAR})",
        f"  statistics ÷ attention  {first['statistics ÷ attention']:.2f}  (the bar is {STATISTICS_BAR})",
        f"  kept                    {first['kept_MiB']:.0f} MiB of Q, K, V, output and log-sum-exp; the peak grew by"
        f" {first['more_MiB']:.0f} MiB",
        "",
        f"{'tokens':>7}  {'contender':<26}{'seconds':>9}{'÷ Transom':>11}{'peak MiB':>10}{'÷ Transom':>11}",
    ]
    for result in results:
        ours = result["contenders"]["Transom"]
        for name, found in result["contenders"].items():
            start = f"{result['tokens']:>7}  {name:<26}"
            if "not run" in found:
                lines.append(f"{start}{'–':>9}  {found['not run']}")
                continue
            best, peak = min(found["seconds"]), found["peak"] / MiB
            times = "" if "not run" in ours else f"{best / min(ours['seconds']):>11.2f}"
            sizes = "" if "not run" in ours else f"{peak / (ours['peak'] / MiB):>11.1f}"
            lines.append(f"{start}{best:>9.2f}{times}{peak:>10.0f}{sizes}")
    return "\n".join(lines)


def run(options: Namespace) -> int:
    """Measure, print, and say by the exit code whether watching stayed under its bar."""
    sizes = QUICK if options.quick else SIZES
    first = in_turn(sizes, options.quick)
    more = {"threads": options.threads, "repeats": 2 if options.quick else 3, "seconds": 8}
    lengths = [128] if options.quick else LENGTHS
    results = [compared({**sizes, **more, "tokens": length}) for length in lengths]
    results.sort(key=lambda result: result["tokens"])
    told = {"machine": machine(), "in_turn": first, "compared": results}
    answer(options, told, f"{spelled(machine())}\n\n{table(first, results)}")
    return 0 if first["watched ÷ unwatched"] <= TIME_BAR or options.quick else 1
