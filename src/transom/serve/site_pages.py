"""The pages of the site: the first one, the playground, and the lessons with links between them."""

import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from transom.serve.offline_page import read_static
from transom.show.formatting import make_visible

if TYPE_CHECKING:
    from transom.lessons import Lesson

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " worker-src 'self'; base-uri 'none'; form-action 'none'"
)
META_POLICY = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
CHARSET = '<meta charset="utf-8">'
PICTURE = re.compile("[·\u2801-\u28ff]{32}")  # 4 × 8 patches as Braille characters, see recipes/digits


class HomeEntry(NamedTuple):
    """A page of the site: where it is, its title; for a recorded run its text, its model's licence, and about it."""

    path: str
    title: str
    text: str = ""
    licence: str = ""
    about: str = ""


def replace_once(page: str, replacements: dict[str, str]) -> str:
    """A page with some of its parts replaced, each of which must be there once."""
    for before, after in replacements.items():
        assert page.count(before) == 1, before
        page = page.replace(before, after)
    return page


def show(text: str) -> str:
    """Any text as text of a page: nothing in it is markup, and nothing invisible steers it."""
    return escape(make_visible(text))


def playground_page(version: str, size: int) -> str:
    """The page of the server, on the engine: it knows the version of the model and its size in bytes."""
    return replace_once(
        read_static("index.html"),
        {
            CHARSET: f"{CHARSET}\n    {META_POLICY}",
            '<html lang="en">': f'<html lang="en" data-version="{version}" data-bytes="{size}">',
            'src="app.js"': 'src="engine/site_start.js"',
            "</footer>": '  <p><a href="../index.html">Everything on this site</a></p>\n    </footer>',
        },
    )


def home_page(lessons: list[HomeEntry], runs: list[HomeEntry]) -> str:
    """The first page: what this is, and where to begin."""
    template = (files("transom.serve") / "site_files" / "home.html").read_text(encoding="utf-8")
    lesson_items = "\n".join(f'<li><a href="{one.path}">{show(one.title)}</a></li>' for one in lessons)
    run_items = "\n".join(map(run_item, runs))
    return replace_once(
        template,
        {
            CHARSET: f"{CHARSET}\n    {META_POLICY}",
            "<!-- lessons -->": lesson_items,
            "<!-- runs -->": f'<ul class="runs">\n{run_items}\n</ul>',
        },
    )


def run_item(run: HomeEntry) -> str:
    """A recorded run in the list: its text, or the picture that it read."""
    rows = [run.text[first : first + 8] for first in range(0, len(run.text), 8)]
    picture = f'<pre role="img" aria-label="The picture that it read">{"<br>".join(rows)}</pre>'
    read = picture if PICTURE.fullmatch(run.text) else f"<q>{show(run.text)}</q>"
    about = f"<span>{show(run.about)}</span>" if run.about else ""
    model = f"<small>Model: {show(run.title)}, licence {show(run.licence)}</small>"
    return f'<li><a href="{run.path}">{show(run.title)}</a>{about}{read}{model}</li>'


def lesson_page(lesson: "Lesson", number: int, before: HomeEntry | None, after: HomeEntry | None) -> str:
    """A lesson with links to the one before, to the one after, and to the same lesson in the playground."""
    from transom.show.lesson_document import render_lesson_page

    def link(path: str, title: str) -> str:
        return f'<a href="../{path}">{show(title)}</a>'

    links = [link("index.html", "Transom")]
    links += [f"before: {link(before.path, before.title)}"] if before else []
    links += [f"next: {link(after.path, after.title)}"] if after else []
    links += [link(f"try/index.html#view=learn&amp;lesson={number}", "Answer and change it in the playground")]
    nav = f'<nav aria-label="Lessons"><p>{" · ".join(links)}</p></nav>'
    page = render_lesson_page(lesson)
    return replace_once(page, {'<main class="transom lesson">': f'<main class="transom lesson">{nav}'})
