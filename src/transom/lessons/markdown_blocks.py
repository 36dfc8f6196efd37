"""The lessons in a Markdown file: its fenced blocks named `attention`, with the lines they stand on."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from transom.files.documents import MalformedDocument, decode_toml

SUFFIXES = (".md", ".markdown", ".mdx", ".qmd", ".rmd", ".mkd")
NAME = "attention"
FENCE = re.compile(r"(?P<prefix>[ \t>]*)(?P<marks>`{3,}|~{3,})(?P<info>[^`\n]*)")
LONGEST = 200  # characters of a title, or of what is behind a fence


@dataclass(frozen=True)
class FencedBlock:
    """A fenced block of a Markdown file.

    words    the words behind its fence
    line     the line of its fence, from 1
    prefix   what each of its lines begins with: spaces in a list, > in a quotation
    lines    its text, without the prefix
    title    the nearest heading above it
    """

    words: tuple[str, ...]
    line: int
    prefix: str
    lines: tuple[str, ...]
    title: str

    @property
    def is_lesson(self) -> bool:
        return NAME in self.words

    @property
    def near_name(self) -> str:
        """A word behind the fence that is nearly `attention`, or ""."""
        return "" if self.is_lesson else next(iter(get_close_matches(NAME, self.words, n=1, cutoff=0.8)), "")

    def lesson_text(self) -> str:
        """The lesson as TOML, with a line in place of the fence: its title, from the heading, if the block has none."""
        text = "\n".join(self.lines) + "\n"
        return self.title_line(text) + "\n" + text

    def title_line(self, text: str) -> str:
        """`title = …`, or "" if the block has a title."""
        try:
            content = decode_toml(text)
        except MalformedDocument:  # reported when the lesson is parsed
            content = {}
        title = re.sub(r'["\\\x00-\x1f\x7f]', "'", self.title)[:LONGEST] or f"line {self.line}"
        return "" if "title" in content else f'title = "{title}"'


def fenced_blocks(text: str) -> Iterator[FencedBlock]:
    """Every fenced block of a Markdown text; one that is not closed goes on to the end."""
    lines, number, title = text.split("\n"), 0, ""
    while number < len(lines):
        fence = FENCE.fullmatch(lines[number].rstrip("\r"))
        title = heading_text(lines[number]) or title
        number += 1
        if fence is None:
            continue
        first, prefix = number, fence["prefix"]
        closing = re.compile(rf"[ \t>]*{re.escape(fence['marks'][0])}{{{len(fence['marks'])},}}\s*")
        while number < len(lines) and not closing.fullmatch(lines[number]):
            number += 1
        inner = tuple(without_prefix(line.rstrip("\r"), prefix) for line in lines[first:number])
        words = tuple(re.sub(r"[{}.,]", " ", fence["info"][:LONGEST]).split())
        yield FencedBlock(words, first, prefix, inner, title)
        number += 1


def heading_text(line: str) -> str:
    """The text of a heading # …; "" for any other line."""
    text = line.strip(" >\t\r")
    return text.strip("#").strip() if text.startswith("#") else ""


def without_prefix(line: str, prefix: str) -> str:
    """A line of a block without what the fence is indented by."""
    if line.startswith(prefix):
        return line[len(prefix) :]
    return line.lstrip(" \t>") if line.strip(" \t>") == "" else line.lstrip(" \t")


def replace_blocks(text: str, corrected: dict[FencedBlock, str]) -> str:
    """The Markdown text with the lessons of some blocks corrected; each is the whole text of `lesson_text`."""
    lines = text.split("\n")
    for block, lesson in corrected.items():
        for offset, line in enumerate(lesson.split("\n")[1 : 1 + len(block.lines)]):
            if line != block.lines[offset]:
                ending = "\r" if lines[block.line + offset].endswith("\r") else ""
                lines[block.line + offset] = f"{block.prefix}{line}{ending}"
    return "\n".join(lines)
