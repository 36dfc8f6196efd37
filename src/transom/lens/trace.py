"""A Trace: every attention of one run, in order, with labels for its rows and columns."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

from transom.lens.attention.labels import Labels, PatchGrid, RunLabels, Tokens, in_decoder, is_cross
from transom.lens.attention.sight import AnySight, AttentionView
from transom.lens.attention.stitching import select_run, stitch_steps
from transom.lens.storage.trace_file import load_trace, save_trace
from transom.lens.unseen_attention import UnseenAttention, UnseenList
from transom.names import Drawable, Misfit, check_index

MAKING = threading.RLock()  # two threads may ask for the same Sight at once
GivenTokens = Sequence[str] | Sequence[Sequence[str]] | None  # of one sequence, or of each


class ReceiptFailed(Misfit):
    """A receipt failed: the weights do not reproduce the model's output."""


class Trace(Drawable):
    """The attentions of a run, each under the path of its module.

    `trace[name]` is the one attention of that name, `trace.all(name)` lists all of them if a module ran more than
    once, and `trace[number]` counts in running order. `tokens` holds the tokens of each sequence as text, `targets`
    those that the decoder of an encoder–decoder reads; both can be set after the run. `grid` is the position of each
    token in an image. `unseen` lists the attention that ran and could not be captured.
    """

    def __init__(self, tokens: GivenTokens = None, targets: GivenTokens = None, grid: PatchGrid | None = None) -> None:
        self.run_labels = RunLabels()
        self.tokens, self.targets, self.grid = tokens, targets, grid
        self.known: list[tuple[str, AnySight]] = []
        self.waiting: list[tuple[str, Callable[[], AnySight]]] = []

    @property
    def tokens(self) -> Tokens | None:
        return self.run_labels.tokens

    @tokens.setter
    def tokens(self, tokens: GivenTokens) -> None:
        self.run_labels.tokens = None if tokens is None else to_sequences(tokens)

    @property
    def targets(self) -> Tokens | None:
        return self.run_labels.targets

    @targets.setter
    def targets(self, targets: GivenTokens) -> None:
        self.run_labels.targets = None if targets is None else to_sequences(targets)

    @property
    def grid(self) -> PatchGrid | None:
        return self.run_labels.grid

    @grid.setter
    def grid(self, grid: PatchGrid | None) -> None:
        self.run_labels.grid = grid

    @property
    def unseen(self) -> UnseenList:
        return UnseenList(self.run_labels.unseen)

    @unseen.setter
    def unseen(self, unseen: Sequence[UnseenAttention]) -> None:
        self.run_labels.unseen = list(unseen)

    @property
    def entries(self) -> list[tuple[str, AnySight]]:
        """Name and Sight of each attention, in running order."""
        if self.waiting:
            self.make_waiting()
        return self.known

    @entries.setter
    def entries(self, entries: list[tuple[str, AnySight]]) -> None:
        self.known, self.waiting = entries, []

    def add(self, name: str, sight: AnySight) -> None:
        """Append an attention; from then on it knows its name and the labels of this run."""
        sight.trace_labels = (name, self.run_labels)
        self.entries.append((name, sight))

    def add_later(self, name: str, make: Callable[[], AnySight]) -> None:
        """Append an attention whose Sight is made when the trace is first read."""
        self.waiting.append((name, make))

    def make_waiting(self) -> None:
        """Make the Sights that nobody has asked for yet."""
        with MAKING:
            while self.waiting:
                name, make = self.waiting[0]
                sight = make()
                sight.trace_labels = (name, self.run_labels)
                self.known.append((name, sight))
                del self.waiting[0]

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they first ran."""
        return list(dict.fromkeys(name for name, _ in self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[AnySight]:
        return (sight for _, sight in self.entries)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known, _ in self.entries)

    def items(self) -> Iterator[tuple[str, AnySight]]:
        """Name and Sight of each attention, in running order."""
        return iter(self.entries)

    def all(self, name: str) -> list[AnySight]:
        """Every attention of that name, in running order."""
        sights = [sight for known, sight in self.entries if known == name]
        if not sights:
            raise Misfit(f"no attention ran in {name!r}; {suggest_names(name, self.names)}")
        return sights

    def __getitem__(self, name: str | int) -> AnySight:
        if isinstance(name, int):
            return self.entries[check_index(name, "attentions", len(self))][1]
        sights = self.all(name)
        if len(sights) > 1:
            raise Misfit(f"{name!r} ran {len(sights)} times, so it is not one attention; take trace.all({name!r})[-1]")
        return sights[0]

    def page(self, name: str = "") -> Any:
        """The run as an interactive page in one file: `save` it, or show it in a notebook."""
        return import_module(self.paged_by).page_of(self, name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file: names, tokens and masks in the header, numbers as float32."""
        save_trace(Path(path), self.run_labels, self.entries)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read a file that `save` wrote; a damaged or malformed one raises an error that says what is wrong."""
        header, entries = load_trace(Path(path))
        trace = cls(header.tokens, header.targets, header.grid)
        trace.unseen = list(header.unseen)
        for name, sight in entries:
            trace.add(name, sight)
        return trace

    def labels(self, name: str, batch: int = 0) -> Labels:
        """The labels of an attention: `.reads` and `.predicts` for each row, `.at` for each column."""
        return attention_labels(name, self[name], self.run_labels, batch)

    def stitched(self, run: int | None = None) -> "Trace":
        """A trace with one attention under each name: the steps of a generation joined, as if read at once."""
        stitched = Trace(self.tokens, self.targets, self.grid)
        stitched.unseen = self.unseen
        for name in self.names:
            stitched.add(name, stitch_steps(select_run(name, self.all(name), run)))
        return stitched

    def proven(self) -> "Trace":
        """The trace itself, if no receipt fails; otherwise an error."""
        for name, sight in self.entries:
            receipt = sight.receipt()
            if receipt.fails:
                raise ReceiptFailed(
                    f"the weights of {name!r} do not reproduce the model's output: they are off by"
                    f" {receipt.difference:.1e}, but {receipt.tolerance:.1e} is allowed; nothing of this run is drawn"
                )
        return self

    def __repr__(self) -> str:
        missing = f"; {len(self.unseen)} unseen: {list_some([one.name for one in self.unseen])}" if self.unseen else ""
        return f"Trace({len(self)} attentions: {list_some(self.names)}{missing})"


def to_sequences(tokens: Sequence[str] | Sequence[Sequence[str]]) -> Tokens:
    """Tokens as one list of strings per sequence."""
    if not isinstance(tokens, str):
        rows: Any = [tokens] if all(isinstance(token, str) for token in tokens) else tokens
        if all(isinstance(row, Sequence) and not isinstance(row, str) for row in rows) and all(
            isinstance(token, str) for row in rows for token in row
        ):
            return [list(row) for row in rows]
    raise Misfit(
        f"tokens must be a list of strings, or one such list per sequence, but got {tokens!r:.60};"
        " a tokenizer gives them from its ids"
    )


def layer_matches(layer: str | int, name: str) -> bool:
    """Whether `layer` selects the attention `name`: a number in its path, the path or its start, or a pattern."""
    if isinstance(layer, int):
        return str(layer) in name.split(".")
    return name == layer or name.startswith(f"{layer}.") or fnmatchcase(name, layer)


def suggest_names(name: str, known: list[str]) -> str:
    """The known names most like this one, as the end of an error message."""
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    return f"nearest are {list_some(close)}" if close else f"those that did are {list_some(known)}"


def list_some(names: list[str], most: int = 6) -> str:
    """The first few names, and how many more there are."""
    listed = ", ".join(repr(name) for name in names[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed or "none"


def attention_labels(name: str, view: AttentionView, run: RunLabels, batch: int) -> Labels:
    """The labels of one attention; positions where the run has no tokens."""
    queries, keys = view.shape[2:]
    if run.grid is not None and run.grid.covers(name, keys) and queries == keys:
        return Labels(run.grid.labels(), None, run.grid.labels())
    first = view.first_key
    cross = is_cross(name)
    own = run.targets if run.targets is not None and in_decoder(name) else run.tokens
    columns = tokens_of(run.tokens if cross else own, batch)
    at = slice_tokens(name, columns, first, keys, "keys")
    if cross:
        rows, start = tokens_of(run.targets, batch), 0
    else:
        rows, start = columns, max(0, first + keys - queries)
    reads = slice_tokens(name, rows, start, queries, "queries")
    if rows is None or not (cross or looks_back(view)):
        return Labels(reads, None, at)
    following: list[str | None] = [*rows[start + 1 : start + 1 + queries]]
    return Labels(reads, following + [None] * (queries - len(following)), at)


def tokens_of(tokens: Tokens | None, batch: int) -> list[str] | None:
    """The tokens of one sequence of the batch."""
    return None if tokens is None else tokens[check_index(batch, "sequences", len(tokens))]


def slice_tokens(name: str, tokens: list[str] | None, first: int, count: int, axis: str) -> list[str]:
    """`count` tokens from `first` on, or their positions if there are no tokens."""
    if tokens is None:
        return [str(position) for position in range(first, first + count)]
    if len(tokens) < first + count:
        raise Misfit(
            f"{name!r} has {axis}={first + count}, but there are {len(tokens)} tokens for them; give one string per"
            " token, and targets for what a decoder reads"
        )
    return tokens[first : first + count]


def looks_back(view: AttentionView) -> bool:
    """Whether no row attends to later keys, so that each predicts the next token."""
    full = view.full
    if full is None:
        return False
    queries, keys = full.shape[2:]
    later = full.weights(rows=0, keys=slice(max(0, keys - queries) + 1, None)) if queries else full.lse
    return not bool(later.any())
