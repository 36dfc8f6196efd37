"""Mistakes in the figures themselves: misprints, numbers of another place, a term left out, weights that miss 1."""

from collections.abc import Iterator
from dataclasses import replace
from math import isqrt, log10

import numpy as np

from transom.lessons.arithmetic import Term, format_number
from transom.lessons.claims import claimed_decimals, flatten_claim
from transom.lessons.diagnosis.misread_value import find_misreading
from transom.lessons.diagnosis.wrong_claim import Explanation, WrongClaim
from transom.lessons.steps import Step

MOST_ROWS = 64  # that are tried in another order


def cut_digits(wrong: WrongClaim) -> Iterator[Explanation]:
    """The right numbers, cut instead of rounded; those that are printed rounded may be right too."""
    values = wrong.right.values
    if np.isfinite(values).all():
        cut = np.asarray(np.trunc(values / wrong.units + np.sign(values) * 1e-9) * wrong.units)
        yield Explanation("the digits were cut off, not rounded", np.where(wrong.matches, values, cut))


def wrong_total(wrong: WrongClaim) -> Iterator[Explanation]:
    """Weights that do not sum to 1: no guess, so it explains each claimed number of that row."""
    claim = wrong.claim
    if claim.of != "weights" or claim.measure != "value" or claim.column is not None:
        return
    one_row = np.ndim(claim.value) == 1
    rows, labels = ([claim.value], [str(claim.row)]) if one_row else (claim.value, wrong.right.rows)
    for label, row in zip(labels, rows, strict=True):
        total = sum(flatten_claim(row))
        if abs(float(total) - 1.0) > 0.5 * len(row) * 10.0 ** -max(claimed_decimals(row)) * (1 + 1e-9):
            words = f"the claimed weights of {label} sum to {total}, and weights sum to 1"
            missing = wrong.error_digits(wrong.right.values)[~wrong.matches].sum()
            yield Explanation(words, wrong.figures, max(0.0, float(missing) - 0.6))
            return


def rest_of_one(wrong: WrongClaim) -> Iterator[Explanation]:
    """A weight that was not computed, but is what the other printed weights of its row leave of 1."""
    claim = wrong.claim
    if claim.of != "weights" or claim.measure != "value" or claim.column is not None:
        return
    for row, right in zip(np.atleast_2d(wrong.figures), np.atleast_2d(wrong.matches), strict=True):
        if not right.all() and ((~right).sum() > 1 or abs(row.sum() - 1.0) > 1e-9):
            return
    words = "it is what the other printed weights leave of 1, and they are rounded"
    yield Explanation(words, np.where(wrong.matches, wrong.right.values, wrong.figures))


def other_step(wrong: WrongClaim) -> Iterator[Explanation]:
    """The numbers of another step in the same place."""
    for name in wrong.steps.names:
        if name != wrong.claim.of:
            words = f"these are the numbers of {name}, not of {wrong.claim.of}"
            yield from wrong.explain_by(wrong.steps, words, claim=replace(wrong.claim, of=name))


def other_head(wrong: WrongClaim) -> Iterator[Explanation]:
    """The numbers of another head, or of another layer."""
    claim = wrong.claim
    for axis in ("head", "layer"):
        own = getattr(wrong.step, axis)
        others = {getattr(step, axis) for step in wrong.steps if step.name == claim.of} - {own, None}
        for other in sorted(others):
            words = f"these are the numbers of {axis} {other}, not of {axis} {own}"
            yield from wrong.explain_by(wrong.steps, words, claim=replace(claim, **{axis: other}))


def other_case(wrong: WrongClaim) -> Iterator[Explanation]:
    """The numbers of another case in the same place."""
    for name, case in wrong.lesson.cases.items():
        if name != wrong.claim.case and wrong.claim.of in case.steps:
            words = f"these are the numbers of {f'the case “{name}”' if name else 'the lesson itself, not of its case'}"
            yield from wrong.explain_by(wrong.steps, words, claim=replace(wrong.claim, case=name))


