"""Is the passage found that made an answer?

planted        a fact is planted at a random place of a text, and a decoder is asked for it. Of the texts that it
               answers rightly: has the planted passage the largest estimate of `found.sources`, and the largest true
               change of those that were knocked out?
copier         the same of a small model that is trained here to find a value by its key (see copier.py)
context-cite   passages of ContextCite and of Transom, judged by ablation (see beside_context_cite.py)

    python -m bench.sources --model FOLDER [--lengths 500,1000 …] [--texts 4,4 …] [--points 2] [--chat] [--json]
    python -m bench.sources --only copier [--lengths 1000,16000] [--texts 4,2] [--points 2] [--json]
    python -m bench.sources --only context-cite --model FOLDER [--texts 5] [--json]
"""

import argparse
import random
import resource
import time
from pathlib import Path
from typing import Any

from bench.copier import find_copied
from bench.measuring.instruments import MiB, machine_info, note, print_answer
from bench.planted_facts import place_by_points, place_of, plant_fact
from transom.cli.sources import build_prompt, explain_answer, write_answer
from transom.runner import TextModel, load_text_model

LENGTHS, TEXTS = [500, 1000, 2000, 4000, 8000], [6, 4, 3, 2, 2]
COPIER_LENGTHS, COPIER_TEXTS = [1000, 2000, 4000, 8000, 16_000], [4, 4, 4, 4, 4]
ANSWER = 4  # tokens: a word, and what follows it
AROUND = 60  # tokens of the question and the answer
SEED = 0


def find_planted(model: TextModel, length: int, texts: int, refine: int, plain: bool, points: int) -> dict[str, Any]:
    """How many texts of a length the model answers rightly, and of which of them the passage is found."""

    def count(text: str) -> int:
        return len(model.encode_fitting(text))

    rows, tokens = [], 0
    for number in range(texts):
        started = time.perf_counter()
        text = plant_fact(random.Random(f"{SEED} {length} {number}"), length - AROUND, count)
        prompt = build_prompt(model, text.passages, text.question, text.begin, plain)
        answer = write_answer(model, prompt, ANSWER)
        tokens = max(tokens, len(answer.run.encoded.ids))
        row: dict[str, Any] = {
            "answer": answer.run.output,
            "right": text.word in answer.run.output,
            "passages": len(prompt.spans),
        }
        if row["right"]:
            row |= place_of(explain_answer(answer).sources(prompt.spans, refine=refine), text.planted)
            row |= place_by_points(explain_answer(answer, points), prompt.spans, text.planted) if points > 1 else {}
        rows.append(row)
        note(f"{length} tokens, text {number}: {row}, {time.perf_counter() - started:.0f} s")
    return {"tokens": tokens, **count_found(rows)}


def count_found(rows: list[dict[str, Any]]) -> dict[str, Any]:
    right = [row for row in rows if row["right"]]
    return {
        "texts": len(rows),
        "right": len(right),
        "first_by_estimate": sum(row["by_estimate"] == 0 for row in right),
        "first_by_points": sum(row.get("by_points") == 0 for row in right),
        "first_by_change": sum(row["by_change"] == 0 for row in right),
        "passages": max(row["passages"] for row in rows),
        "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MiB,
        "rows": rows,
    }


def found_table(results: list[dict[str, Any]], points: int) -> str:
    lines = [
        f"{'tokens':>7}{'passages':>10}{'texts':>7}{'right':>7}{'first by estimate':>19}{f'{points} points':>11}"
        f"{'by knock-out':>14}"
    ]
    for row in results:
        lines.append(
            f"{row['tokens']:>7,}{row['passages']:>10}{row['texts']:>7}{row['right']:>7}{row['first_by_estimate']:>19}"
            f"{row['first_by_points'] if points > 1 else '–':>11}{row['first_by_change']:>14}"
        )
    return "\n".join(lines)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sources", description="passages that made an answer")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="a decoder")
    parser.add_argument("--only", choices=["planted", "copier", "context-cite"], default="planted", help="which part")
    parser.add_argument("--lengths", type=numbers, help="tokens of the texts, as in 500,8000")
    parser.add_argument("--texts", type=numbers, help="texts of each length, as in 4,2")
    parser.add_argument("--refine", type=int, default=4, help="passages that are knocked out truly, for each text")
    parser.add_argument("--points", type=int, default=2, help="runs of a second estimate, by their mean gradient")
    parser.add_argument("--chat", action="store_true", help="ask as in a chat, where the model knows chats")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    options = parser.parse_args()
    if options.only != "copier" and options.model is None:
        parser.error("--model FOLDER is missing: a decoder to ask")
    result: dict[str, Any] = {"machine": machine_info()}
    if options.only == "context-cite":
        from bench.beside_context_cite import compare_sources, comparison_table

        result |= compare_sources(options.model, (options.texts or [5])[0])
        return print_answer(options, result, comparison_table(result))
    copied = options.only == "copier"
    lengths = options.lengths or (COPIER_LENGTHS if copied else LENGTHS)
    texts = options.texts or (COPIER_TEXTS if copied else TEXTS)[: len(lengths)]
    if copied:
        result["lengths"] = [
            count_found(rows) | {"tokens": n} for n, rows in find_copied(lengths, texts, SEED, options.points)
        ]
    else:
        model = load_text_model(options.model)
        pairs = zip(lengths, texts, strict=True)
        result["lengths"] = [
            find_planted(model, length, count, options.refine, not options.chat, options.points)
            for length, count in pairs
        ]
    return print_answer(options, result, found_table(result["lengths"], options.points))


if __name__ == "__main__":
    main()
