"""Worked examples from public pages: each figure judged again in plain arithmetic, and the causes of the wrong ones.

The files hold figures only, and name their source. `says` is "right", or "wrong" with the causes that a reader of the
page finds sensible: "?" if the page does not show what went wrong.
"""

import math
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from transom.lessons import check_lesson, load_lesson
from transom.lessons.glossary import step_name

FILES = sorted((Path(__file__).parent / "public").glob("*.toml"))


def product(A, B):
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*B, strict=True)] for row in A]


def softmax(row):
    powers = [math.exp(score) for score in row]
    return [power / sum(powers) for power in powers]


def plain_steps(lesson, head):
    """The steps of one head in plain lists: of embeddings and parameters, given Q, K and V, or given scores."""
    given, attention = lesson.get("given", {}), lesson.get("attention", {})
    steps = {name: given[name] for name in ("Q", "K", "V") if name in given}
    if "embeddings" in lesson:
        X, parameters = lesson["embeddings"], lesson["parameters"]
        width = len(X[0]) // attention.get("heads", 1)
        for letter in "QKV":
            W = parameters.get(f"W_{letter}")
            part = slice(head * width, head * width + width)
            steps[letter] = [row[part] for row in X] if W is None else product(X, W)
    steps["scores"] = given["scores"] if "scores" in given else product(steps["Q"], list(zip(*steps["K"], strict=True)))
    d_head = attention.get("d_head") or len(steps.get("Q", [[1.0]])[0])
    divisor = math.sqrt(d_head) if attention.get("scale", "scores" not in given) else 1.0
    steps["scaled"] = [[score / divisor for score in row] for row in steps["scores"]]
    causal = attention.get("mask") == "causal"
    steps["masked"] = [
        [-math.inf if causal and j > i else score for j, score in enumerate(row)]
        for i, row in enumerate(steps["scaled"])
    ]
    steps["weights"] = [softmax(row) for row in steps["masked"]]
    if "V" in steps:
        steps["sum"] = product(steps["weights"], steps["V"])
    return steps


def is_right(claimed, right, decimals):
    """Whether every claimed number is what the right one rounds to."""
    if isinstance(claimed, list):
        return all(is_right(one, two, decimals) for one, two in zip(claimed, right, strict=True))
    if claimed == "masked":
        return right == -math.inf
    places = len(str(claimed).partition(".")[2]) or decimals
    return abs(float(claimed) - right) <= 0.5 * 10.0**-places + 1e-12


def count_places(claimed):
    if isinstance(claimed, list):
        return max(map(count_places, claimed))
    return len(str(claimed).partition(".")[2]) if isinstance(claimed, Decimal) else 0


def judge_plainly(text):
    """Whether each claim of a lesson is right, by plain arithmetic."""
    exact, lesson = tomllib.loads(text, parse_float=Decimal), tomllib.loads(text)
    cases = {"": lesson} | {
        case["name"]: {**lesson, **case, "attention": {**lesson["attention"], **case.get("attention", {})}}
        for case in lesson.get("case", [])
    }
    for claim in exact["claim"]:
        case = cases[claim.get("case", "")]
        right = plain_steps(case, claim.get("head", 0))[step_name(claim["of"])]
        right = right if "row" not in claim else right[case["tokens"].index(claim["row"])]
        yield is_right(claim["value"], right, count_places(claim["value"]))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_figure_is_judged_as_in_plain_arithmetic(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# source: ")
    findings = check_lesson(load_lesson(path))
    plain = ["right" if right else "wrong" for right in judge_plainly(text)]
    assert [finding.verdict for finding in findings] == plain
    assert [finding.claim.says.partition(":")[0] for finding in findings] == plain


def test_seven_of_ten_wrong_figures_get_a_sensible_cause():
    """Measured: of 35 wrong figures in 35 examples, 28 get a cause, and for 26 the first one is sensible."""
    wrong = [finding for path in FILES for finding in check_lesson(load_lesson(path)) if finding.verdict == "wrong"]
    sensible = [next(iter(finding.causes), None) in finding.claim.says.split(": ")[1].split(", ") for finding in wrong]
    assert len(FILES) >= 20
    assert len(wrong) >= 30
    assert sum(sensible) >= 0.7 * len(wrong)
