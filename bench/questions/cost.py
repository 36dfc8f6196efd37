"""What would it take to watch a model too large, or a text too long, for this machine?

Memory follows from the sizes alone; the formulas are compared with what a small model really keeps. Time follows from
rates: those of the statistics, the map, the receipt and PyTorch's own attention are measured on two shapes, in
processor time on one thread, and their predictions for other shapes are compared with measurements. Then both are
computed for models and lengths that do not fit here.

    python -m bench cost [--json] [--quick]
"""

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import transom
from bench.measuring.instruments import format_facts, machine_info, note, print_answer
from bench.measuring.timing import Work
from transom.kernels import dispatch, weight_stats
from transom.kernels.problem import build_problem
from transom.lens.attention.receipt import check_receipt
from transom.lens.attention.sight import AttentionView, Sight

FLOAT32 = 4  # bytes: every statistic, every log-sum-exp, and all numbers of a trace on file


@dataclass(frozen=True)
class PassSizes:
    """One forward pass: the sizes of a model and of its text, and the bytes of one of its numbers."""

    name: str
    layers: int
    heads: int
    kv_heads: int
    d_head: int
    tokens: int
    number: int = 2


MODELS = [
    PassSizes("GPT-2 small", 12, 12, 12, 64, 8_192, number=4),
    PassSizes("Llama 3.1 8B", 32, 32, 8, 128, 131_072),
    PassSizes("Llama 3.1 70B", 80, 64, 8, 128, 131_072),
    PassSizes("Llama 3.1 70B", 80, 64, 8, 128, 2**20),
]


def row_count(one: PassSizes) -> int:
    """Attention rows in all heads."""
    return one.layers * one.heads * one.tokens


def pair_count(one: PassSizes) -> float:
    """Weights of causal attention in all heads."""
    return row_count(one) * (one.tokens + 1) / 2


def vector_numbers(one: PassSizes) -> int:
    """Numbers in Q and the output (one set per head) and in K and V (one per group of heads)."""
    return one.layers * one.tokens * 2 * (one.heads + one.kv_heads) * one.d_head


MEMORY: dict[str, Callable[[PassSizes], int]] = {
    "all weights": lambda one: row_count(one) * one.tokens * one.number,
    'keep="qkv"': lambda one: vector_numbers(one) * one.number + row_count(one) * FLOAT32,
    "its trace on file": lambda one: (vector_numbers(one) + row_count(one)) * FLOAT32,
    'keep="statistics"': lambda one: 5 * row_count(one) * FLOAT32,  # lse, entropy, peak, distance; received
    "one layer, qkv": lambda one: MEMORY['keep="qkv"'](replace(one, layers=1)),
}


@dataclass(frozen=True)
class Rate:
    """Processor seconds for one pair of a row and a key: `product` for each of its d_head products, plus `pair`."""

    product: float
    pair: float

    def seconds(self, count: float, d_head: int) -> float:
        return count * (self.product * d_head + self.pair)


def solve_random_problem(tokens: int, d_head: int) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    Q, K, V = (torch.randn(1, 1, tokens, d_head) for _ in range(3))
    problem = build_problem(Q, K, V, causal=True)
    return (Q, K, V), problem, dispatch.solve(problem)


