"""How long does a training step in bfloat16 take on this processor, beside one in float32?

Steps of the preset `tiny` (4+4 layers, d_model 128) on pairs of 16 tokens, as in the question `training`, in batches of
three sizes. A processor without bfloat16 arithmetic has to emulate it.

    python -m bench.precision [--json] [--processor]
"""

import argparse
from typing import Any

import torch

from bench.measuring.instruments import machine_info, note, print_answer
from bench.measuring.timing import Work, measure_interleaved, use_processor_time
from bench.questions.training import prepare_transom
from transom.training.precision import has_bfloat16

SIZES = {"8 pairs": (8, 16), "32 pairs": (32, 16), "128 pairs": (128, 16)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.precision", description="bfloat16 beside float32")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--processor", action="store_true", help="processor time: for a busy machine")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.processor:
        use_processor_time()
    found = {name: measure_steps(rows, length) for name, (rows, length) in SIZES.items()}
    result = {"machine": machine_info(), "bfloat16_arithmetic": has_bfloat16(), "milliseconds": found}
    result["ratio"] = {name: times["bfloat16"] / times["float32"] for name, times in found.items()}
    print_answer(options, result, render_table(result))


def measure_steps(rows: int, length: int) -> dict[str, float]:
    """Milliseconds of a training step in each precision."""
    note(f"{rows} pairs of {length} tokens …")
    contenders: dict[str, Work] = {
        "float32": prepare_transom(rows, length),
        "bfloat16": prepare_transom(rows, length, low=True),
    }
    return {name: 1e3 * time["best"] for name, time in measure_interleaved(contenders, 3, 60).items()}


def render_table(result: dict[str, Any]) -> str:
    has = "has" if result["bfloat16_arithmetic"] else "lacks"
    lines = [f"this processor {has} bfloat16 arithmetic", f"{'':<12}{'float32 ms':>12}{'bfloat16 ms':>13}{'ratio':>8}"]
    for name, times in result["milliseconds"].items():
        ratio = result["ratio"][name]
        lines.append(f"{name:<12}{times['float32']:>12.0f}{times['bfloat16']:>13.0f}{ratio:>8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
