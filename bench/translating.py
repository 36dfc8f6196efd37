"""How long does the translator that comes along take for a short sentence?

Ten sentences of two to six words, one at a time, as `transom translate` and the page translate them: after one round to
warm up, the median and the longest of so many rounds, with four beams and with one.

    python -m bench.translating [--model FOLDER] [--threads 2] [--rounds 5] [--json] [--processor]
"""

import argparse
import statistics
import time
from pathlib import Path

import torch

from bench.measuring.instruments import machine_info, print_answer
from transom.models import EncoderDecoder
from transom.models.embedded import embedded_folder
from transom.training.inference import load_for_task, translate

SENTENCES = (
    "Where do you live?",
    "We are going home.",
    "I don't know.",
    "It is raining today.",
    "Can you help me?",
    "He is my friend.",
    "What time is it?",
    "Thank you.",
    "I would like some water.",
    "She has two brothers.",
)
BEAMS = (4, 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.translating", description="the time of a short sentence")
    parser.add_argument("--model", type=Path, default=embedded_folder(), help="the folder of an encoder–decoder")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch")
    parser.add_argument("--rounds", type=int, default=5, help="that count")
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")
    parser.add_argument("--processor", action="store_true", help="processor time: for a busy machine")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.processor else time.perf_counter
    model, tokenizer = load_for_task(options.model, "encoder_decoder")
    assert isinstance(model, EncoderDecoder)
    found: dict[str, dict[str, float]] = {}
    for beams in BEAMS:
        times = []
        for number in range(options.rounds + 1):
            for sentence in SENTENCES:
                start = clock()
                translate(model, tokenizer, [sentence], beams)
                times += [1e3 * (clock() - start)] if number else []
        found[f"{beams} beams"] = {"median": statistics.median(times), "longest": max(times)}
    result = {"machine": machine_info(), "threads": options.threads, "milliseconds": found}
    lines = [f"{name}  median {each['median']:.1f} ms, longest {each['longest']:.1f}" for name, each in found.items()]
    print_answer(options, result, "\n".join(lines))


if __name__ == "__main__":
    main()
