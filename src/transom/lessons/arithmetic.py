"""The arithmetic behind one number, as plain data that can be written out: a dot product, a softmax, a norm."""

import math
from collections.abc import Callable
from dataclasses import dataclass

Term = tuple[str, float] | tuple[str, float, float]
NOTES = {"given": "as given", "measured": "by experiment", "unchanged": "unchanged"}


@dataclass(frozen=True)
class Arithmetic:
    """How one number was computed.

    kind      which arithmetic it is: a row of NOTES or WRITERS, or "masked"
    subject   the number in words: “scores from The at cat”
    terms     (label, left, right) for each product of a dot product, or (label, number) for each piece
    result    the number; −∞ for a masked score
    """

    kind: str
    subject: str
    terms: tuple[Term, ...]
    result: float

    def to_text(self, digits: int = 4, most: int | None = None) -> str:
        """The arithmetic written out, to so many decimals; a long sum shows only its first `most` terms."""
        result = format_number(self.result, digits)
        if self.kind == "masked":
            return f"masked: {self.subject}"
        if self.kind in NOTES:
            return f"{result}, {NOTES[self.kind]}"
        if self.kind == "softmax" and self.terms[0][1] == -math.inf:
            return f"masked, so the weight is {result}"
        return f"{WRITERS[self.kind](self.terms, NumberFormat(digits, most))} = {result}"

    def to_dict(self) -> dict[str, object]:
        """The same for JSON, which has no infinity: a masked score is None."""
        terms = [[finite_or_none(part) if isinstance(part, float) else part for part in term] for term in self.terms]
        masked = self.result == -math.inf
        result = finite_or_none(self.result)
        return {"kind": self.kind, "what": self.subject, "terms": terms, "result": result, "masked": masked}


def finite_or_none(value: float) -> float | None:
    """A number for JSON: None for infinity and NaN."""
    return float(value) if math.isfinite(value) else None


def format_number(value: float, digits: int = 4) -> str:
    """A number to so many decimals without needless zeros; one that rounds to 0 keeps them: only 0 itself is “0”."""
    if value == -math.inf:
        return "masked"
    if abs(value) >= 1e9:
        return f"{value:.{digits}g}"
    shown = f"{value:.{digits}f}"
    if "." not in shown or value == 0.0:
        return shown.split(".")[0].replace("-0", "0")
    return shown.lstrip("-") if float(shown) == 0.0 else shown.rstrip("0").rstrip(".")


@dataclass(frozen=True)
class NumberFormat:
    """How many decimals a number gets, and how many terms a sum."""

    digits: int
    most: int | None

    def plain(self, value: float) -> str:
        return format_number(value, self.digits)

    def in_brackets(self, value: float) -> str:
        """A number behind an operator: a negative one in brackets."""
        shown = self.plain(value)
        return f"({shown})" if shown.startswith("-") else shown

    def join_sum(self, pieces: list[str]) -> str:
        """Pieces with plus signs between; those left out are counted."""
        if self.most is None or len(pieces) <= self.most:
            return " + ".join(pieces) or "0"
        return " + ".join([*pieces[: self.most], f"… ({len(pieces) - self.most} more)"])


def sum_text(terms: tuple[Term, ...], numbers: NumberFormat) -> str:
    """A sum of numbers, or of products of two."""
    return numbers.join_sum(["·".join(numbers.in_brackets(factor) for factor in term[1:]) for term in terms])


def quotient_text(terms: tuple[Term, ...], numbers: NumberFormat) -> str:
    """A number divided by one that is written as its label: √4."""
    above, below = terms
    return f"{numbers.plain(above[1])} / {below[0]}"


def softmax_text(terms: tuple[Term, ...], numbers: NumberFormat) -> str:
    """The first term is the score of the weight, the others are all scores of its row."""
    own, *row = (term[1] for term in terms)
    scores = [score for score in row if score != -math.inf]
    shift = max(scores) if max(scores) > 50.0 else 0.0  # e^50 has 22 digits: nobody wants to read them
    powers = [f"e^{numbers.in_brackets(score - shift)}" for score in scores]
    total = sum(math.exp(score - shift) for score in scores)
    return (
        f"e^{numbers.in_brackets(own - shift)} / ({numbers.join_sum(powers)})"
        f" = {numbers.plain(math.exp(own - shift))} / {numbers.plain(total)}"
    )


def norm_text(terms: tuple[Term, ...], numbers: NumberFormat) -> str:
    x, mean, spread, gain, bias = (term[1] for term in terms)
    text = f"({numbers.plain(x)} - {numbers.in_brackets(mean)}) / {numbers.plain(spread)}"
    text += f" · {numbers.in_brackets(gain)}" if gain != 1.0 else ""
    return text + (f" + {numbers.in_brackets(bias)}" if bias != 0.0 else "")


def function_text(terms: tuple[Term, ...], numbers: NumberFormat) -> str:
    """A function of one number, written as the label of the term: tanh(x)."""
    ((function, x, *_),) = terms
    return f"{function}({numbers.plain(x)})"


WRITERS: dict[str, Callable[[tuple[Term, ...], NumberFormat], str]] = {
    "dot": sum_text,
    "sum": sum_text,
    "quotient": quotient_text,
    "softmax": softmax_text,
    "norm": norm_text,
    "function": function_text,
}
