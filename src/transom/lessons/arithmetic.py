"""The arithmetic of one number, as plain data that can be written out: a dot product, a softmax, a norm."""

import math
from collections.abc import Callable
from dataclasses import dataclass

Term = tuple[str, float] | tuple[str, float, float]


@dataclass(frozen=True)
class Arithmetic:
    """How one number came about.

    kind      which arithmetic it is: a row of WRITERS
    what      the number in words: “score from The at cat”
    terms     (label, left, right) of each product in a dot product, or (label, number) of each piece
    result    the number; −∞ for a score that is masked
    """

    kind: str
    what: str
    terms: tuple[Term, ...]
    result: float

    def written(self, digits: int = 4, most: int | None = None) -> str:
        """The arithmetic written out, to so many decimals; of a long sum only the first `most` terms."""
        return WRITERS[self.kind](self, digits, most)

    def plain(self) -> dict[str, object]:
        """The same for JSON: no infinity, but `masked`."""
        masked = math.isinf(self.result)
        terms = [[None if isinstance(one, float) and math.isinf(one) else one for one in term] for term in self.terms]
        result = None if masked else self.result
        return {"kind": self.kind, "what": self.what, "terms": terms, "result": result, "masked": masked}


def number(value: float, digits: int = 4) -> str:
    """A number to so many decimals without needless zeros; one that rounds to 0 keeps them: only 0 itself is “0”."""
    if value == -math.inf:
        return "masked"
    if abs(value) >= 1e9:
        return f"{value:.{digits}g}"
    shown = f"{value:.{digits}f}"
    if "." not in shown or value == 0.0:
        return shown.split(".")[0].replace("-0", "0")
    return shown.lstrip("-") if float(shown) == 0.0 else shown.rstrip("0").rstrip(".")


def bracketed(value: float, digits: int) -> str:
    """A number as it stands behind a sign: negative ones in brackets."""
    shown = number(value, digits)
    return f"({shown})" if shown.startswith("-") else shown


def summed(pieces: list[str], most: int | None, by: str = " + ") -> str:
    """Pieces with plus signs between; those left out are counted."""
    if most is None or len(pieces) <= most:
        return by.join(pieces) or "0"
    return by.join([*pieces[:most], f"… ({len(pieces) - most} more)"])


def dot_product(one: Arithmetic, digits: int, most: int | None) -> str:
    pieces = [
        f"{bracketed(term[1], digits)}·{bracketed(term[2], digits)}" if len(term) == 3 else bracketed(term[1], digits)
        for term in one.terms
    ]
    return f"{summed(pieces, most)} = {number(one.result, digits)}"


def addition(one: Arithmetic, digits: int, most: int | None) -> str:
    return f"{summed([bracketed(term[1], digits) for term in one.terms], most)} = {number(one.result, digits)}"


def division(one: Arithmetic, digits: int, most: int | None) -> str:
    above, below = one.terms
    return f"{number(above[1], digits)} / {below[0]} = {number(one.result, digits)}"


def multiplication(one: Arithmetic, digits: int, most: int | None) -> str:
    left, right = one.terms
    return f"{number(left[1], digits)} · {bracketed(right[1], digits)} = {number(one.result, digits)}"


def softmax(one: Arithmetic, digits: int, most: int | None) -> str:
    """The first term is the score asked about, the others are all scores of its row."""
    (_, own), *others = ((term[0], term[1]) for term in one.terms)
    seen = [score for _, score in others if score != -math.inf]
    if own == -math.inf:
        return f"masked, so the weight is {number(one.result, digits)}"
    shift = max(seen) if max(seen) > 50.0 else 0.0  # e^50 has 22 digits: nobody wants to read them
    grown = [math.exp(score - shift) for score in seen]
    powers = [f"e^{bracketed(score - shift, digits)}" for score in seen]
    return (
        f"e^{bracketed(own - shift, digits)} / ({summed(powers, most)})"
        f" = {number(math.exp(own - shift), digits)} / {number(sum(grown), digits)} = {number(one.result, digits)}"
    )


def normalised(one: Arithmetic, digits: int, most: int | None) -> str:
    """The first term is the number asked about, then mean and spread, then what it is stretched and moved by."""
    x, mean, spread, gain, bias = (term[1] for term in one.terms)
    written = f"({number(x, digits)} - {bracketed(mean, digits)}) / {number(spread, digits)}"
    written += f" · {bracketed(gain, digits)}" if gain != 1.0 else ""
    written += f" + {bracketed(bias, digits)}" if bias != 0.0 else ""
    return f"{written} = {number(one.result, digits)}"


def applied(one: Arithmetic, digits: int, most: int | None) -> str:
    """A function of the terms, named by `what` up to its bracket: max(0, x), tanh(x) …"""
    inner = ", ".join(number(term[1], digits) for term in one.terms)
    return f"{one.terms[0][0]}({inner}) = {number(one.result, digits)}"


def as_given(one: Arithmetic, digits: int, most: int | None) -> str:
    return f"{number(one.result, digits)}, as given"


def as_measured(one: Arithmetic, digits: int, most: int | None) -> str:
    return f"{number(one.result, digits)}, by experiment"


def unchanged(one: Arithmetic, digits: int, most: int | None) -> str:
    return f"{number(one.result, digits)}, unchanged"


def masked(one: Arithmetic, digits: int, most: int | None) -> str:
    """A score that the mask took away; never a number."""
    return f"masked: {one.what}"


WRITERS: dict[str, Callable[[Arithmetic, int, int | None], str]] = {
    "dot": dot_product,
    "sum": addition,
    "quotient": division,
    "product": multiplication,
    "softmax": softmax,
    "norm": normalised,
    "function": applied,
    "given": as_given,
    "measured": as_measured,
    "unchanged": unchanged,
    "masked": masked,
}
