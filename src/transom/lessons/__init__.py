"""Lessons: worked examples of attention that compute every step and check every number they claim."""

from transom.lessons.arithmetic import Arithmetic, format_number
from transom.lessons.check_claims import Finding, check_lesson
from transom.lessons.lesson import Claim, Lesson, compute_lesson
from transom.lessons.lesson_file import load_lesson, parse_lesson
from transom.lessons.sight_steps import steps_of
from transom.lessons.steps import Step, Steps

__all__ = [
    "Arithmetic",
    "Claim",
    "Finding",
    "Lesson",
    "Step",
    "Steps",
    "check_lesson",
    "compute_lesson",
    "format_number",
    "load_lesson",
    "parse_lesson",
    "steps_of",
]
