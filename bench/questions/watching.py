"""What does it cost to watch a model, beside the other ways to get its weights?

A random GPT-2 of the small size, without its output layer. First, in turn in one process: a watched forward pass ÷ an
unwatched one, every statistic of every head ÷ the forward of the attention, and the memory that watching takes, also
of attention in windows over a long text. Then at
growing lengths, each in a process that ends with its turn: time and peak memory of a forward pass that also gives its
attention, by Transom, Hugging Face's eager attention, TransformerLens and nnsight. What would not fit into memory is
not run; the size of its weights is printed instead.

    python -m bench watching [--json] [--quick] [--threads N]

TransformerLens and nnsight need packages of their own: `make bench-peers` installs them (see bench/peers). Lengths for
which there is no time are left out, and the table says so; `--seconds 900` is enough for all.
"""

import sys
from argparse import Namespace
from typing import Any

import torch
import torch.nn.functional as F

from bench.measuring.instruments import (
    SHARE,
    MiB,
    format_facts,
    free_memory,
    machine_info,
    measure_peak_memory,
    note,
    print_answer,
)
from bench.measuring.timing import RUNS, measure_interleaved, seconds_left, unsteady_contenders
from bench.peers.contender_process import ContenderProcess
from bench.peers.environment import PeerUnavailable, module_contender, peer_python, require_peer
from bench.peers.watching_contender import (
    CONTENDERS,
    build_gpt2,
    prepare_sparse_unwatched,
    prepare_sparse_watched,
    prepare_unwatched,
    prepare_watched,
    random_tokens,
)

SIZES = {"tokens": 2048, "layers": 12, "d_model": 768, "heads": 12}
LENGTHS = [2048, 512, 4096, 8192]  # in this order, as the time allows
QUICK = {"tokens": 512, "layers": 4, "d_model": 192, "heads": 6}
SHORT = {"tokens": 128, "layers": 4, "d_model": 192, "heads": 6}  # where watching weighs most
TIME_BAR, SHORT_BAR, STATISTICS_BAR = 1.05, 1.15, 0.6
HOLD_WEIGHTS = ("Hugging Face eager", "TransformerLens", "nnsight")
IN_PEER_PYTHON = ("TransformerLens", "nnsight")  # contenders that may need another python
SECONDS_PER_PROCESS = 15  # expected for one run at 2,048 tokens
IN_QUICK = ("Transom", "Hugging Face eager")
SPARSE = {"tokens": 16384, "window": 64, "layers": 1, "d_model": 32, "heads": 2}  # Longformer


