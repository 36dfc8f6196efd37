"""Worked examples: a lesson computes every step of attention and proves each figure that it prints."""

from transom.lessons.arithmetic import Arithmetic, number
from transom.lessons.of_sight import steps_of
from transom.lessons.steps import Step, Steps

__all__ = ["Arithmetic", "Step", "Steps", "number", "steps_of"]