def swapped_axes(wrong: WrongClaim) -> Iterator[Explanation]:
    """Rows for columns; another row or column; another cell."""
    claim, values, step = wrong.claim, wrong.right.values, wrong.step
    if values.ndim == 2 and values.shape[0] == values.shape[1]:
        yield Explanation("rows and columns were swapped", values.T)
    if claim.measure != "value" or values.ndim == 2:
        return
    places = max(1.0, float(step.values.size if values.ndim == 0 else len(step.rows)))
    cost = log10(places) - 0.7
    if claim.row is not None:
        for row, label in enumerate(step.rows):
            place = f"this is the row of {label}" if claim.column is None else f"this is of row {label}, in that column"
            yield from wrong.explain_by(wrong.steps, place, cost, replace(claim, row=row))
    if claim.column is not None:
        for column, label in enumerate(step.columns):
            place = f"this is the column {label}" if claim.row is None else f"this is of column {label}, in that row"
            yield from wrong.explain_by(wrong.steps, place, cost, replace(claim, column=column))
    yield from turned_place(wrong, step)


def turned_place(wrong: WrongClaim, step: Step) -> Iterator[Explanation]:
    """The row and the column of a claim exchanged."""
    claim, (rows, columns) = wrong.claim, step.values.shape
    if claim.row is None or rows != columns:
        return
    row = step.index_of(claim.row, "row")
    column = None if claim.column is None else step.index_of(claim.column, "column")
    words = "a column was taken for a row" if column is None else "row and column were exchanged"
    yield from wrong.explain_by(wrong.steps, words, claim=replace(claim, row=column, column=row))


def exchanged_places(wrong: WrongClaim) -> Iterator[Explanation]:
    """Two rows, two columns or two numbers in each other's place: those that are wrong; or rows in another order."""
    values, right = wrong.right.values, wrong.right
    if values.ndim == 0:
        return
    axes = (
        {"rows": right.rows, "columns": right.columns} if values.ndim == 2 else {"entries": right.rows or right.columns}
    )
    for axis, (noun, labels) in enumerate(axes.items()):
        size, others = values.shape[axis], tuple(other for other in range(values.ndim) if other != axis)
        places = np.flatnonzero((~wrong.matches).any(axis=others)).tolist()
        if len(places) == 2:
            one, two = places
            order = list(range(size))
            order[one], order[two] = two, one
            words = f"the {noun} {labels[one]} and {labels[two]} were exchanged"
            yield Explanation(words, np.take(values, order, axis=axis), log10(size * (size - 1) / 2))
    if values.ndim == 2:
        yield from reordered_rows(wrong)
        yield from exchanged_entries(wrong)


def exchanged_entries(wrong: WrongClaim) -> Iterator[Explanation]:
    """The two wrong numbers of a matrix in each other's place."""
    places = np.argwhere(~wrong.matches).tolist()
    if len(places) != 2:
        return
    (one, two), values = places, wrong.right.values.copy()
    values[tuple(one)], values[tuple(two)] = values[tuple(two)], values[tuple(one)]
    words = " and ".join(f"({wrong.right.position_text(tuple(place))})" for place in places)
    yield Explanation(f"the entries {words} were exchanged", values, 0.5)


def reordered_rows(wrong: WrongClaim) -> Iterator[Explanation]:
    """The wrong rows, in an order that makes every one of them right."""
    values = wrong.right.values
    rows = np.flatnonzero((~wrong.matches).any(axis=1)).tolist()
    order = list(range(len(values)))
    if not 2 < len(rows) <= MOST_ROWS:
        return
    free = list(rows)
    for row in rows:
        near = np.abs(values[free] - wrong.figures[row]) <= 0.5 * wrong.units[row] * (1 + 1e-9)
        fitting = np.flatnonzero(near.all(axis=1))
        if not len(fitting):
            return
        order[row] = free.pop(int(fitting[0]))
    names = ", ".join(wrong.right.rows[row] for row in order)
    yield Explanation(f"the rows are in another order: {names}", values[order], 0.5 + 0.3 * len(rows))


