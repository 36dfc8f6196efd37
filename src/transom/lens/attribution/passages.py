"""Cuts the tokens of a text into passages: sentences, paragraphs or chat turns."""

import re
from collections.abc import Sequence
from itertools import pairwise

from transom.names import Misfit

# What ends a passage: it is cut after the token in which the match ends, or before the one in which a turn begins.
SPLITTERS = {
    "sentences": re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)|\n+"),
    "paragraphs": re.compile(r"\n\s*\n+"),
    "turns": re.compile(r"(?=<\|im_start\|>|<\|start_header_id\|>|<start_of_turn>|\[INST\])"),
}
MARKS = {"Ġ": " ", "▁": " ", "Ċ": "\n"}  # how tokenizers write a space and a new line
MOST_SHOWN = 60  # characters of a passage in its name


def split_passages(tokens: Sequence[str], by: str) -> list[tuple[str, tuple[int, int]]]:
    """Each passage: the beginning of its text, and its tokens as (first, one past the last)."""
    if by not in SPLITTERS:
        raise Misfit(f"passages are {', '.join(SPLITTERS)}, but got {by!r}; or give the spans themselves")
    texts = [plain_text(token) for token in tokens]
    starts, length = [], 0
    for text in texts:
        starts.append(length)
        length += len(text)
    whole = "".join(texts)
    cuts = {match.end() for match in SPLITTERS[by].finditer(whole)}
    bounds = sorted({0, len(texts), *(next_start(cut, starts) for cut in cuts)})
    spans = [(first, last) for first, last in pairwise(bounds) if last > first]
    passages: dict[str, tuple[int, int]] = {}
    for number, (first, last) in enumerate(spans):
        text = " ".join("".join(texts[first:last]).split())
        passages[f"{number}: {text[:MOST_SHOWN]}{'…' if len(text) > MOST_SHOWN else ''}"] = (first, last)
    return list(passages.items())


def plain_text(token: str) -> str:
    """A token as the text that it stands for; a word of a WordPiece vocabulary gets its space back."""
    for mark, text in MARKS.items():
        token = token.replace(mark, text)
    return token


def next_start(cut: int, starts: list[int]) -> int:
    """The first token that begins at this character or after it."""
    return next((number for number, start in enumerate(starts) if start >= cut), len(starts))
