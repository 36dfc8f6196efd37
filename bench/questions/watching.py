"""What does it cost to watch a model, beside the ways there are to have its weights?

A random GPT-2 of the small size, without its head. First in one process, in turn: its forward pass watched ÷ unwatched,
and every statistic of every head ÷ the attention's own forward; and what watching keeps beside what it says it keeps.
Then, each in a process of its own that ends with its turn, at growing lengths: time and peak memory of a forward pass
that leaves its attention behind, by Transom, by Hugging Face's eager attention, by TransformerLens and by nnsight. What
would not fit into memory is not run; its weights alone are counted instead.

    python -m bench watching [--json] [--quick] [--threads N]

TransformerLens and nnsight want packages of their own: `make bench-peers` installs them (see bench/peers). Lengths
for which the time is too short are left out, and said to be; `--seconds 900` has time for all.
"""

import sys
from argparse import Namespace
from typing import Any

import torch
import torch.nn.functional as F

from bench.measuring.instruments import SHARE, MiB, answer, free, machine, note, peak_memory, spelled
from bench.measuring.timing import RUNS, interleaved, left, unsteady
from bench.peers.contender_process import ContenderProcess
from bench.peers.environment import Absent, contender, present, python
from bench.peers.watching_contender import CONTENDERS, gpt2, text, unwatched, watched

SIZES = {"tokens": 2048, "layers": 12, "d_model": 768, "heads": 12}
LENGTHS = [2048, 512, 4096, 8192]  # in this order, as the time allows
QUICK = {"tokens": 512, "layers": 4, "d_model": 192, "heads": 6}
TIME_BAR, STATISTICS_BAR = 1.05, 0.6
HOLD_WEIGHTS = ("Hugging Face eager", "TransformerLens", "nnsight")
ELSEWHERE = ("TransformerLens", "nnsight")  # contenders that may need another python
A_PROCESS = 15  # seconds that one at 2,048 tokens may be expected to take, in one run
IN_QUICK = ("Transom", "Hugging Face eager")


def in_turn(sizes: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Watched ÷ unwatched, and statistics ÷ attention, in one process."""
    import transom

    note(f"{sizes['tokens']} tokens, watched and unwatched in turn …")
    repeats, seconds = (8, 2) if quick else (15, max(20.0, min(120.0, left() / 6)))
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
    ways = () if quick else (("unwatched", unwatched), ("watched", watched))
    peaks = {name: peak_memory(make, sizes) for name, make in ways}
    return {
        "sizes": sizes,
        "seconds": {name: time["best"] for name, time in (times | looks).items()},
        "watched ÷ unwatched": times["watched"]["best"] / times["unwatched"]["best"],
        "of the medians": times["watched"]["median"] / times["unwatched"]["median"],
        "statistics ÷ attention": looks["statistics"]["best"] / looks["attention"]["best"],
        "kept_MiB": kept / MiB,
        "more_MiB": (peaks["watched"] - peaks["unwatched"]) / MiB if peaks else None,
        "unsteady": unsteady(times | looks),
    }


def refuse(name: str, sizes: dict[str, Any], seconds: float, quick: bool) -> str:
    """Why a contender is not run; nothing if it is."""
    weights = sizes["layers"] * sizes["heads"] * sizes["tokens"] ** 2 * 4
    if name in HOLD_WEIGHTS and weights > SHARE * free():
        return f"its weights alone take {weights / 2**30:.1f} GiB, and {free() / 2**30:.1f} GiB are free"
    if quick and name not in IN_QUICK:
        return "left out of a quick run"
    if seconds < RUNS * A_PROCESS * sizes["tokens"] / SIZES["tokens"]:
        return "the time of this question was up; more of it: --seconds"
    return ""


def compared(sizes: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Time and peak memory of each contender at one length, or why there is none."""
    who: dict[str, ContenderProcess] = {}
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    seconds = left()
    for name in CONTENDERS:
        try:
            if reason := refuse(name, sizes, seconds, quick):
                raise Absent(reason)
            interpreter = python() if name in ELSEWHERE and present(name) else sys.executable
        except Absent as reason:
            missing[name] = str(reason)
        else:
            who[name] = contender("watching_contender", name, sizes, interpreter=interpreter)
            seconds -= RUNS * A_PROCESS * sizes["tokens"] / SIZES["tokens"]
    note(f"{sizes['tokens']} tokens, {', '.join(who)} …")
    times = interleaved(who, 4 if quick else 6, 16 * len(who), missing)
    for name in CONTENDERS:
        if name in times:
            one = times[name]
            found[name] = {"seconds": one["runs"], "peak": one["peak"], "peaks": one["peaks"]}
        else:
            found[name] = {"not run": missing[name]}
    more = {"unsteady": unsteady(times), "unsteady_peaks": unsteady(times, "peaks")}
    return {"tokens": sizes["tokens"], "contenders": found, **more}


def grew(first: dict[str, Any]) -> str:
    more = first["more_MiB"]
    return "the peak was left out of a quick run" if more is None else f"the peak grew by {more:.0f} MiB"


def table(first: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The ratios of the first part, then seconds and MiB of each contender at each length."""
    lines = [
        f"{first['sizes']['tokens']} tokens, {first['sizes']['layers']} layers, d_model {first['sizes']['d_model']}",
        f"  watched ÷ unwatched     {first['watched ÷ unwatched']:.3f}  (of the medians {first['of the medians']:.3f};"
        f" the bar is {TIME_BAR})",
        f"  statistics ÷ attention  {first['statistics ÷ attention']:.2f}  (the bar is {STATISTICS_BAR})",
        f"  kept                    {first['kept_MiB']:.0f} MiB of Q, K, V, output and log-sum-exp; {grew(first)}",
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
    lengths = [sizes["tokens"]] if options.quick else LENGTHS
    results = [compared({**sizes, "threads": options.threads, "tokens": length}, options.quick) for length in lengths]
    results.sort(key=lambda result: result["tokens"])
    told = {"machine": machine(), "in_turn": first, "compared": results}
    answer(options, told, f"{spelled(machine())}\n\n{table(first, results)}")
    return 0 if first["watched ÷ unwatched"] <= TIME_BAR or options.quick else 1
