"""Which heads retrieve, and does retrieval need them?

A text plants numbers of some people among other sentences, and asks for one of them. Heads are ranked by their
retrieval score (Wu et al. 2024) on some texts; on others the model answers with all heads, without the best ones, and
without as many random ones.

    python -m bench.retrieval --model FOLDER [--heads 8] [--texts 12] [--sentences 12] [--json]
"""

import argparse
import random
from pathlib import Path
from typing import Any, NamedTuple

import torch

import transom
from bench.measuring.instruments import machine_info, note, print_answer
from transom.lens.metrics.retrieval import retrieval_scores
from transom.runner import TextModel, load_text_model

NAMES = ["Anna", "Tom", "Maria", "Peter", "Lucy", "David", "Sarah", "John", "Emma", "Paul"]
FILLER = [
    "The weather was mild and a light wind came from the sea.",
    "Several people walked slowly along the old harbour wall.",
    "A small shop at the corner sold bread, apples and tea.",
    "In the evening the lamps were lit one after another.",
    "The train arrived late, but nobody seemed to mind.",
    "Two children played with a red ball in the park.",
]
RANDOM_SETS = 3
Head = tuple[str, int]


class Question(NamedTuple):
    """A text up to its answer, which row writes each token of the answer, and where it stands in the text."""

    inputs: dict[str, Any]
    answer: list[int]
    copies: dict[int, list[int]]


def make_question(model: TextModel, rng: random.Random, sentences: int) -> Question:
    """Numbers of four people among other sentences, and the question for one of them, with its answer."""
    names = rng.sample(NAMES, 4)
    numbers = [str(rng.randrange(1000, 10_000)) for _ in names]
    facts = [f"The secret number of {name} is {number}." for name, number in zip(names, numbers, strict=True)]
    lines = [rng.choice(FILLER) for _ in range(sentences)]
    for fact in facts:
        lines.insert(rng.randrange(len(lines) + 1), fact)
    chosen = rng.randrange(4)
    before = " ".join(lines)
    place = before.index(facts[chosen]) + facts[chosen].index(numbers[chosen])
    prompt = f"{before}\nThe secret number of {names[chosen]} is"
    ids, asked = model.encode_fitting(f"{prompt} {numbers[chosen]}"), model.encode_fitting(prompt)
    answer = ids[len(asked) :]
    first = len(model.encode_fitting(before[: place - 1]))  # the space belongs to the number
    planted = ids[first : first + len(answer)]
    if planted != answer:
        raise SystemExit(f"the number is not the same tokens twice: {planted} and {answer}; use another tokenizer")
    # The row before each token writes it.
    rows = range(len(asked) - 1, len(asked) - 1 + len(answer))
    copies = {row: [first + number] for number, row in enumerate(rows)}
    if not model.token_strings(answer[:1])[0].strip():  # a space alone is no part of the number
        answer, copies = answer[1:], {row: places for row, places in copies.items() if row != rows[0]}
    return Question(model.make_inputs(ids[:-1]), answer, copies)


def share_answered(model: TextModel, question: Question, without: list[Head]) -> float:
    """The share of the answer's tokens that are the likeliest ones, without some heads."""
    call: Any = model.model
    with torch.no_grad():
        if without:
            edges = [(name, head, None, None) for name, head in without]
            with transom.knock_out(call, edges=edges, how="after"):
                result = call(**question.inputs)
        else:
            result = call(**question.inputs)
    logits = result if isinstance(result, torch.Tensor) else result.logits
    likeliest = logits[0, list(question.copies)].argmax(dim=-1).tolist()
    return sum(a == b for a, b in zip(likeliest, question.answer, strict=True)) / len(question.answer)


def rank_heads(model: TextModel, questions: list[Question]) -> list[tuple[float, Head]]:
    """All heads by their mean score, the best first."""
    sums: dict[Head, float] = {}
    for question in questions:
        call: Any = model.model
        with torch.no_grad(), transom.watch(call) as trace:
            call(**question.inputs)
        for head, score in retrieval_scores(trace, question.copies).items():
            sums[head] = sums.get(head, 0.0) + score / len(questions)
    return sorted(((score, head) for head, score in sums.items()), reverse=True)


def measure(model: TextModel, heads: int, texts: int, sentences: int, seed: int = 0) -> dict[str, Any]:
    rng = random.Random(seed)
    questions = [make_question(model, rng, sentences) for _ in range(2 * texts)]
    known, asked = questions[:texts], questions[texts:]
    ranked = rank_heads(model, known)
    best, others = [head for _, head in ranked[:heads]], [head for _, head in ranked[heads:]]
    note("heads are ranked; now some are knocked out …")

    def share(without: list[Head]) -> float:
        return sum(share_answered(model, question, without) for question in asked) / len(asked)

    return {
        "heads": len(ranked),
        "tokens": len(asked[0].inputs[next(iter(asked[0].inputs))][0]),
        "texts": len(asked),
        "above_a_tenth": sum(score > 0.1 for score, _ in ranked) / len(ranked),
        "best": [{"layer": name, "head": head, "score": score} for score, (name, head) in ranked[:heads]],
        "all_heads": share([]),
        "without_the_best": share(best),
        "without_random": [share(rng.sample(others, heads)) for _ in range(RANDOM_SETS)],
    }


def table(result: dict[str, Any]) -> str:
    best = ", ".join(f"{row['layer']} head {row['head']} {row['score']:.2f}" for row in result["best"])
    random_sets = ", ".join(f"{share:.2f}" for share in result["without_random"])
    count = len(result["best"])
    return "\n".join(
        [
            f"{result['heads']} heads, {result['above_a_tenth']:.1%} with a retrieval score above 0.1; best: {best}",
            f"digits answered rightly, {result['texts']} texts of about {result['tokens']} tokens:"
            f" {result['all_heads']:.2f}",
            f"without the {count} best heads: {result['without_the_best']:.2f}",
            f"without {count} random other heads: {random_sets}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.retrieval", description="heads that retrieve")
    parser.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a decoder")
    parser.add_argument("--heads", type=int, default=8, help="how many heads are knocked out")
    parser.add_argument("--texts", type=int, default=12, help="to rank heads, and as many to ask")
    parser.add_argument("--sentences", type=int, default=12, help="between the planted facts")
    parser.add_argument("--json", action="store_true", help="JSON instead of lines")
    options = parser.parse_args()
    model = load_text_model(options.model)
    result = {"machine": machine_info(), **measure(model, options.heads, options.texts, options.sentences)}
    print_answer(options, result, table(result))


if __name__ == "__main__":
    main()