def measure_in_turn(sizes: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Watched ÷ unwatched, and statistics ÷ attention, in one process."""
    import transom

    note(f"{sizes['tokens']} tokens, watched and unwatched in turn …")
    repeats, seconds = (8, 2) if quick else (15, max(20.0, min(120.0, seconds_left() / 6)))
    with torch.no_grad():
        times = measure_interleaved(
            {"unwatched": prepare_unwatched(sizes), "watched": prepare_watched(sizes)}, repeats, seconds
        )
        model, tokens = build_gpt2(sizes, "sdpa"), random_tokens(sizes)
        with transom.watch(model) as trace:
            model(tokens)
        sights = list(trace)

        def attention() -> None:
            for sight in sights:
                F.scaled_dot_product_attention(sight.Q, sight.K, sight.V, is_causal=True)

        def statistics() -> None:
            for sight in sights:
                vars(sight).pop("statistics", None)  # it is cached once computed
                _ = sight.statistics

        analysis = measure_interleaved({"attention": attention, "statistics": statistics}, repeats, seconds)
    kept = sum(x.nbytes for sight in sights for x in (sight.Q, sight.K, sight.V, sight.output, sight.lse))
    ways = () if quick else (("unwatched", prepare_unwatched), ("watched", prepare_watched))
    peaks = {name: measure_peak_memory(make, sizes) for name, make in ways}
    return {
        "sizes": sizes,
        "seconds": {name: time["best"] for name, time in (times | analysis).items()},
        "watched ÷ unwatched": times["watched"]["best"] / times["unwatched"]["best"],
        "of the medians": times["watched"]["median"] / times["unwatched"]["median"],
        "statistics ÷ attention": analysis["statistics"]["best"] / analysis["attention"]["best"],
        "kept_MiB": kept / MiB,
        "more_MiB": (peaks["watched"] - peaks["unwatched"]) / MiB if peaks else None,
        "unsteady": unsteady_contenders(times | analysis),
    }


def measure_short(quick: bool) -> dict[str, Any]:
    """Watched ÷ unwatched for a small model and a short text."""
    note(f"{SHORT['tokens']} tokens, watched and unwatched in turn …")
    repeats, seconds = (60, 2) if quick else (300, 20)
    with torch.no_grad():
        times = measure_interleaved(
            {"unwatched": prepare_unwatched(SHORT), "watched": prepare_watched(SHORT)}, repeats, seconds
        )
    return {
        "sizes": SHORT,
        "watched ÷ unwatched": times["watched"]["best"] / times["unwatched"]["best"],
        "of the medians": times["watched"]["median"] / times["unwatched"]["median"],
    }


def measure_sparse() -> dict[str, Any]:
    """What watching attention in windows takes, beside the dense weights that are never made."""
    note(f"{SPARSE['tokens']} tokens in windows of {SPARSE['window']} …")
    peaks = [measure_peak_memory(make, SPARSE) for make in (prepare_sparse_unwatched, prepare_sparse_watched)]
    dense = SPARSE["layers"] * SPARSE["heads"] * SPARSE["tokens"] ** 2 * 4
    return {"sizes": SPARSE, "more_MiB": (peaks[1] - peaks[0]) / MiB, "dense_MiB": dense / MiB}


def format_sparse(sparse: dict[str, Any] | None) -> str:
    if sparse is None:
        return "left out of a quick run"
    sizes = sparse["sizes"]
    return (
        f"the peak grew by {sparse['more_MiB']:.0f} MiB; dense weights would take {sparse['dense_MiB']:.0f}"
        f" (Longformer, {sizes['tokens']} tokens, windows of {sizes['window']}, {sizes['heads']} heads)"
    )


def reason_to_skip(name: str, sizes: dict[str, Any], seconds: float, quick: bool) -> str:
    """Why a contender is not run; empty if it is."""
    weights = sizes["layers"] * sizes["heads"] * sizes["tokens"] ** 2 * 4
    if name in HOLD_WEIGHTS and weights > SHARE * free_memory():
        return f"its weights alone take {weights / 2**30:.1f} GiB, and {free_memory() / 2**30:.1f} GiB are free"
    if quick and name not in IN_QUICK:
        return "left out of a quick run"
    if seconds < RUNS * SECONDS_PER_PROCESS * sizes["tokens"] / SIZES["tokens"]:
        return "the time of this question was up; more of it: --seconds"
    return ""


def measure_length(sizes: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Time and peak memory of each contender at one length, or why it was not run."""
    contenders: dict[str, ContenderProcess] = {}
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    seconds = seconds_left()
    for name in CONTENDERS:
        try:
            if reason := reason_to_skip(name, sizes, seconds, quick):
                raise PeerUnavailable(reason)
            interpreter = peer_python() if name in IN_PEER_PYTHON and require_peer(name) else sys.executable
        except PeerUnavailable as reason:
            missing[name] = str(reason)
        else:
            contenders[name] = module_contender("watching_contender", name, sizes, interpreter=interpreter)
            seconds -= RUNS * SECONDS_PER_PROCESS * sizes["tokens"] / SIZES["tokens"]
    note(f"{sizes['tokens']} tokens, {', '.join(contenders)} …")
    times = measure_interleaved(contenders, 4 if quick else 6, 16 * len(contenders), missing)
    for name in CONTENDERS:
        if name in times:
            one = times[name]
            found[name] = {"seconds": one["runs"], "peak": one["peak"], "peaks": one["peaks"]}
        else:
            found[name] = {"not run": missing[name]}
    more = {"unsteady": unsteady_contenders(times), "unsteady_peaks": unsteady_contenders(times, "peaks")}
    return {"tokens": sizes["tokens"], "contenders": found, **more}


def format_growth(first: dict[str, Any]) -> str:
    more = first["more_MiB"]
    return "the peak was left out of a quick run" if more is None else f"the peak grew by {more:.0f} MiB"


def render_table(
    first: dict[str, Any], short: dict[str, Any], sparse: dict[str, Any] | None, results: list[dict[str, Any]]
) -> str:
    """The ratios of the first part, then seconds and MiB of each contender at each length."""
    growth = format_growth(first)
    lines = [
        f"{first['sizes']['tokens']} tokens, {first['sizes']['layers']} layers, d_model {first['sizes']['d_model']}",
        f"  watched ÷ unwatched     {first['watched ÷ unwatched']:.3f}  (of the medians {first['of the medians']:.3f};"
        f" the bar is {TIME_BAR})",
        f"  … at {short['sizes']['tokens']} tokens         {short['watched ÷ unwatched']:.3f}  (of the medians"
        f" {short['of the medians']:.3f}; {short['sizes']['layers']} layers, d_model {short['sizes']['d_model']}; the"
        f" bar is {SHORT_BAR})",
        f"  statistics ÷ attention  {first['statistics ÷ attention']:.2f}  (the bar is {STATISTICS_BAR})",
        f"  kept                    {first['kept_MiB']:.0f} MiB of Q, K, V, output and log-sum-exp; {growth}",
        f"  in windows              {format_sparse(sparse)}",
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
    """Measure and print; the exit code is 1 if watching exceeds its bar."""
    sizes = QUICK if options.quick else SIZES
    first = measure_in_turn(sizes, options.quick)
    short, sparse = measure_short(options.quick), None if options.quick else measure_sparse()
    lengths = [sizes["tokens"]] if options.quick else LENGTHS
    results = [
        measure_length({**sizes, "threads": options.threads, "tokens": length}, options.quick) for length in lengths
    ]
    results.sort(key=lambda result: result["tokens"])
    result = {"machine": machine_info(), "in_turn": first, "short": short, "sparse": sparse, "compared": results}
    print_answer(options, result, f"{format_facts(machine_info())}\n\n{render_table(first, short, sparse, results)}")
    holds = first["watched ÷ unwatched"] <= TIME_BAR and short["watched ÷ unwatched"] <= SHORT_BAR
    return 0 if holds or options.quick else 1
