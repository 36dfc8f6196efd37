"""A corrected copy of a lesson: the wrong numbers of its claims replaced, all else as it was."""

import re
from collections.abc import Iterator

from transom.lessons.checking import Finding, right_texts
from transom.lessons.claims import agree, flat
from transom.lessons.lesson import Lesson
from transom.lessons.lines import SKIPPED

NUMBER = re.compile(r"[+-]?\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?")


def fixed_text(lesson: Lesson, findings: list[Finding]) -> str:
    """The text of the lesson with every wrong `value` put right; slips shown on purpose stay.

    A claim with `above` or `below` has no right number, so it stays too.
    """
    text = lesson.source.text
    changes: list[tuple[int, int, str]] = []
    for finding in findings:
        if finding.verdict == "wrong" and finding.claim.value is not None:
            changes += replacements(lesson, finding)
    for start, end, right in sorted(changes, reverse=True):
        text = text[:start] + right + text[end:]
    return text


def replacements(lesson: Lesson, finding: Finding) -> Iterator[tuple[int, int, str]]:
    """Start, end and right text of each wrong number of one claim."""
    statement = lesson.source.statement((*finding.claim.path, "value"))
    assert statement is not None
    text = lesson.source.text
    start = text.index("=", statement.start) + 1
    places = list(numbers(text, start, statement.end))
    assert len(places) == len(flat(finding.claim.value))
    right = agree(finding.claim, finding.found).ravel()
    for (first, last), fine, written in zip(places, right, right_texts(finding), strict=True):
        if not fine:
            yield first, last, f'"{written}"' if written == "masked" else written


def numbers(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where each number stands between two places, comments aside; “masked” counts as one."""
    place = start
    while place < end:
        skipped, found = SKIPPED.match(text, place), NUMBER.match(text, place)
        if skipped:
            if text[place] in "\"'":
                yield place, skipped.end()
            place = skipped.end()
        elif found:
            yield found.span()
            place = found.end()
        else:
            place += 1


NEW = '''# A lesson: what is computed, and claims about it. `transom check {name}` proves every figure.
title = "{title}"
about = """
What this lesson shows, in a sentence or two."""
picture = "steps"

tokens = ["The", "cat", "sat"]
embeddings = [
  [1, 0],
  [0, 1],
  [1, 1],
]

[attention]
mask = "none"     # "causal", or rows of 1 (may look) and 0
scale = true      # scores divided by √d_head

[parameters]      # rows of numbers, "identity", {{ random = 1 }} or {{ csv = "file.csv" }}
W_Q = "identity"
W_K = "identity"
W_V = [
  [2, 0],
  [0, 1],
]

[[claim]]
says = "Every score is a dot product of a query and a key."
of = "scores"
value = [
  [1, 0, 1],
  [0, 1, 1],
  [1, 1, 2],
]

[[claim]]
says = "“The” looks as much at “sat” as at itself."
of = "weights"
row = "The"
value = [0.401, 0.198, 0.401]

[[claim]]
says = "So this is the context of “The”."
of = "sum"
row = "The"
value = [1.604, 0.599]
'''


def new_text(name: str) -> str:
    """A lesson to start from, with the name of its file."""
    title = " ".join(re.sub(r"[^\w]+", " ", name.rsplit(".", 1)[0]).split()).capitalize() or "A lesson"
    return NEW.format(name=re.sub(r"[\r\n]", " ", name), title=title)
