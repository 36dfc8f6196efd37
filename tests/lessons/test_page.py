"""The pages of lessons, slips and words tell what is there: every key, every cause, every figure."""

import re
from pathlib import Path

import pytest

from transom.lessons import lesson_setup
from transom.lessons.check_claims import check_lesson
from transom.lessons.claims import MEASURES, flatten_claim
from transom.lessons.diagnosis import CAUSES
from transom.lessons.experiments import EXPERIMENTS
from transom.lessons.glossary import GLOSSARY
from transom.lessons.lesson_file import CLAIM, LESSON, PICTURES, load_shipped, shipped_paths
from transom.lessons.parse_script import CHANGE, PREDICT, STEP

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "lessons.md").read_text(encoding="utf-8")
SLIPS = (DOCS / "slips.md").read_text(encoding="utf-8")


def keys_of(heading):
    """The keys in the first column of the table under a heading."""
    table = PAGE.split(f"| {heading} | ", 1)[1].split("\n\n", 1)[0]
    cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    return {key.strip("[]").removeprefix("step.") for cell in cells for key in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("key", LESSON),
        ("key of `[attention]`", lesson_setup.ATTENTION),
        ("key of `[parameters]`", lesson_setup.PARAMETERS),
        ("key of `[block]`", lesson_setup.BLOCK),
        ("key of `[[claim]]`", CLAIM),
        ("key of `[[step]]`", STEP),
        ("key of `[step.predict]`", PREDICT),
        ("key of `[step.change]`", CHANGE),
        ("measure", [name for name in MEASURES if name != "value"]),
        ("cause", CAUSES),
        ("experiment", EXPERIMENTS),
    ],
)
def test_every_key_is_explained(heading, known):
    assert keys_of(heading) == set(known)


def test_the_path_is_on_its_page():
    rows = re.findall(r"^\| (\d+) \| `([\w-]+)` \| (.+) \| (\w+) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (str(number), path.stem[3:], load_shipped(number).title, load_shipped(number).picture)
        for number, path in enumerate(shipped_paths(), start=1)
    ]


def test_every_step_that_lessons_have_is_named():
    row = next(line for line in PAGE.splitlines() if line.startswith("| `of` |"))
    documented = set(re.findall(r"`(\w+)`", row)) - {"of"}
    tables = {step.name for case in all_cases() for step in case.steps if step.kind == "measured"}
    assert {step.name for case in all_cases() for step in case.steps} - tables <= documented


def all_cases():
    names = (
        "three-tokens",
        "many-heads",
        "word-order",
        "layers-together",
        "low-rank-values",
        "cross-attention",
        "encoder-block",
        "shared-keys",
    )
    return [case for name in names for case in load_shipped(name).cases.values()]


def test_every_picture_is_named():
    row = next(line for line in PAGE.splitlines() if line.startswith("| `picture` |"))
    assert not [picture for picture in PICTURES if picture not in row]


def test_the_glossary_is_the_table():
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows[2:] if rows[1][0].startswith("-") else rows[1:]) == GLOSSARY


@pytest.mark.parametrize("which", [1, 2])
def test_every_printed_slip_stands_beside_the_right_figure(which):
    slips = [finding for finding in check_lesson(load_shipped(which)) if finding.verdict == "slip"]
    assert slips
    for slip in slips:
        assert " ".join(str(number) for number in flatten_claim(slip.claim.value)) in SLIPS
    first = slips[0]
    assert first.causes[first.claim.slip] in SLIPS or "sum to 0.95" in first.causes[first.claim.slip]


FIGURES = {  # lesson, case, step, row, column, digits
    "0.1050": ("why-scaling", "two scores of a note", "gradient", "unscaled", 3, 4),
    "0.1966": ("why-scaling", "two scores of a note", "gradient", "scaled", 2, 4),
    "0.2012": ("why-scaling", "", "softmax gradient", "scaled", 2, 4),
    "0.0983": ("why-scaling", "two scores of a note", "gradient", "scaled", 3, 4),
    "0.0005": ("why-scaling", "", "median gradient", "unscaled", 2, 4),
    "0.0251": ("why-scaling", "", "median gradient", "scaled", 2, 4),
    "65536": ("low-rank-values", "how many parameters", "parameters", "through a waist", 0, 0),
    "1280": ("low-rank-values", "how many parameters", "parameters", "by tokens", 0, 0),
    "262144": ("many-heads", "how many parameters", "parameters", "whole", 0, 0),
    "32768": ("many-heads", "how many parameters", "parameters", "narrow heads", 0, 0),
    "0.1554": ("three-tokens", "", "weights", "The", 1, 4),
    "0.17": ("six-words", "", "scores", "The", 0, 2),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_among_the_slips_is_computed(figure):
    name, case, step_name, row, column, digits = FIGURES[figure]
    step = load_shipped(name).steps(case)[step_name]
    assert f"{step.values[step.index_of(row, 'row'), column]:.{digits}f}" == figure
    assert figure in SLIPS


def test_the_share_of_vanished_gradients():
    vanished = load_shipped("why-scaling").steps()["vanished"]
    assert f"{vanished.values[0, 2]:.0%}".replace("%", " %") in SLIPS


def test_the_right_context_and_weights_are_on_the_page():
    for which, of in ((1, "sum"), (2, "weights")):
        findings = check_lesson(load_shipped(which))
        slip = next(finding for finding in findings if finding.claim.of == of and finding.verdict == "slip")
        finer = {1: slip.right_texts, 2: ["0.198", "0.204", "0.196", "0.202", "0.200"]}[which]
        assert f"[{' '.join(finer)}]" in SLIPS
        assert [f"{value:.{len(text) - 2}f}" for value, text in zip(slip.computed.values, finer, strict=True)] == finer


def test_the_lessons_named_on_the_page_are_those():
    for number, case in re.findall(r"lesson (\d+)(?:, case “([^”]+)”)?", SLIPS):
        lesson = load_shipped(int(number))
        assert not case or case in lesson.cases, (number, case)
