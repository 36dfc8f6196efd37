"""Pages whose every block is run, in order, in a folder that holds nothing but the recipes, with what it prints.

    python docs/run_pages.py [PAGE …]     runs them, and writes what they print today into them

A block with `file=NAME` behind its language is written to that file. In one that begins with `$ `, each line with
`$ ` is a command, and what follows is what it prints; a line `…` stands for lines that are left out. Blocks of Python
share their names, page by page, and a block of text behind one is what it prints. Behind `about`, fractions may differ
as they do from machine to machine; behind `once` is a training as it went once, and only the first line that a command
prints is held. Blocks of `sh` are not run: they set Transom up.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parent.parent
PAGES = {page.stem: page for page in sorted((ROOT / "docs/getting-started").glob("*.md"))} | {
    "README": ROOT / "README.md"
}
FENCED = re.compile(r"^```(?P<language>\w+)(?P<more>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
LEFT_OUT = "…"
WIDTH = "100"


@dataclass(frozen=True)
class Told:
    """What was run, what a page says that it prints, and what it printed."""

    line: int
    command: str
    said: str
    printed: str
    how: str  # exactly, about or once
    place: tuple[int, int]  # of what is said, in the page


def told(page: Path) -> Iterator[Told]:
    """Run all blocks of a page; gives each that prints something, or is said to."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "page"}
    pending: tuple[int, str, str] | None = None  # line, code and output of Python whose text may follow
    with tempfile.TemporaryDirectory() as folder, chdir(folder), mock.patch.dict(os.environ, surroundings()):
        Path("recipes").symlink_to(ROOT / "recipes")
        for block in FENCED.finditer(text):
            line, code = text.count("\n", 0, block.start()) + 1, block["code"]
            how, file = manner(block["more"]), re.search(r"file=(\S+)", block["more"])
            if pending and block["language"] == "text" and not code.startswith("$ "):
                yield Told(pending[0], pending[1], code, pending[2], how, block.span("code"))
                pending = None
            elif pending:
                raise SystemExit(f"{page}:{pending[0]}: prints something that no block of text shows: {pending[2]}")
            elif file:
                Path(file[1]).write_text(code, encoding="utf-8")
            elif code.startswith("$ "):
                for command, start, end in commands(code):
                    place = (block.start("code") + start, block.start("code") + end)
                    yield Told(line, command, code[start:end], shell(command), how, place)
            elif block["language"] == "python":
                printed = captured(partial(exec, compile(code, f"{page.name}:{line}", "exec"), names))
                pending = (line, code, printed) if printed else None
    if pending:
        raise SystemExit(f"{page}:{pending[0]}: prints something that no block of text shows: {pending[2]}")


def manner(more: str) -> str:
    """How closely a block is held to what is printed."""
    return next((word for word in more.split() if word in ("about", "once")), "exactly")


def surroundings() -> dict[str, str]:
    """The same for every reader: a width, no colour, one thread, and the Python that runs this on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {"COLUMNS": WIDTH, "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "PATH": path}


def commands(code: str) -> Iterator[tuple[str, int, int]]:
    """Each command of a block, and where what it prints begins and ends."""
    starts = [found.start() for found in re.finditer(r"^\$ ", code, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        command = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*)\n", code[start:end])
        assert command is not None
        yield command[1], start + command.end(), end


def shell(command: str) -> str:
    """What a command prints, on both of its streams; those of Transom run in this process, which has torch loaded."""
    words = shlex.split(command.replace("\\\n", " "))
    if command == "make run":
        return transom(["tour", "--html", "out/tour.html"], ".venv/bin/transom")
    if words[0] == "transom" and not {"|", "&&", ";", ">", "<"} & set(words):
        return transom(words[1:])
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode > 1:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def transom(words: list[str], called: str = "transom") -> str:
    from transom.cli import main

    codes: list[int] = []
    with mock.patch.object(sys, "argv", [called, *words]):
        printed = captured(lambda: codes.append(main(words)))
    if codes[0] > 1:
        raise SystemExit(f"transom {shlex.join(words)} ended with {codes[0]}: {printed}")
    return printed


def captured(work) -> str:
    """What is printed while something runs."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        work()
    stream.flush()
    return written.getvalue().decode()


def alike(one: Told) -> bool:
    """Whether a page says what was printed."""
    said, printed = one.said.splitlines(), one.printed.splitlines()
    if one.how == "once":
        return near(*(lines[0] if lines else "" for lines in (said, printed)))
    same = near if one.how == "about" else str.__eq__
    return follows([line.rstrip() for line in said], [line.rstrip() for line in printed], same)


def follows(said: list[str], printed: list[str], same) -> bool:
    """Line by line; … stands for any number of lines, and one is enough for the first that fits behind it."""
    if not said:
        return not printed
    if said[0] == LEFT_OUT:
        return any(follows(said[1:], printed[first:], same) for first in range(len(printed) + 1))
    return bool(printed) and same(said[0], printed[0]) and follows(said[1:], printed[1:], same)


NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|[░▒▓█]+")


def near(said: str, printed: str) -> bool:
    """The same words; fractions, and shades of them, may differ."""
    words = [" ".join(NUMBER.sub("0", line).split()) for line in (said, printed)]
    return words[0] == words[1]


def renewed(page: Path) -> str:
    """The page with what its blocks print today; lines that it leaves out stay left out."""
    text = page.read_text(encoding="utf-8")
    for one in sorted(told(page), key=lambda one: one.place, reverse=True):
        if not alike(one) or (one.how != "exactly" and LEFT_OUT not in one.said):
            text = text[: one.place[0]] + shortened(one) + text[one.place[1] :]
    return text


def shortened(one: Told) -> str:
    """What was printed; of something that was cut, as many lines before and after the cut as there were."""
    said, printed = one.said.splitlines(), one.printed.splitlines()
    if said.count(LEFT_OUT) == 1:
        cut = said.index(LEFT_OUT)
        printed = [*printed[:cut], LEFT_OUT, *printed[len(printed) - (len(said) - cut - 1) :]]
    return "".join(f"{line.rstrip()}\n" for line in printed)


def main(names: list[str]) -> None:
    for name in names or PAGES:
        page = PAGES[name]
        new = renewed(page)
        changed = new != page.read_text(encoding="utf-8")
        page.write_text(new, encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {'written anew' if changed else 'as it was'}")


if __name__ == "__main__":
    main(sys.argv[1:])
