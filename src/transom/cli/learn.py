"""`transom learn`: the lessons that come with Transom, one step at a time."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli import STOPPED
from transom.cli.cli_io import print_json, print_picture, print_text, shows_colours
from transom.files.terminal import escape_controls
from transom.show.colours import bold

if TYPE_CHECKING:
    from transom.lessons import Lesson
    from transom.show import Picture

WIDEST, NARROWEST = 100, 30  # columns


def run(
    lesson: Annotated[str | None, typer.Argument(help="The number of a lesson, its name, or a lesson file.")] = None,
    at_once: Annotated[bool, typer.Option("--all", help="All steps at once, without waiting for Enter.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Save the lesson's picture as a page.")] = None,
    glossary: Annotated[bool, typer.Option("--glossary", help="Explain the words.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The list, or every number of a lesson, as JSON.")] = False,
) -> None:
    """Lessons on attention with every number worked out; without an argument, a list of them.

    Example: transom learn 1
    """
    if glossary:
        print_glossary(as_json)
    elif lesson is None:
        print_lessons(as_json)
    else:
        print_lesson(load_by_name(lesson), at_once, html, as_json)


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
    for number, lesson in lessons.items():
        print_text(f"{number:>3}  {lesson.title}")
    print_text("\ntransom learn 1 plays the first; transom learn --glossary explains the words.", stderr=True)


def print_lesson(lesson: "Lesson", at_once: bool, html: Path | None, as_json: bool) -> None:
    """Print a lesson page by page; on a terminal Enter turns the page."""
    if as_json:
        print_json(lesson_with_claims(lesson))
        return
    if html is not None:
        lesson_picture(lesson).save(html)
        print_text(str(html))
        return
    waits = not at_once and sys.stdin.isatty() and sys.stdout.isatty()
    for number, (title, lines) in enumerate(lesson_texts(lesson)):
        if number and waits:
            if not wait_for_enter():
                return
        elif number:
            print_text()
        print_picture(bold(escape_controls(title)) if shows_colours() else title)
        for line in lines:
            print_text(line)
    print_text("\nWith --html FILE its picture is saved as a page.", stderr=True)


def wait_for_enter() -> bool:
    """Wait for Enter; q and Ctrl-D end the lesson, Ctrl-C the command."""
    print_text("Enter for the next step, q to stop ", stderr=True, end="")
    try:
        return input().strip().lower() != "q"
    except EOFError:
        print_text(stderr=True)
        return False
    except KeyboardInterrupt:
        print_text(stderr=True)
        raise typer.Exit(STOPPED) from None


def lesson_texts(lesson: "Lesson") -> Iterator[tuple[str, Iterable[str]]]:
    """The pages of a lesson, then its picture, unless that would only repeat the steps."""
    from transom.lessons.lesson_pages import pages

    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    for page in pages(lesson):
        yield page.title, page.wrap(width)
    if lesson.picture != "steps":
        yield "Picture", lesson_picture(lesson).text(width=width, colour=False).rstrip().splitlines()


def lesson_picture(lesson: "Lesson") -> "Picture":
    """The picture that the lesson names."""
    from transom.show import draw

    return draw(lesson.picture, lesson, **lesson.draws)


def lesson_with_claims(lesson: "Lesson") -> dict[str, Any]:
    """Every number of a lesson, and the result of each claim."""
    from transom.lessons import check_lesson

    return {
        "name": lesson.name,
        "title": lesson.title,
        "about": lesson.about,
        "picture": lesson.picture,
        "cases": [
            {"name": case.name, "says": case.says, "steps": [step.to_dict() for step in case.steps]}
            for case in lesson.cases.values()
        ],
        "claims": [finding.to_dict() for finding in check_lesson(lesson)],
        "closing": lesson.closing,
    }
