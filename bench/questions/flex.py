"""What does FlexAttention cost beside SDPA, eager attention and Transom?

FlexAttention is PyTorch's way to change the scores of a fused kernel: on a CPU it must be compiled (by a C++ compiler),
and runs forward only. It can return the log-sum-exp, but no other statistic. Measured are full, causal, and causal with
a window of 256 keys, where a fused kernel can skip most keys; each output is compared with SDPA's before it is timed.

    python -m bench flex [--json] [--quick] [--threads N]
"""

import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import transom
from bench.measuring.instruments import machine_info, note, print_answer
from bench.measuring.timing import measure_interleaved, seconds_left, unsteady_contenders
from bench.peers.environment import peer_version

SHAPES = [(1, 12, 512, 64), (1, 12, 4096, 64)]
WINDOW, NEAR = 256, 1e-4
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def build_mask(kind: str, n: int) -> Tensor | None:
    """The mask as a matrix: True where a row may attend."""
    if kind == "full":
        return None
    back = torch.arange(n)[:, None] - torch.arange(n)
    return back >= 0 if kind == "causal" else (back >= 0) & (back < WINDOW)


def prepare_sdpa(kind: str, n: int) -> Attention:
    if kind == "window":
        return partial(F.scaled_dot_product_attention, attn_mask=build_mask(kind, n))
    return partial(F.scaled_dot_product_attention, is_causal=kind == "causal")


def prepare_eager(kind: str, n: int) -> Attention:
    """Attention in plain PyTorch, which has all weights in memory."""
    mask = build_mask(kind, n)

    def attention(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
        scores = Q @ K.mT / Q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return scores.softmax(-1) @ V

    return attention


def prepare_attend(kind: str, n: int) -> Attention:
    if kind == "window":
        return partial(transom.attend, allowed=transom.causal() & transom.sliding_window(WINDOW))
    return partial(transom.attend, causal=kind == "causal")


def prepare_flex(kind: str, n: int) -> Attention:
    """Compiled, without the fully masked blocks."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    rules: dict[str, Callable[..., Any]] = {
        "causal": lambda b, h, q, k: q >= k,
        "window": lambda b, h, q, k: (q >= k) & (q - k < WINDOW),
    }
    blocks = create_block_mask(rules[kind], None, None, n, n, device="cpu") if kind in rules else None
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda Q, K, V: compiled(Q, K, V, block_mask=blocks)  # pyright: ignore[reportReturnType]


CONTENDERS = {
    "SDPA": prepare_sdpa,
    "eager attention": prepare_eager,
    "FlexAttention": prepare_flex,
    "Transom": prepare_attend,
}


def measure_shape(shape: tuple[int, int, int, int], kind: str, quick: bool) -> dict[str, Any]:
    """Measure each contender on one shape; `not run` says which are left out, and why."""
    note(f"{shape} {kind} …")
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for _ in range(3)]
    truth = prepare_sdpa(kind, shape[2])(*inputs)
    ready, missing, first = {}, {}, {}
    for name, make in CONTENDERS.items():
        if quick and name == "FlexAttention":
            missing[name] = "left out of a quick run: to compile it takes half a minute"
            continue
        begun = time.perf_counter()
        try:
            attention = make(kind, shape[2])
            off = (attention(*inputs) - truth).abs().max().item()
        except Exception as error:  # a compiler can fail in any way
            missing[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
            continue
        first[name] = time.perf_counter() - begun
        if off > NEAR:
            raise RuntimeError(f"{name}, {shape} {kind}: off by {off:.1e} from SDPA; nothing was measured")
        ready[name] = partial(attention, *inputs)
    times = measure_interleaved(ready, repeats=8 if quick else 30, seconds=1 if quick else 12)
    return {
        "shape": shape,
        "kind": kind,
        "milliseconds": {name: 1e3 * found["best"] for name, found in times.items()},
        "median_milliseconds": {name: 1e3 * found["median"] for name, found in times.items()},
        "first_call_seconds": first,
        "not run": missing,
        "unsteady": unsteady_contenders(times),
    }


def run(options: Namespace) -> int:
    """Measure and print."""
    results = []
    torch.compiler.config.force_disable_caches = True  # otherwise the second run reuses what the first one compiled
    with torch.no_grad():
        for shape in SHAPES[:1] if options.quick else SHAPES:
            for kind in ("full", "causal", "window"):
                if seconds_left() > 0:
                    results.append(measure_shape(shape, kind, options.quick))
    result = {"machine": machine_info(), "torch": peer_version("SDPA"), "compared": results}
    print_answer(options, result, render_table(results))
    return 0


def render_table(results: list[dict[str, Any]]) -> str:
    lines = [f"{'shape':<18}{'':<8}{'contender':<18}{'ms':>9}{'÷ Transom':>11}{'first call s':>14}"]
    for one in results:
        head = f"{one['shape']!s:<18}{one['kind']:<8}"
        for name, found in one["milliseconds"].items():
            ratio = found / one["milliseconds"]["Transom"]
            lines.append(f"{head}{name:<18}{found:>9.2f}{ratio:>11.2f}{one['first_call_seconds'][name]:>14.2f}")
            head = " " * len(head)
        lines += [f"{head}{name:<18}not run: {why}" for name, why in one["not run"].items()]
    return "\n".join(lines)
