"""`transom exercises`: a sheet of exercises on a lesson, from a seed, with checked solutions."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cli_io import print_json, print_text
from transom.cli.learn import load_by_name
from transom.files.atomic_files import write_file
from transom.names import Misfit

if TYPE_CHECKING:
    from transom.lessons.exercises import Exercise


def run(
    lesson: Annotated[str, typer.Argument(help="The number of a lesson, its name, or a lesson file.")],
    seed: Annotated[int, typer.Option(min=0, help="Which numbers; the same seed gives the same sheet.")] = 1,
    count: Annotated[int, typer.Option(min=1, max=50, help="How many exercises.")] = 3,
    pdf: Annotated[
        Path | None, typer.Option("--pdf", help="Save the sheet as a PDF, solutions on pages of their own.")
    ] = None,
    solutions: Annotated[
        bool, typer.Option("--solutions/--no-solutions", help="With the solutions, or without.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="The exercises as lessons, with their solutions, as JSON.")
    ] = False,
) -> None:
    """Exercises on a lesson with other numbers, and their solutions, checked like any lesson.

    Example: transom exercises 3 --seed 7 --pdf sheet.pdf
    """
    from transom.lessons.exercises import build_exercises

    chosen = load_by_name(lesson)
    exercises = list(build_exercises(chosen, count, seed))
    if as_json:
        print_json([exercise.to_dict() for exercise in exercises])
        return
    if pdf is not None:
        if pdf.suffix.lower() != ".pdf":
            raise Misfit(f"--pdf writes a file that ends in .pdf, but got {pdf}; try {pdf.stem}.pdf")
        from transom.show.lesson_document import render_sheet_pdf

        pages = [list(question_lines(exercises))]
        pages += [list(solution_lines(exercises))] if solutions else []
        write_file(pdf, render_sheet_pdf(f"{chosen.title}: exercises, seed {seed}", pages))
        print_text(str(pdf))
        return
    lines = [*question_lines(exercises), *(["", *solution_lines(exercises)] if solutions else [])]
    for line in lines:
        print_text(line)


def question_lines(exercises: "list[Exercise]") -> Iterator[str]:
    """What is given and what is to be computed."""
    from transom.lessons.lesson_screens import side_by_side
    from transom.lessons.parameter_steps import parameter_steps

    for number, exercise in enumerate(exercises, start=1):
        if number > 1:
            yield ""
        yield f"Exercise {number}"
        steps = exercise.lesson.steps()
        given = [step for step in steps if step.kind == "given"]
        given += list(parameter_steps(exercise.lesson.cases[""].setup))
        yield from side_by_side(given, steps)
        yield f"  Given: {', '.join(exercise.conditions())}."
        for letter, task in zip("abcdefgh", exercise.tasks, strict=False):
            yield f"  {letter}) {task.question()}"


def solution_lines(exercises: "list[Exercise]") -> Iterator[str]:
    yield "Solutions"
    for number, exercise in enumerate(exercises, start=1):
        for letter, task in zip("abcdefgh", exercise.tasks, strict=False):
            yield f"  {number}{letter}) {task.solution()}"
            yield f"      {task.arithmetic()}"
