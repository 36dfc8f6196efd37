"""What does attention cost, and what does it cost to look into it?

`attend` and a Sight with every statistic, against PyTorch's fused attention (which returns only the output) and eager
attention (which returns its weights), as ratios to the fused one in the same run; then the peak memory of each, and of
every statistic of a Sight at 32,768 tokens.

    python -m bench attention [--json] [--quick] [--threads N]
"""

from argparse import Namespace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import transom
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
from bench.measuring.timing import Work, measure_interleaved, unsteady_contenders

SHAPES = [(8, 8, 128, 64), (1, 12, 512, 64), (1, 12, 2048, 64), (1, 8, 4096, 128), (1, 12, 8192, 64)]
WEIGHT_COPIES = {"eager": 4, "eager + statistics": 6}  # tensors of the weights' size that each holds at its peak
LONG = (1, 1, 32_768, 64)
MEMORY_BAR = 1024 * MiB


def random_tensors(shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(shape), torch.randn(shape), torch.randn(shape)


def prepare_sdpa(shape: tuple[int, ...], causal: bool) -> Work:
    return partial(F.scaled_dot_product_attention, *random_tensors(shape), is_causal=causal)


def prepare_attend(shape: tuple[int, ...], causal: bool) -> Work:
    return partial(transom.attend, *random_tensors(shape), causal=causal)


def prepare_sight(shape: tuple[int, ...], causal: bool) -> Work:
    """Output, log-sum-exp, entropy, peak, distance, received and the top 8."""
    Q, K, V = random_tensors(shape)

    def work() -> object:
        found = transom.sight(Q, K, V, at_once=True, causal=causal)
        return found.statistics, found.top(8)

    return work


def prepare_eager(shape: tuple[int, ...], causal: bool) -> Work:
    """Attention in plain PyTorch, which also returns the weights."""
    Q, K, V = random_tensors(shape)

    def work() -> tuple[Tensor, Tensor]:
        scores = Q @ K.mT / shape[3] ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones(shape[2], shape[2], dtype=torch.bool).triu(1), -torch.inf)
        weights = scores.softmax(-1)
        return weights @ V, weights

    return work


def prepare_eager_statistics(shape: tuple[int, ...], causal: bool) -> Work:
    """Eager attention, and the same statistics computed from its weights."""
    attention = prepare_eager(shape, causal)
    places = torch.arange(shape[2])

    def work() -> object:
        _, weights = attention()  # pyright: ignore[reportGeneralTypeIssues]
        away = (places[:, None] - places).abs().float()
        entropy = torch.special.entr(weights).sum(-1)
        return entropy, weights.amax(-1), (weights * away).sum(-1), weights.sum(-2), weights.topk(8)

    return work


CONTENDERS = {
    "sdpa": prepare_sdpa,
    "attend": prepare_attend,
    "sight": prepare_sight,
    "eager": prepare_eager,
    "eager + statistics": prepare_eager_statistics,
}


def fits_memory(name: str, shape: tuple[int, ...]) -> bool:
    return 4 * shape[0] * shape[1] * shape[2] ** 2 * WEIGHT_COPIES.get(name, 0) <= SHARE * free_memory()


def measure_shape(shape: tuple[int, ...], causal: bool, quick: bool) -> dict[str, object]:
    """Time and peak memory of every contender on one shape."""
    note(f"{shape} {'causal' if causal else 'full'} …")
    running = {name: make for name, make in CONTENDERS.items() if fits_memory(name, shape)}
    with torch.no_grad():
        works = {name: make(shape, causal) for name, make in running.items()}
        times = measure_interleaved(works, repeats=8 if quick else 30, seconds=1 if quick else 20)
    memory = {name: measure_peak_memory(make, shape, causal) for name, make in running.items()}
    return {
        "shape": shape,
        "causal": causal,
        "milliseconds": {name: 1e3 * time["best"] for name, time in times.items()},
        "ratio": {name: time["best"] / times["sdpa"]["best"] for name, time in times.items()},
        "median_ratio": {name: time["median"] / times["sdpa"]["median"] for name, time in times.items()},
        "peak_MiB": {name: found / MiB for name, found in memory.items()},
        "unsteady": unsteady_contenders(times),
    }


STATISTICS = {
    "output and lse": lambda found: found.output,
    "entropy, peak, distance, received": lambda found: found.statistics,
    "top(8)": lambda found: found.top(8),
    "map(256 cells)": lambda found: found.map(0),
    "receipt": lambda found: found.receipt(),
    "one row of weights": lambda found: found.weights(rows=-1),
}


def prepare_statistic(name: str, shape: tuple[int, ...], causal: bool) -> Work:
    Q, K, V = random_tensors(shape)
    return lambda: STATISTICS[name](transom.sight(Q, K, V, causal=causal))


def measure_long_memory(shape: tuple[int, ...]) -> dict[str, float]:
    """Peak memory of every statistic of a Sight, each in its own process."""
    note(f"memory of every statistic at {shape} …")
    return {name: measure_peak_memory(prepare_statistic, name, shape, True) / MiB for name in STATISTICS}


def render_table(results: list[dict], long: dict[str, float], shape: tuple[int, ...]) -> str:
    """Columns: milliseconds of SDPA, ratios to it (of the minima; in brackets of the medians), MiB."""
    lines = [f"{'shape':<18}{'':<8}{'SDPA ms':>9}" + "".join(f"{name:>22}" for name in list(CONTENDERS)[1:])]
    for one in results:
        line = f"{one['shape']!s:<18}{'causal' if one['causal'] else 'full':<8}{one['milliseconds']['sdpa']:>9.2f}"
        for name in list(CONTENDERS)[1:]:
            found = f"{one['ratio'][name]:.2f} ({one['median_ratio'][name]:.2f})" if name in one["ratio"] else "not run"
            line += f"{found:>22}"
        lines.append(line)
    lines.append("\npeak MiB beyond Q, K, V" + "".join(f"{name:>20}" for name in CONTENDERS))
    for one in results:
        peaks = "".join(f"{one['peak_MiB'].get(name, float('nan')):>20.0f}" for name in CONTENDERS)
        lines.append(f"{one['shape']!s:<18}{'causal' if one['causal'] else 'full':<6}" + peaks)
    lines.append(f"\npeak MiB of a Sight at {shape}, causal; the bar is {MEMORY_BAR / MiB:.0f}")
    lines += [f"  {name:<36}{peak:>8.0f}" for name, peak in long.items()]
    return "\n".join(lines)


def run(options: Namespace) -> int:
    """Measure and print; the exit code is 1 if the memory exceeds its bar."""
    shapes = SHAPES[:2] if options.quick else SHAPES
    long_shape = (1, 1, 4096, 64) if options.quick else LONG
    results = [measure_shape(shape, causal, options.quick) for shape in shapes for causal in (False, True)]
    long = measure_long_memory(long_shape)
    result = {"machine": machine_info(), "attention": results, "long_peak_MiB": {"shape": long_shape, **long}}
    print_answer(options, result, f"{format_facts(machine_info())}\n\n{render_table(results, long, long_shape)}")
    return 0 if max(long.values()) * MiB <= MEMORY_BAR else 1
