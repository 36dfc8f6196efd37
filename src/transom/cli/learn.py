"""`transom learn`: the lessons that come with Transom, one step at a time."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.cli_io import print_json, print_picture, print_text, shows_colours
from transom.files.atomic_files import write_file
from transom.files.terminal import escape_controls
from transom.names import Misfit
from transom.show.colours import bold

if TYPE_CHECKING:
    from transom.lessons import Lesson
    from transom.lessons.lesson import LessonStep
    from transom.show import Picture

WIDEST, NARROWEST = 100, 30  # columns
FILES = {"html": "the whole lesson", "pdf": "the whole lesson", "svg": "its picture", "png": "its picture"}


def run(
    lesson: Annotated[str | None, typer.Argument(help="The number of a lesson, its name, or a lesson file.")] = None,
    at_once: Annotated[bool, typer.Option("--all", help="All steps at once, without waiting for Enter.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Save the whole lesson as a page.")] = None,
    pdf: Annotated[Path | None, typer.Option("--pdf", help="Save the whole lesson as a PDF.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Save the lesson's picture as an SVG figure.")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Save the lesson's picture as a PNG.")] = None,
    glossary: Annotated[bool, typer.Option("--glossary", help="Explain the words.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The list, or every number of a lesson, as JSON.")] = False,
) -> None:
    """Lessons on attention with every number worked out; without an argument, a list of them.

    Example: transom learn 1
    """
    files = {"html": html, "pdf": pdf, "svg": svg, "png": png}
    wanted = {kind: path for kind, path in files.items() if path is not None}
    if glossary:
        print_glossary(as_json)
    elif lesson is None:
        if wanted:
            raise Misfit(f"--{next(iter(wanted))} saves a lesson, but none is named; write transom learn 1 and then it")
        print_lessons(as_json)
    elif wanted:
        save_lesson(load_by_name(lesson), wanted)
    else:
        print_lesson(load_by_name(lesson), at_once, as_json)


def print_glossary(as_json: bool) -> None:
    from transom.lessons.glossary import GLOSSARY

    if as_json:
        print_json(GLOSSARY)
        return
    for word, meaning in GLOSSARY.items():
        print_text(f"{word:<22} {meaning}")


def load_by_name(name: str) -> "Lesson":
    """A lesson that comes with Transom, or one from a file."""
    from transom.lessons import load_lesson
    from transom.lessons.lesson_file import load_shipped

    return load_lesson(name) if name.endswith(".toml") else load_shipped(name)


def print_lessons(as_json: bool) -> None:
    """The numbered path; on a terminal with how far one has come."""
    from transom.cli.learn_progress import load_progress
    from transom.lessons.lesson_file import load_shipped, shipped_paths

    lessons = {number: load_shipped(number) for number in range(1, len(shipped_paths()) + 1)}
    if as_json:
        names = ("title", "about", "picture")
        print_json(
            [
                {"number": number, "name": lesson.name[3:], **{name: getattr(lesson, name) for name in names}}
                for number, lesson in lessons.items()
            ]
        )
        return
    progress = load_progress() if sys.stdout.isatty() else {}
    for number, lesson in lessons.items():
        reached = progress.get(lesson.name[3:])
        print_text(f"{number:>3}  {lesson.title}" + (f"  ({reached.summary()})" if reached else ""))
    unfinished = [
        n for n, each in lessons.items() if each.name[3:] not in progress or not progress[each.name[3:]].is_finished
    ]
    first = f"transom learn {unfinished[0]} goes on" if progress and unfinished else "transom learn 1 plays the first"
    print_text(f"\n{first}; transom learn --glossary explains the words.", stderr=True)


def save_lesson(lesson: "Lesson", files: dict[str, Path]) -> None:
    """Write the whole lesson, or its picture, into each file, and print its name."""
    from transom.show.lesson_document import render_lesson_page, render_lesson_pdf

    for kind, path in files.items():
        if path.suffix.lower() != f".{kind}":
            raise Misfit(f"--{kind} writes a file that ends in .{kind}, but got {path}; try {path.stem}.{kind}")
        if kind in ("svg", "png"):
            lesson_picture(lesson).save(path)
        else:
            content = render_lesson_page(lesson).encode() if kind == "html" else render_lesson_pdf(lesson)
            write_file(path, content)
        print_text(str(path))


def print_lesson(lesson: "Lesson", at_once: bool, as_json: bool) -> None:
    """Play a lesson on a terminal, with questions; anywhere else print all of it."""
    from transom.lessons.lesson_screens import screens

    if as_json:
        print_json(lesson_with_claims(lesson))
        return
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    if not at_once and sys.stdin.isatty() and sys.stdout.isatty():
        play_lesson(lesson, width)
        return
    for number, (title, lines) in enumerate(lesson_texts(lesson, list(screens(lesson)), width)):
        if number:
            print_text()
        print_picture(bold(escape_controls(title)) if shows_colours() else title)
        for line in lines:
            print_text(line)
    print_text("\nWith --html FILE or --pdf FILE the whole lesson is saved.", stderr=True)


def play_lesson(lesson: "Lesson", width: int) -> None:
    """Screen by screen, with predictions and changes; how far one comes is kept."""
    from transom.cli.learn_progress import load_progress
    from transom.cli.learn_screens import LessonPlayer
    from transom.lessons.lesson_screens import screens

    reached = load_progress().get(lesson.name[3:])
    if reached is not None:
        print_text(f"So far: {reached.summary()}.", stderr=True)

    def frames(step: "LessonStep") -> list[list[str]]:
        return step_frames(lesson, step, width)

    LessonPlayer(lesson, list(screens(lesson)), width, frames).play()


def lesson_texts(lesson: "Lesson", all_screens: list[Any], width: int) -> Iterator[tuple[str, Iterable[str]]]:
    """The screens of a lesson with their pictures; without any, its own at the end, unless that repeats the steps."""
    for screen in all_screens:
        lines = list(screen.wrap(width))
        if screen.step is not None and screen.step.picture:
            lines += [line for frame in step_frames(lesson, screen.step, width) for line in frame]
        yield screen.title, lines
    if not lesson.script and lesson.picture != "steps":
        yield "Picture", lesson_picture(lesson).text(width=width, colour=False).rstrip().splitlines()


def lesson_picture(lesson: "Lesson") -> "Picture":
    """The picture that the lesson names."""
    from transom.show import draw

    return draw(lesson.picture, lesson, **lesson.draws)


def step_frames(lesson: "Lesson", step: "LessonStep", width: int) -> list[list[str]]:
    """The picture of a screen as text, or one for each token that looks."""
    from transom.show.lesson_document import draw_step

    return [picture.text(width=width).rstrip().splitlines() for picture in draw_step(lesson, step)]


def lesson_with_claims(lesson: "Lesson") -> dict[str, Any]:
    """Every number of a lesson, its screens, and the result of each claim."""
    from transom.lessons import check_lesson
    from transom.lessons.lesson_screens import script_to_dict

    return {
        "name": lesson.name,
        "title": lesson.title,
        "question": lesson.question,
        "about": lesson.about,
        "picture": lesson.picture,
        "cases": [
            {"name": case.name, "says": case.says, "steps": [step.to_dict() for step in case.steps]}
            for case in lesson.cases.values()
        ],
        "screens": script_to_dict(lesson),
        "claims": [finding.to_dict() for finding in check_lesson(lesson)],
        "closing": lesson.closing,
        "next": lesson.next,
    }
