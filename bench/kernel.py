"""Does the native engine keep its promises, and does its cost follow from the shape?

Training, the statistics-only pass, exact tiles and maps beside PyTorch's own, as ratios in the same run; then the cost
model of docs/kernel.md: a rate and an overhead are fitted to two shapes, and three others are predicted.

    python -m bench kernel [--json] [--quick] [--threads N]
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import transom
from bench.measure import MiB, Work, interleaved, machine, note, peak_memory, print_json
from transom.kernels import engines, looking
from transom.kernels.problem import put
from transom.lens.sight import Sight

Shape = tuple[int, int, int, int]
TRAINING = [(64, 4, 24, 32), (32, 8, 128, 64), (8, 12, 512, 64)]
LOOKING = [(8, 8, 128, 64), (1, 12, 512, 64), (1, 12, 2048, 64), (1, 8, 4096, 128)]
FITTED = [(1, 12, 256, 64), (1, 12, 1024, 64)]
PREDICTED = [(4, 8, 192, 64), (1, 12, 2048, 64), (1, 8, 4096, 128)]
LONG, OVERVIEW = 131_072, 32_768


def tensors(shape: Shape, grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    Q, K, V = (torch.randn(shape, requires_grad=grad) for _ in range(3))
    return Q, K, V


def ratio(contenders: dict[str, Work], quick: bool) -> dict[str, float]:
    """Milliseconds of the first, and the ratio of each other to it: of the minima, and of the medians."""
    times = interleaved(contenders, repeats=5 if quick else 40, seconds=1 if quick else 15)
    first, *others = times
    found = {f"{first}_ms": 1e3 * times[first]["best"]}
    for name in others:
        found[name] = times[name]["best"] / times[first]["best"]
        found[f"{name}_median"] = times[name]["median"] / times[first]["median"]
    return found


def trained(attention: Callable[..., Tensor], shape: Shape) -> Work:
    """Forward and backward."""
    Q, K, V = tensors(shape, grad=True)
    sent = torch.randn(shape)
    return lambda: torch.autograd.grad(attention(Q, K, V), (Q, K, V), sent)


def training(shape: Shape, causal: bool, quick: bool) -> dict[str, float]:
    sdpa = partial(F.scaled_dot_product_attention, is_causal=causal)
    attend = partial(transom.attend, causal=causal)
    return ratio({"sdpa": trained(sdpa, shape), "transom": trained(attend, shape)}, quick)


def looked_later(shape: Shape, causal: bool, quick: bool) -> dict[str, float]:
    """All statistics and the top 8, from Q, K and the log-sum-exp alone."""
    Q, K, V = tensors(shape)
    problem = put(Q, K, V, causal=causal)
    _, lse = engines.solve(problem)
    contenders: dict[str, Work] = {
        "sdpa": partial(F.scaled_dot_product_attention, Q, K, V, is_causal=causal),
        "statistics": partial(looking.statistics, problem, lse, 0, 0),
        "with top 8": partial(looking.statistics, problem, lse, 8, 0),
    }
    return ratio(contenders, quick)


def tile(quick: bool) -> dict[str, float]:
    """An exact 256 × 256 tile of a long attention, whose log-sum-exp is taken as given."""
    Q, K, V = tensors((1, 1, 8192 if quick else LONG, 64))
    rows = Q.shape[2] // 2
    kept = Sight(put(Q, K, V, causal=True), V, torch.full(Q.shape[:3], 9.0))
    work = partial(kept.weights, batch=0, head=0, rows=slice(rows, rows + 256), keys=slice(rows - 300, rows - 44))
    return ratio({"tile": work}, quick)


def overview(quick: bool) -> dict[str, float]:
    """The map of a whole head beside the machine's own product of Q and K, which has nothing in it but the scores."""
    n = 2048 if quick else OVERVIEW
    Q, K, V = tensors((1, 1, n, 64))
    problem = put(Q, K, V)
    _, lse = engines.solve(problem)
    some = min(n, 4096)
    cell = (n // 256, n // 256)
    contenders: dict[str, Work] = {
        "product": lambda: [Q[0, 0, first : first + some] @ K[0, 0].mT for first in range(0, n, some)],
        "map": lambda: looking.pooled(problem, lse, (0, 0), ((0, n), (0, n)), cell, "max"),
    }
    return ratio(contenders, quick)


def pairs(shape: Shape, causal: bool) -> float:
    """Numbers multiplied: for each row and key it looks at, d_head for the score and d_value for the output."""
    batch, heads, n, d = shape
    return batch * heads * n * (n + 16 if causal else n) * (0.5 if causal else 1.0) * 2 * d


def around(shape: Shape) -> float:
    """Numbers packed, unpacked and written, for each row."""
    batch, heads, n, d = shape
    return batch * heads * n * 2 * d


def seconds(shape: Shape, causal: bool, quick: bool) -> float:
    work = partial(transom.attend, *tensors(shape), causal=causal)
    return interleaved({"attend": work}, repeats=5 if quick else 40, seconds=1 if quick else 8)["attend"]["best"]


def modelled(quick: bool) -> list[dict[str, object]]:
    """Time fitted on two shapes as a · products + b · rows, and predicted for others."""
    note("cost model …")
    shapes = [((2, 2, 64, 64), True)] if quick else [(shape, causal) for shape in PREDICTED for causal in (False, True)]
    left = torch.tensor([[pairs(shape, False), around(shape)] for shape in FITTED], dtype=torch.float64)
    right = torch.tensor([seconds(shape, False, quick) for shape in FITTED], dtype=torch.float64)
    a, b = torch.linalg.solve(left, right).tolist()
    rows = []
    for shape, causal in shapes:
        predicted, measured = a * pairs(shape, causal) + b * around(shape), seconds(shape, causal, quick)
        rows.append({"shape": shape, "causal": causal, "ms": 1e3 * measured, "predicted_ms": 1e3 * predicted})
    return rows


def memory_of(shape: Shape, at_once: bool) -> Work:
    Q, K, V = tensors(shape)
    transom.attend(*tensors((1, 1, 16, 16)))  # what is loaded once does not count
    return partial(transom.sight, Q, K, V, at_once=True) if at_once else partial(transom.attend, Q, K, V)


def memory(quick: bool) -> list[dict[str, object]]:
    """Peak memory beyond Q, K and V beside what docs/kernel.md predicts."""
    rows = []
    for shape in [(1, 4, 2048, 64)] if quick else [(1, 12, 2048, 64), (1, 12, 8192, 64), (1, 1, 32_768, 64)]:
        batch, heads, n, d = shape
        for at_once in (False, True):
            own = batch * heads * n * (d + 1) + (batch * heads * n * (3 + 1 + 8 * 3) if at_once else 0)
            scratch = 2 * 48 * (2048 + (2 * n if at_once else 0))
            found = peak_memory(memory_of, shape, at_once) / MiB
            rows.append({"shape": shape, "at_once": at_once, "MiB": found, "predicted_MiB": 4 * (own + scratch) / MiB})
    return rows


def measured(quick: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, measure, shapes in (("training", training, TRAINING), ("statistics only", looked_later, LOOKING)):
        for shape in shapes[:1] if quick else shapes:
            for causal in (False, True):
                note(f"{name} {shape} {'causal' if causal else 'full'} …")
                found[f"{name} {shape} {'causal' if causal else 'full'}"] = measure(shape, causal, quick)
    found["exact 256 × 256 tile"] = tile(quick)
    found["overview map"] = overview(quick)
    return found


def line(row: dict) -> str:
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()
    )


def run(options: Namespace) -> int:
    """Measure and print."""
    ratios, times, memories = measured(options.quick), modelled(options.quick), memory(options.quick)
    if options.json:
        print_json({"machine": machine(), **engines.told(), "ratios": ratios, "time": times, "memory": memories})
        return 0
    print(", ".join(f"{name} {what}" for name, what in {**machine(), **engines.told()}.items()), end="\n\n")
    for name, found in ratios.items():
        print(f"{name:<44}{line(found)}")  # pyright: ignore[reportArgumentType]
    print("\ncost model")
    for row in (*times, *memories):
        print(line(row))
    return 0
