"""`transom learn`: the lessons that come with Transom, one step at a time."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from transom.cli import STOPPED
from transom.cli.output import print_json, print_picture, print_text, shows_colours
from transom.files.terminal import escape_controls
from transom.show.colours import bold

WIDTH = 100  # at most
NARROWEST = 30


def run(
    lesson: Annotated[str | None, typer.Argument(help="The number of a lesson, its name, or a lesson file.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="All steps at once, without waiting for Enter.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="The lesson's picture as a page in this file.")] = None,
    glossary: Annotated[bool, typer.Option("--glossary", help="The words, in plain words.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The list, or every number of a lesson, as JSON.")] = False,
) -> None:
    """Lessons on attention with every number worked out; without a number, the list of them.

    Example: transom learn 1
    """
    if glossary:
        words(as_json)
    elif lesson is None:
        listing(as_json)
    else:
        play(found(lesson), whole, html, as_json)


def words(as_json: bool) -> None:
    from transom.lessons.glossary import GLOSSARY

    if as_json:
        print_json(GLOSSARY)
        return
    for word, meaning in GLOSSARY.items():
        print_text(f"{word:<22} {meaning}")


def found(lesson: str) -> Any:
    """A lesson of the shelf, or of a file."""
    from transom.lessons import read
    from transom.lessons.shelf import shipped

    return read(lesson) if lesson.endswith(".toml") else shipped(lesson)


def listing(as_json: bool) -> None:
    from transom.lessons.shelf import paths, shipped

    lessons = [(number, shipped(number)) for number in range(1, len(paths()) + 1)]
    if as_json:
        rows = [
            {"number": number, "name": one.name[3:], "title": one.title, "about": one.about, "picture": one.picture}
            for number, one in lessons
        ]
        print_json(rows)
        return
    for number, one in lessons:
        print_text(f"{number:>3}  {one.title}")
    print_text("\ntransom learn 1 plays the first; transom learn --glossary says what the words mean.", stderr=True)


def play(lesson: Any, whole: bool, html: Path | None, as_json: bool) -> None:
    """A lesson page by page: on a terminal Enter turns the page."""
    if as_json:
        print_json(plain(lesson))
        return
    if html is not None:
        drawn(lesson).save(html)
        print_text(str(html))
        return
    waiting = not whole and sys.stdin.isatty() and sys.stdout.isatty()
    for place, (title, lines) in enumerate(told(lesson)):
        if place and waiting:
            if not turned():
                return
        elif place:
            print_text()
        print_picture(bold(escape_controls(title)) if shows_colours() else title)
        for line in lines:
            print_text(line)
    print_text("\nWith --html FILE its picture is drawn as a page.", stderr=True)


def turned() -> bool:
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


def told(lesson: Any) -> Iterator[tuple[str, Iterable[str]]]:
    """The pages of a lesson, and its picture at the end; the view `steps` would only say everything again."""
    from transom.lessons.playing import pages

    width = max(NARROWEST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))
    for page in pages(lesson):
        yield page.title, page.fitted(width)
    if lesson.picture != "steps":
        yield "Picture", drawn(lesson).text(width=width, colour=False).rstrip().splitlines()


def drawn(lesson: Any) -> Any:
    """The lesson's own picture."""
    from transom.show import draw

    return draw(lesson.picture, lesson, **lesson.draws)


def plain(lesson: Any) -> dict[str, Any]:
    """Every number of a lesson, and what came of each claim."""
    from transom.lessons import checked

    return {
        "name": lesson.name,
        "title": lesson.title,
        "about": lesson.about,
        "picture": lesson.picture,
        "cases": [
            {"name": case.name, "says": case.says, "steps": [step.plain() for step in case.steps]}
            for case in lesson.cases.values()
        ],
        "claims": [finding.plain() for finding in checked(lesson)],
        "closing": lesson.closing,
    }
