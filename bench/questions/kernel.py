"""Does the native engine keep its promises, and does its cost follow from the shape?

Training, the statistics-only pass, exact tiles and maps, as ratios to PyTorch's attention in the same run; errors; the
cost model of docs/kernel.md: its three rates are fitted to six shapes, and predict three others.

    python -m bench kernel [--json] [--quick] [--threads N]
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import transom
from bench.measuring.instruments import MiB, format_facts, machine_info, measure_peak_memory, note, print_answer
from bench.measuring.timing import Work, measure_interleaved, unsteady_contenders
from transom.kernels import dispatch, weight_stats
from transom.kernels.problem import build_problem
from transom.lens.attention.sight import Sight

Shape = tuple[int, int, int, int]
TRAINING = [(64, 4, 24, 32), (32, 8, 128, 64), (8, 12, 512, 64)]
STATISTICS = [(8, 8, 128, 64), (1, 12, 512, 64), (1, 12, 2048, 64), (1, 8, 4096, 128)]
FITTED = [(1, 8, 64, 64), (8, 8, 128, 64), (1, 12, 256, 64), (2, 3, 700, 96), (1, 6, 1024, 64), (1, 6, 1536, 32)]
PREDICTED = [(4, 8, 192, 64), (1, 12, 2048, 64), (1, 8, 4096, 128)]
LONG, OVERVIEW = 131_072, 32_768


def random_tensors(shape: Shape, grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    Q, K, V = (torch.randn(shape, requires_grad=grad) for _ in range(3))
    return Q, K, V


def measure_ratio(contenders: dict[str, Work], quick: bool) -> dict[str, Any]:
    """Milliseconds of the first, and the ratio of each other to it: of the minima, and of the medians."""
    times = measure_interleaved(contenders, repeats=8 if quick else 40, seconds=1 if quick else 15)
    first, *others = times
    found: dict[str, Any] = {f"{first}_ms": 1e3 * times[first]["best"]}
    for name in others:
        found[name] = times[name]["best"] / times[first]["best"]
        found[f"{name}_median"] = times[name]["median"] / times[first]["median"]
    return found | {"unsteady": unsteady_contenders(times)}


def prepare_backward(attention: Callable[..., Tensor], shape: Shape) -> Work:
    """Forward and backward pass."""
    Q, K, V = random_tensors(shape, grad=True)
    gradient = torch.randn(shape)
    return lambda: torch.autograd.grad(attention(Q, K, V), (Q, K, V), gradient)


def measure_training(shape: Shape, causal: bool, quick: bool) -> dict[str, Any]:
    sdpa = partial(F.scaled_dot_product_attention, is_causal=causal)
    attend = partial(transom.attend, causal=causal)
    return measure_ratio({"sdpa": prepare_backward(sdpa, shape), "transom": prepare_backward(attend, shape)}, quick)


def measure_statistics(shape: Shape, causal: bool, quick: bool) -> dict[str, Any]:
    """All statistics and the top 8, from Q, K and the log-sum-exp alone."""
    Q, K, V = random_tensors(shape)
    problem = build_problem(Q, K, V, causal=causal)
    _, lse = dispatch.solve(problem)
    contenders: dict[str, Work] = {
        "sdpa": partial(F.scaled_dot_product_attention, Q, K, V, is_causal=causal),
        "statistics": partial(weight_stats.compute_stats, problem, lse, 0, 0),
        "with top 8": partial(weight_stats.compute_stats, problem, lse, 8, 0),
    }
    return measure_ratio(contenders, quick)


def measure_tile(quick: bool) -> dict[str, Any]:
    """An exact 256 × 256 tile of a long attention, with a given log-sum-exp."""
    Q, K, V = random_tensors((1, 1, 8192 if quick else LONG, 64))
    rows = Q.shape[2] // 2
    sight = Sight(build_problem(Q, K, V, causal=True), V, torch.full(Q.shape[:3], 9.0))
    work = partial(sight.weights, batch=0, head=0, rows=slice(rows, rows + 256), keys=slice(rows - 300, rows - 44))
    return measure_ratio({"tile": work}, quick)


def measure_map(quick: bool) -> dict[str, Any]:
    """The map of a whole head, against the bare matrix product of Q and K, which only computes the scores."""
    n = 2048 if quick else OVERVIEW
    Q, K, V = random_tensors((1, 1, n, 64))
    problem = build_problem(Q, K, V)
    _, lse = dispatch.solve(problem)
    some = min(n, 4096)
    cell = (n // 256, n // 256)
    contenders: dict[str, Work] = {
        "product": lambda: [Q[0, 0, first : first + some] @ K[0, 0].mT for first in range(0, n, some)],
        "map": lambda: weight_stats.pool_window(problem, lse, (0, 0), ((0, n), (0, n)), cell),
    }
    return measure_ratio(contenders, quick)


def count_pairs(shape: Shape, causal: bool) -> float:
    """Pairs of a row and a key; if causal, rounded up to whole vectors of 16 rows."""
    batch, heads, n, _ = shape
    return batch * heads * n * (n + 16) / 2 if causal else batch * heads * n * n


def cost_terms(shape: Shape, causal: bool) -> list[float]:
    """The terms of the time: numbers multiplied, numbers packed and written, and 1 for the call."""
    batch, heads, n, d = shape
    return [count_pairs(shape, causal) * 2 * d, batch * heads * n * 2 * d, 1.0]


def fit_rates(costs: Tensor, seconds: Tensor) -> Tensor:
    """The non-negative rates for which costs · rates is nearest to the time: least squares of the relative error."""
    relative, found = costs / seconds[:, None], []
    for chosen in product((False, True), repeat=costs.shape[1]):
        rates = torch.zeros(costs.shape[1], dtype=torch.float64)
        active = torch.tensor(chosen)
        rates[active] = torch.linalg.lstsq(relative[:, active], torch.ones(len(relative), 1).double()).solution[:, 0]
        if (rates >= 0).all():
            found.append(((relative @ rates - 1).square().sum().item(), rates))
    return min(found, key=lambda pair: pair[0])[1]


def fit_cost_model(quick: bool) -> dict[str, object]:
    """Time = a · numbers multiplied + b · numbers packed + c: fitted to some shapes, predicted for others."""
    note("cost model …")
    ways = (False, True)
    known = [(shape, causal) for shape in (FITTED[:2] if quick else FITTED) for causal in ways]
    unknown = [(shape, causal) for shape in (PREDICTED[:1] if quick else PREDICTED) for causal in ways]
    works: dict[str, Work] = {
        f"{shape} {causal}": partial(transom.attend, *random_tensors(shape), causal=causal)
        for shape, causal in known + unknown
    }
    times = [time["best"] for time in measure_interleaved(works, 3 if quick else 30, 2 if quick else 60).values()]
    table = torch.tensor([cost_terms(*one) for one in known + unknown], dtype=torch.float64)
    rates = fit_rates(table[: len(known)], torch.tensor(times[: len(known)], dtype=torch.float64))
    rows = [
        {"shape": shape, "causal": causal, "ms": 1e3 * time, "predicted_ms": 1e3 * float(cost @ rates)}
        for (shape, causal), time, cost in zip(known + unknown, times, table, strict=True)
    ]
    a, b, c = rates.tolist()
    found = {"fitted": rows[: len(known)], "predicted": rows[len(known) :]}
    return {"a_ps": 1e12 * a, "b_ps": 1e12 * b, "c_us": 1e6 * c, **found}


def prepare_memory(shape: Shape, at_once: bool) -> Work:
    Q, K, V = random_tensors(shape)
    transom.attend(*random_tensors((1, 1, 16, 16)))  # so that what is loaded once does not count
    return partial(transom.sight, Q, K, V, at_once=True) if at_once else partial(transom.attend, Q, K, V)


def measure_memory(quick: bool) -> list[dict[str, object]]:
    """Peak memory beyond Q, K and V, and the prediction of docs/kernel.md."""
    rows = []
    for shape in [(1, 4, 2048, 64)] if quick else [(1, 12, 2048, 64), (1, 12, 8192, 64), (1, 1, 32_768, 64)]:
        batch, heads, n, d = shape
        for at_once in (False, True):
            own = batch * heads * n * (d + 1) + (batch * heads * n * (3 + 1 + 8 * 3) if at_once else 0)
            scratch = 2 * 48 * (2048 + (2 * n if at_once else 0))
            found = measure_peak_memory(prepare_memory, shape, at_once) / MiB
            rows.append({"shape": shape, "at_once": at_once, "MiB": found, "predicted_MiB": 4 * (own + scratch) / MiB})
    return rows


def relative_error(found: Tensor, exact: Tensor) -> float:
    """The largest error, relative for numbers above 1."""
    return float(((found - exact).abs() / exact.abs().clamp_min(1.0)).max())


def measure_errors(quick: bool) -> list[dict[str, object]]:
    """Errors of the output against float64, ours and PyTorch's, for growing scores."""
    note("errors …")
    rows = []
    for d in (64, 128):
        for times in (1.0, 3.0, 5.0):
            Q, K, V = random_tensors((1, 2, 256 if quick else 2048, d))
            exact = F.scaled_dot_product_attention(times * Q.double(), K.double(), V.double(), is_causal=True)
            native, theirs = (
                relative_error(attention(times * Q, K, V), exact)
                for attention in (
                    partial(transom.attend, causal=True),
                    partial(F.scaled_dot_product_attention, is_causal=True),
                )
            )
            highest = float((times * Q @ K.mT).abs().max() / d**0.5)
            rows.append({"d_head": d, "highest score": highest, "error": native, "error of SDPA": theirs})
    return rows