def prepare_passes(tokens: int, d_head: int) -> dict[str, Work]:
    """One causal head: PyTorch's attention, all statistics, the map in 256 × 256 cells, the whole receipt."""
    cell = -(-tokens // 256)
    QKV, problem, (output, lse) = solve_random_problem(tokens, d_head)
    return {
        "attention": partial(F.scaled_dot_product_attention, *QKV, is_causal=True),
        "statistics": partial(weight_stats.compute_stats, problem, lse, 0, 0),
        "map": partial(weight_stats.pool_window, problem, lse, (0, 0), ((0, tokens), (0, tokens)), (cell, cell)),
        "receipt": partial(check_receipt, Sight(problem, output, lse)),
    }


def measure_seconds(works: dict[str, Work], seconds: float) -> dict[str, float]:
    """Processor seconds of each: the minimum of interleaved repeats, which other processes disturb least."""
    found = dict.fromkeys(works, float("inf"))
    end = time.perf_counter() + seconds
    while True:
        for name, work in works.items():
            start = time.process_time()
            work()
            found[name] = min(found[name], time.process_time() - start)
        if time.perf_counter() > end:
            return found


def fit_rates(tokens: int, widths: tuple[int, int], seconds: float) -> dict[str, Rate]:
    """Fit the rates to two head widths at one length."""
    count = tokens * (tokens + 1) / 2
    times = [measure_seconds(prepare_passes(tokens, d_head), seconds) for d_head in widths]
    found = {}
    for name in times[0]:
        narrow, wide = (one[name] / count for one in times)
        product = min((wide - narrow) / (widths[1] - widths[0]), wide / widths[1])  # `pair` must not be negative
        found[name] = Rate(product, wide - product * widths[1])
    return found


def check_predictions(found: dict[str, Rate], shapes: list[tuple[int, int]], seconds: float) -> list[dict[str, Any]]:
    """Other shapes: the prediction of the rates, and the measurement."""
    results = []
    for tokens, d_head in shapes:
        note(f"one head of {tokens} tokens and {d_head} numbers …")
        seconds_by_pass = measure_seconds(prepare_passes(tokens, d_head), seconds)
        for name, took in seconds_by_pass.items():
            prediction = found[name].seconds(tokens * (tokens + 1) / 2, d_head)
            results.append({"pass": name, "tokens": tokens, "d_head": d_head, "seconds": took, "predicted": prediction})
    return results


def measure_small_model(tokens: int) -> list[dict[str, Any]]:
    """The bytes that a small model with grouped heads keeps in memory and on file, and those of the formulas."""
    one = PassSizes("small", layers=3, heads=4, kv_heads=2, d_head=16, tokens=tokens, number=4)
    config = transom.models.DecoderConfig(
        vocabulary=64, d_model=64, heads=4, kv_heads=2, d_hidden=64, layers=3, longest=tokens
    )
    model = transom.models.Decoder(config).eval()
    ids = torch.randint(64, (1, tokens))
    results = []
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for keep in ("qkv", "statistics"):
            with transom.watch(model, keep=keep) as trace:
                model(ids)
            trace.save(Path(folder) / keep)
            results.append(
                {
                    "what": f'keep="{keep}"',
                    "bytes": sum(map(kept_bytes, trace)),
                    "formula": MEMORY[f'keep="{keep}"'](one),
                }
            )
        size = (Path(folder) / "qkv").stat().st_size
    return [*results, {"what": "its trace on file", "bytes": size, "formula": MEMORY["its trace on file"](one)}]


def kept_bytes(sight: AttentionView) -> int:
    """Bytes of the tensors that are kept of one attention."""
    full = sight.full
    if full is None:
        return sum(x.nbytes for x in (sight.lse, *vars(sight.statistics).values()))
    return sum(x.nbytes for x in (full.Q, full.K, full.V, full.output, full.lse))


def measure_tile(tokens: int, d_head: int, seconds: float) -> float:
    """Seconds for an exact 256 × 256 tile in the middle of a long head, with a given log-sum-exp."""
    Q, K, V = (torch.randn(1, 1, tokens, d_head) for _ in range(3))
    sight = Sight(build_problem(Q, K, V, causal=True), V, torch.full(Q.shape[:3], 9.0))
    place = {"rows": slice(tokens // 2, tokens // 2 + 256), "keys": slice(tokens // 2 - 300, tokens // 2 - 44)}
    return measure_seconds({"tile": partial(sight.weights, batch=0, head=0, **place)}, seconds)["tile"]


def measure(quick: bool) -> dict[str, Any]:
    note("rates …")
    found = fit_rates(512 if quick else 4096, (64, 128), 0.1 if quick else 5)
    shapes = [(768, 64)] if quick else [(8192, 64), (8192, 128), (16_384, 64)]
    checks = check_predictions(found, shapes, 0.1 if quick else 8)
    lengths = (2048, 4096) if quick else (8192, 131_072)
    tiles = {length: measure_tile(length, 128, 0.1 if quick else 2) for length in lengths}
    return {"rates": found, "checks": checks, "tiles": tiles, "small": measure_small_model(256 if quick else 4096)}


def predict_costs(found: dict[str, Rate]) -> list[dict[str, Any]]:
    """For every model: bytes by the formulas, processor seconds by the rates."""
    return [
        {
            **vars(one),
            "bytes": {what: count(one) for what, count in MEMORY.items()},
            "seconds": {name: rate.seconds(pair_count(one), one.d_head) for name, rate in found.items()},
            "one head": found["statistics"].seconds(one.tokens * (one.tokens + 1) / 2, one.d_head),
        }
        for one in MODELS
    ]


def format_bytes(count: float) -> str:
    """`1.5 GiB`, to two digits."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024 or unit == "PiB":
            break
        count /= 1024
    return f"{format_digits(count)} {unit}"


def format_seconds(seconds: float) -> str:
    """`1.5 h`, to two digits."""
    for unit, size in (("years", 31_557_600), ("days", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{format_digits(seconds / size)} {unit}"
    return f"{format_digits(1e3 * seconds)} ms"


def format_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 9.95 else f"{number:.1f}"


def render_table(titles: list[str], lines: list[list[str]]) -> str:
    rule = f"|{'---|' * len(titles)}"
    head, *body = (f"| {' | '.join(line)} |" for line in (titles, *lines))
    return "\n".join([head, rule, *body])


def memory_table() -> str:
    """Memory, which is the same on every machine."""
    lines = [[one.name, f"{one.tokens:,}", *(format_bytes(count(one)) for count in MEMORY.values())] for one in MODELS]
    return render_table(["model", "tokens", *MEMORY], lines)


def time_table(results: list[dict[str, Any]]) -> str:
    lines = [
        [
            one["name"],
            f"{one['tokens']:,}",
            *map(format_seconds, one["seconds"].values()),
            format_seconds(one["one head"]),
        ]
        for one in results
    ]
    return render_table(["model", "tokens", *results[0]["seconds"], "statistics of one head"], lines)


def check_table(checks: list[dict[str, Any]]) -> str:
    lines = [
        [
            one["pass"],
            f"{one['tokens']:,} tokens, d_head {one['d_head']}",
            format_seconds(one["predicted"]),
            format_seconds(one["seconds"]),
            f"{one['predicted'] / one['seconds']:.2f}",
        ]
        for one in checks
    ]
    return render_table(["pass", "one head of", "predicted", "measured", "ratio"], lines)


def run(options: Namespace) -> int:
    """Measure and print."""
    torch.set_num_threads(1)
    found = measure(options.quick)
    results = predict_costs(found["rates"])
    plain = {name: vars(rate) for name, rate in found["rates"].items()}
    result = {"machine": machine_info(), **dispatch.engine_info(), **found, "rates": plain, "costs": results}
    print_answer(options, result, render_page(found, results))
    return 0


def render_page(found: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The whole answer as text."""
    lines = [format_facts({**machine_info(), **dispatch.engine_info()})]
    lines += [f"\nMemory\n\n{memory_table()}\n\nThe formulas beside a model of 3 layers"]
    lines += [f"{one['what']}: {one['bytes']:,} bytes, by formula {one['formula']:,}" for one in found["small"]]
    lines += [f"\nProcessor time\n\n{time_table(results)}\n"]
    for length, seconds in found["tiles"].items():
        lines.append(f"an exact tile of 256 × 256 weights among {length:,} tokens: {format_seconds(seconds)}")
    parts = {
        name: f"{1e9 * rate.product:.4f} · d_head + {1e9 * rate.pair:.3f}" for name, rate in found["rates"].items()
    }
    lines += [f"\nnanoseconds for a pair of a row and a key: {format_facts(parts)}"]
    lines += [f"\nThe rates beside other shapes\n\n{check_table(found['checks'])}"]
    return "\n".join(lines)
