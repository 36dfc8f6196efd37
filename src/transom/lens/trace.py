"""A Trace: every attention of one run, in the order in which they ran."""

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from transom.lens.beside import Beside, Tokens
from transom.lens.grids import Grid
from transom.lens.hearing.stitching import chosen_run, stitched
from transom.lens.labels import Labels, labels
from transom.lens.on_file.trace_file import Header, read, written
from transom.lens.sight import Sight
from transom.names import Drawable, Misfit

Words = Sequence[str] | Sequence[Sequence[str]] | None


class Disproved(Misfit):
    """A receipt fails: what was recomputed is not what the model used."""


class Trace(Drawable):
    """The attentions of a run, each under the path of the module it ran in.

    `trace[name]` is the one attention of that name, `trace.all(name)` are all of them where a module ran more than
    once, `trace[number]` goes by the order of running. `tokens` holds the words of each sequence, and `targets` those
    that the decoder of an encoder–decoder reads, if they were given; both may be set after the run. `grid` tells where
    in an image each token is.
    """

    def __init__(self, tokens: Words = None, targets: Words = None, grid: Grid | None = None) -> None:
        self.beside = Beside()
        self.tokens, self.targets, self.grid = tokens, targets, grid
        self.seen: list[tuple[str, Sight]] = []

    @property
    def tokens(self) -> Tokens | None:
        return self.beside.tokens

    @tokens.setter
    def tokens(self, words: Words) -> None:
        self.beside.tokens = None if words is None else sequences(words)

    @property
    def targets(self) -> Tokens | None:
        return self.beside.targets

    @targets.setter
    def targets(self, words: Words) -> None:
        self.beside.targets = None if words is None else sequences(words)

    @property
    def grid(self) -> Grid | None:
        return self.beside.grid

    @grid.setter
    def grid(self, grid: Grid | None) -> None:
        self.beside.grid = grid

    def add(self, name: str, sight: Sight) -> None:
        """Put an attention behind the others; from then on it knows its name and the words of this run."""
        sight.place = (name, self.beside)
        self.seen.append((name, sight))

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they first ran."""
        return list(dict.fromkeys(name for name, _ in self.seen))

    def __len__(self) -> int:
        return len(self.seen)

    def __iter__(self) -> Iterator[Sight]:
        return (sight for _, sight in self.seen)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known, _ in self.seen)

    def items(self) -> Iterator[tuple[str, Sight]]:
        """Name and sight of each attention, in the order of running."""
        return iter(self.seen)

    def all(self, name: str) -> list[Sight]:
        """Every attention of that name, in the order of running."""
        found = [sight for known, sight in self.seen if known == name]
        if not found:
            raise Misfit(f"no attention ran in {name!r}; {nearest(name, self.names)}")
        return found

    def __getitem__(self, name: str | int) -> Sight:
        if isinstance(name, int):
            if not -len(self) <= name < len(self):
                raise Misfit(f"{len(self)} attentions were seen, so {name} is none of them; count from 0")
            return self.seen[name][1]
        found = self.all(name)
        if len(found) > 1:
            raise Misfit(f"{name!r} ran {len(found)} times, so it is not one attention; take trace.all({name!r})[-1]")
        return found[0]

    def page(self, name: str = "") -> Any:
        """The run as a page in one file, to look around in and to send: `save` it, or let a notebook show it."""
        return import_module(self.paged_by).page_of(self, name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one safetensors file: names, tokens and masks in the header, numbers as float32."""
        written(Path(path), Header(tokens=self.tokens, targets=self.targets, grid=self.grid), self.seen)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read what `save` wrote; a file that is damaged or made up is an error that says so."""
        said, seen = read(Path(path))
        trace = cls(said.tokens, said.targets, said.grid)
        for name, sight in seen:
            trace.add(name, sight)
        return trace

    def labels(self, name: str, batch: int = 0) -> Labels:
        """The words beside an attention: `.reads` and `.predicts` for each row, `.at` for each column."""
        return labels(name, self[name], self.tokens, self.targets, self.grid, batch)

    def stitched(self, run: int | None = None) -> "Trace":
        """The same with one attention under each name: the steps of a generation as if the text had been read whole."""
        whole = Trace(self.tokens, self.targets, self.grid)
        for name in self.names:
            whole.add(name, stitched(chosen_run(name, self.all(name), run)))
        return whole

    def proven(self) -> "Trace":
        """Itself, if no receipt fails: what is to be drawn must be what the model did."""
        for name, sight in self.seen:
            receipt = sight.receipt()
            if receipt.fails:
                raise Disproved(
                    f"the weights of {name!r} do not make the output that the model used: they are off by"
                    f" {receipt.difference:.1e}, but {receipt.tolerance:.1e} is allowed; nothing of this run is drawn"
                )
        return self

    def __repr__(self) -> str:
        return f"Trace({len(self)} attentions: {some(self.names)})"


def sequences(tokens: Sequence[str] | Sequence[Sequence[str]]) -> Tokens:
    """Tokens as one list of words per sequence."""
    if not isinstance(tokens, str):
        rows: Any = [tokens] if all(isinstance(one, str) for one in tokens) else tokens
        if all(isinstance(row, Sequence) and not isinstance(row, str) for row in rows) and all(
            isinstance(one, str) for row in rows for one in row
        ):
            return [list(row) for row in rows]
    raise Misfit(
        f"tokens must be a list of words, or one such list per sequence, but got {tokens!r:.60};"
        " a tokenizer gives them from its ids"
    )


def nearest(name: str, known: list[str]) -> str:
    """The known names that look most like one, as the end of a sentence."""
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    return f"nearest are {some(close)}" if close else f"those that did are {some(known)}"


def some(names: list[str], most: int = 6) -> str:
    listed = ", ".join(repr(name) for name in names[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed or "none"