def measure_ratios(quick: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, measure, shapes in (
        ("training", measure_training, TRAINING),
        ("statistics only", measure_statistics, STATISTICS),
    ):
        for shape in shapes[:1] if quick else shapes:
            for causal in (False, True):
                note(f"{name} {shape} {'causal' if causal else 'full'} …")
                found[f"{name} {shape} {'causal' if causal else 'full'}"] = measure(shape, causal, quick)
    found["exact 256 × 256 tile"] = measure_tile(quick)
    found["overview map"] = measure_map(quick)
    return found


def format_line(row: dict) -> str:
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
        if name != "unsteady"
    )


def cost_table(model: dict) -> str:
    """The fitted rates, their predictions and the measurements."""
    lines = [
        "\ncost model: seconds = a · pairs · (d_head + d_value) + b · rows · (d_head + d_value) + c",
        f"a = {model['a_ps']:.2f} ps, b = {model['b_ps']:.0f} ps, c = {model['c_us']:.0f} µs",
        f"{'':<11}{'shape':<18}{'':<8}{'ms':>10}{'predicted':>11}{'÷':>7}",
    ]
    for name in ("fitted", "predicted"):
        for row in model[name]:
            way = "causal" if row["causal"] else "full"
            lines.append(
                f"{name:<11}{row['shape']!s:<18}{way:<8}{row['ms']:>10.3f}{row['predicted_ms']:>11.3f}"
                f"{row['predicted_ms'] / row['ms']:>7.2f}"
            )
    return "\n".join(lines)


