"""Run every block of the pages, in order, in a folder that holds only the recipes, and compare what it prints.

    python docs/run_pages.py [PAGE …]     runs them, and updates the output that the pages show

A block with `file=NAME` after its language is written to that file. In a block that begins with `$ `, each line with
`$ ` is a command, and what follows is its output; a line `…` stands for lines that are left out. The Python blocks of a
page share their names, and a block of text after one is its output. After `about`, fractions may differ, as they do
between machines; after `once` only the first line of each command's output is compared, since the block shows one
particular training. Blocks of `sh` are not run: they set Transom up.
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
class RunBlock:
    """A command or a Python block, the output that the page shows, and what it printed."""

    line: int
    command: str
    shown: str
    printed: str
    strictness: str  # exactly, about or once
    span: tuple[int, int]  # of the shown output, in the page


def run_blocks(page: Path) -> Iterator[RunBlock]:
    """Run all blocks of a page; yields each that prints something or shows output."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "page"}
    pending: tuple[int, str, str] | None = None  # line, code and output of Python whose text may follow
    with tempfile.TemporaryDirectory() as folder, chdir(folder), mock.patch.dict(os.environ, build_environment()):
        Path("recipes").symlink_to(ROOT / "recipes")
        for block in FENCED.finditer(text):
            line, code = text.count("\n", 0, block.start()) + 1, block["code"]
            strictness, file = parse_strictness(block["more"]), re.search(r"file=(\S+)", block["more"])
            if pending and block["language"] == "text" and not code.startswith("$ "):
                yield RunBlock(pending[0], pending[1], code, pending[2], strictness, block.span("code"))
                pending = None
            elif pending:
                raise SystemExit(f"{page}:{pending[0]}: prints something that no block of text shows: {pending[2]}")
            elif file:
                Path(file[1]).write_text(code, encoding="utf-8")
            elif code.startswith("$ "):
                for command, start, end in split_commands(code):
                    span = (block.start("code") + start, block.start("code") + end)
                    yield RunBlock(line, command, code[start:end], run_command(command), strictness, span)
            elif block["language"] == "python":
                printed = capture_output(partial(exec, compile(code, f"{page.name}:{line}", "exec"), names))
                pending = (line, code, printed) if printed else None
    if pending:
        raise SystemExit(f"{page}:{pending[0]}: prints something that no block of text shows: {pending[2]}")


def parse_strictness(more: str) -> str:
    """How strictly the shown output is compared: exactly, about or once."""
    return next((word for word in more.split() if word in ("about", "once")), "exactly")


def build_environment() -> dict[str, str]:
    """The same for every reader: a width, no colour, one thread, and this Python on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {"COLUMNS": WIDTH, "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "PATH": path}


def split_commands(code: str) -> Iterator[tuple[str, int, int]]:
    """Each command of a block, and where its output begins and ends."""
    starts = [found.start() for found in re.finditer(r"^\$ ", code, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        command = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*)\n", code[start:end])
        assert command is not None
        yield command[1], start + command.end(), end


def run_command(command: str) -> str:
    """The output of a command, both streams; Transom's commands run in this process, where torch is loaded."""
    words = shlex.split(command.replace("\\\n", " "))
    if command == "make run":
        return run_transom(["tour", "--html", "out/tour.html"], ".venv/bin/transom")
    if words[0] == "transom" and not {"|", "&&", ";", ">", "<"} & set(words):
        return run_transom(words[1:])
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode > 1:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def run_transom(words: list[str], called: str = "transom") -> str:
    from transom.cli import main

    codes: list[int] = []
    with mock.patch.object(sys, "argv", [called, *words]):
        printed = capture_output(lambda: codes.append(main(words)))
    if codes[0] > 1:
        raise SystemExit(f"transom {shlex.join(words)} ended with {codes[0]}: {printed}")
    return printed


def capture_output(work) -> str:
    """What a call prints."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        work()
    stream.flush()
    return written.getvalue().decode()


def matches(one: RunBlock) -> bool:
    """Whether a page shows what was printed."""
    shown, printed = one.shown.splitlines(), one.printed.splitlines()
    if one.strictness == "once":
        return same_words(*(lines[0] if lines else "" for lines in (shown, printed)))
    same = same_words if one.strictness == "about" else str.__eq__
    return lines_match([line.rstrip() for line in shown], [line.rstrip() for line in printed], same)


def lines_match(shown: list[str], printed: list[str], same) -> bool:
    """Compare line by line; … stands for any number of lines."""
    if not shown:
        return not printed
    if shown[0] == LEFT_OUT:
        return any(lines_match(shown[1:], printed[first:], same) for first in range(len(printed) + 1))
    return bool(printed) and same(shown[0], printed[0]) and lines_match(shown[1:], printed[1:], same)


NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?|[░▒▓█]+")


def same_words(shown: str, printed: str) -> bool:
    """The same words; fractions, and shades of them, may differ."""
    words = [" ".join(NUMBER.sub("0", line).split()) for line in (shown, printed)]
    return words[0] == words[1]


def update_page(page: Path) -> str:
    """The page with what its blocks print now; lines that it leaves out stay left out."""
    text = page.read_text(encoding="utf-8")
    for one in sorted(run_blocks(page), key=lambda one: one.span, reverse=True):
        if not matches(one) or (one.strictness != "exactly" and LEFT_OUT not in one.shown):
            text = text[: one.span[0]] + abridge(one) + text[one.span[1] :]
    return text


def abridge(one: RunBlock) -> str:
    """What was printed; if the page leaves lines out, with as many lines before and after the gap as it shows."""
    shown, printed = one.shown.splitlines(), one.printed.splitlines()
    if shown.count(LEFT_OUT) == 1:
        gap = shown.index(LEFT_OUT)
        printed = [*printed[:gap], LEFT_OUT, *printed[len(printed) - (len(shown) - gap - 1) :]]
    return "".join(f"{line.rstrip()}\n" for line in printed)


def main(names: list[str]) -> None:
    for name in names or PAGES:
        page = PAGES[name]
        new = update_page(page)
        changed = new != page.read_text(encoding="utf-8")
        page.write_text(new, encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {'updated' if changed else 'unchanged'}")


if __name__ == "__main__":
    main(sys.argv[1:])