def constant_factor(wrong: WrongClaim) -> Iterator[Explanation]:
    """All numbers too large, or too small, by one factor: a whole number or its root."""
    wrong_ones = ~wrong.matches & (np.abs(wrong.right.values) > 0) & np.isfinite(wrong.figures)
    if wrong_ones.sum() < 2:
        return
    largest = np.argmax(np.where(wrong_ones, np.abs(wrong.figures), -1.0))
    ratio = float(wrong.figures.ravel()[largest] / wrong.right.values.ravel()[largest])
    if ratio <= 0:
        return
    square = round(max(ratio, 1 / ratio) ** 2)
    if not 2 <= square <= 64**2 or (square > 64 and isqrt(square) ** 2 != square):
        return
    root = isqrt(square)
    text = str(root) if root**2 == square else f"√{square}"
    factor = square**0.5 if ratio > 1 else square**-0.5
    yield Explanation(
        f"every number is {text} times too {'large' if ratio > 1 else 'small'}", wrong.right.values * factor
    )


def wrong_term(wrong: WrongClaim) -> Iterator[Explanation]:
    """One term of a sum left out, counted twice, or with the wrong sign; or its factors added."""
    claim, step = wrong.claim, wrong.step
    if claim.measure != "value" or step.kind not in ("dot", "sum"):
        return
    values, cost, words = wrong.right.values.copy(), 0.0, list[str]()
    for flat in np.flatnonzero(~wrong.matches).tolist():
        terms = step.terms(*wrong.cells[flat])
        found = next((pair for pair in term_mistakes(terms) if fits_entry(wrong, flat, pair[1])), None)
        if found is None:
            return
        values.ravel()[flat] = found[1]
        words.append(found[0])
        cost += log10(3 * len(terms)) - 0.3
    yield Explanation(" and ".join(dict.fromkeys(words[:2])), values, cost)


def term_mistakes(terms: tuple[Term, ...]) -> Iterator[tuple[str, float]]:
    """Each mistake in one term, in words, and the sum that it gives."""
    products = [float(np.prod(term[1:])) for term in terms]
    for term, product in zip(terms, products, strict=True):
        text = "·".join(format_number(factor) for factor in term[1:])
        if product:
            yield f"the term {text} was left out", sum(products) - product
            yield f"the term {text} has the wrong sign", sum(products) - 2 * product
            yield f"the term {text} was counted twice", sum(products) + product
        if len(term) == 3:
            yield f"{text} was added instead of multiplied", sum(products) - product + term[1] + term[2]


def fits_entry(wrong: WrongClaim, flat: int, value: float) -> bool:
    claimed, unit = wrong.figures.ravel()[flat], wrong.units.ravel()[flat]
    return abs(value - claimed) <= 0.5 * unit * (1 + 1e-9)


def misread_value(wrong: WrongClaim) -> Iterator[Explanation]:
    """A value as simple as the others that would explain every weighted sum."""
    claim, steps = wrong.claim, wrong.steps
    if claim.of != "sum" or claim.measure != "value" or claim.column is not None or "V" not in steps:
        return
    head = (claim.head or 0, claim.layer or 0)
    weights, V = steps["weights", *head], steps["V", *head].values
    claimed = wrong.figures.reshape(-1, V.shape[1])
    rows = list(range(len(weights.rows))) if claim.row is None else [weights.index_of(claim.row, "row")]
    matches = wrong.matches.reshape(claimed.shape)
    if len(claimed) != len(rows) or not np.isfinite(claimed).all():
        return
    readings = []
    for key, label in enumerate(weights.columns):
        text = find_misreading(weights.values[rows], V, key, claimed, matches, wrong.decimals)
        if text:
            readings.append(f"the value of {label} was taken as {text}")
    if readings:
        yield Explanation(" or ".join(readings), wrong.figures)