def memory_table(rows: list[dict]) -> str:
    lines = [f"\npeak MiB beyond Q, K, V\n{'shape':<18}{'':<22}{'MiB':>7}{'predicted':>11}"]
    for row in rows:
        what = "output, all statistics" if row["at_once"] else "output"
        lines.append(f"{row['shape']!s:<18}{what:<22}{row['MiB']:>7.1f}{row['predicted_MiB']:>11.1f}")
    return "\n".join(lines)


def run(options: Namespace) -> int:
    """Measure and print."""
    ratios, model, memories = (
        measure_ratios(options.quick),
        fit_cost_model(options.quick),
        measure_memory(options.quick),
    )
    off = measure_errors(options.quick)
    found = {"ratios": ratios, "time": model, "memory": memories, "errors": off}
    print_answer(
        options,
        {"machine": machine_info(), **dispatch.engine_info(), **found},
        render_page(ratios, model, memories, off),
    )
    return 0


def render_page(ratios: dict, model: dict, memories: list[dict], off: list[dict]) -> str:
    """The whole answer as text."""
    parts = [f"{format_facts({**machine_info(), **dispatch.engine_info()})}\n"]
    parts += [f"{name:<44}{format_line(found)}" for name, found in ratios.items()]
    parts += [cost_table(model), memory_table(memories)]
    parts += ["\nerror of the output against float64, 2,048 tokens, causal", *map(format_line, off)]
    return "\n".join(parts)
