"""Worked examples: a lesson computes every step of attention and proves each figure that it prints."""

from transom.lessons.arithmetic import Arithmetic, number
from transom.lessons.checking import Finding, checked
from transom.lessons.lesson import Claim, Lesson, worked
from transom.lessons.of_sight import steps_of
from transom.lessons.reading import parsed, read
from transom.lessons.steps import Step, Steps

__all__ = [
    "Arithmetic",
    "Claim",
    "Finding",
    "Lesson",
    "Step",
    "Steps",
    "checked",
    "number",
    "parsed",
    "read",
    "steps_of",
    "worked",
]
