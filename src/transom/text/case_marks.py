"""Capitals written as marks: a word is the same token in every case, and a mark before it says how to write it.

    "Where is Tom? HELP!"   →   " where is↑ tom?⇈ help!"

The first word of a text is expected to be capitalised, and has a mark only if it is not. Words in mixed case (`iPhone`)
and single letters (`I`) stay as they are. Every text comes back as it was.
"""

import re

# Control characters, which no keyboard writes: one byte each, so that a mark is one token. A real one is escaped.
CAPITALISED, AS_IT_IS, ESCAPE, ALL_CAPITALS = "\x0e", "\x0f", "\x10", "\x11"
MARKS = "[\x0e-\x11]"
LABELS = {CAPITALISED: "↑", ALL_CAPITALS: "⇈", AS_IT_IS: "↓", ESCAPE: "␛"}  # how a mark is shown to people
LETTERS = r"[^\W\d_]+"
WORD = re.compile(rf"( ?)({LETTERS})|({MARKS})|(\d)")
MARKED = re.compile(rf"{ESCAPE}({MARKS})|([{CAPITALISED}{AS_IT_IS}{ALL_CAPITALS}])?( ?)({LETTERS})|{MARKS}|(\d)")


def capitalise(word: str) -> str:
    return word[0].upper() + word[1:]


def mark_case(text: str) -> str:
    """A text in lower case, with marks, and with a space before it, so that its first word is like any other."""
    first = True

    def mark(match: re.Match[str]) -> str:
        nonlocal first
        space, word, control, digit = match.groups()
        expected, first = first, first and control is not None
        if control is not None:
            return ESCAPE + control
        if digit is not None:
            return digit
        lower = word.lower()
        if len(word) > 1 and capitalise(lower) == word != lower:
            return f"{'' if expected else CAPITALISED}{space}{lower}"
        if len(word) > 1 and lower.upper() == word != lower:
            return f"{ALL_CAPITALS}{space}{lower}"
        return f"{AS_IT_IS if expected and capitalise(word) != word else ''}{space}{word}"

    return WORD.sub(mark, f" {text}") if text else ""


def restore_case(text: str) -> str:
    """The text that `mark_case` read. In other texts, such as a model's, a mark without a word is left out."""
    first = True

    def restore(match: re.Match[str]) -> str:
        nonlocal first
        control, mark, space, word, digit = match.groups()
        expected, first = first, first and word is None and digit is None
        if control is not None:
            return control
        if word is None:
            return digit or ""
        if mark == ALL_CAPITALS:
            return space + word.upper()
        return space + (capitalise(word) if mark == CAPITALISED or (expected and mark is None) else word)

    return MARKED.sub(restore, text).removeprefix(" ")
