"""Worked examples made by a seed, and spoilt by one mistake each: in numpy alone, without Transom's own steps."""

import random
import re
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

PARAMETERS = ("W_Q", "W_K", "W_V")


@dataclass(frozen=True, eq=False)
class Example:
    """One attention with its parameters, (heads, in, out) each; what is printed of it has so many decimals."""

    X: np.ndarray
    parameters: dict[str, np.ndarray]
    causal: bool
    decimals: int

    @property
    def heads(self):
        return len(self.parameters["W_Q"])

    @cached_property
    def right(self):
        return attend(self)

    def to_toml(self, claims):
        """The lesson, with a claim for each (step, head, printed values, place)."""
        tokens = ", ".join(f'"t{place}"' for place in range(len(self.X)))
        lines = ['title = "x"', f"tokens = [{tokens}]", f"embeddings = {to_text(self.X, 1)}", "[attention]"]
        lines += [f"heads = {self.heads}", f'mask = "{"causal" if self.causal else "none"}"', "[parameters]"]
        for name, values in self.parameters.items():
            matrix = np.concatenate(list(values), axis=-1)
            lines.append(f"{name} = {to_text(matrix, 1)}")
        for step, head, text, place in claims:
            lines += ["[[claim]]", f'of = "{step}"', *([f"head = {head}"] if self.heads > 1 else [])]
            lines += [place, f"value = {text}"]
        return "\n".join(lines) + "\n"


def to_text(values, decimals):
    """A matrix or a row as TOML; a masked score is "masked"."""
    if np.ndim(values):
        return "[" + ", ".join(to_text(part, decimals) for part in values) + "]"
    return '"masked"' if np.isneginf(values) else f"{values + 0.0:.{decimals}f}"


@dataclass(frozen=True, eq=False)
class Slips:
    """What goes wrong in `attend`: each field is one mistake."""

    sources: dict[str, str] = field(default_factory=dict)  # which W is used for which
    transposed: str = ""
    divisor: float | None = None
    axis: int | None = -1
    powers: str = "e"
    total: bool = True
    mask: str = "right"
    bias: bool = True
    rounded: dict[str, int] = field(default_factory=dict)
    cut: bool = False
    printed: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)


NO_SLIP = Slips()


def attend(example, slips=NO_SLIP):
    """Every step of every head, by (name, head)."""
    steps = {}

    def put(name, head, values):
        if name in slips.rounded or "all" in slips.rounded:
            unit = 10.0 ** slips.rounded.get(name, slips.rounded.get("all"))
            values = np.floor(values * unit + 1e-9) / unit if slips.cut else np.round(values * unit) / unit
        steps[name, head] = slips.printed.get((name, head), values)
        return steps[name, head]

    for head in range(example.heads):
        made = {}
        for letter in "QKV":
            name = f"W_{letter}"
            W = example.parameters[slips.sources.get(name, name)][head]
            W = W.T if slips.transposed == name else W
            b = example.parameters.get(f"b_{letter}")
            values = example.X @ W + (b[head] if b is not None and slips.bias else 0.0)
            made[letter] = put(letter, head, values)
        scores = put("scores", head, made["Q"] @ made["K"].T)
        scaled = put("scaled", head, scores / (slips.divisor or np.sqrt(made["Q"].shape[1])))
        weights = put("weights", head, weigh(example, scaled, slips, put, head))
        put("sum", head, weights @ made["V"])
    return steps


def weigh(example, scaled, slips, put, head):
    """The softmax of the scaled scores, with the mask and its mistakes."""
    n = len(scaled)
    allowed = np.tril(np.ones((n, n), dtype=bool)) if example.causal else np.ones((n, n), dtype=bool)
    if slips.mask == "turned":
        allowed = allowed.T
    if slips.mask == "itself":
        allowed = allowed & ~np.eye(n, dtype=bool)
    if slips.mask == "added":
        allowed = np.tril(allowed)
    masked = scaled
    if (example.causal or slips.mask == "added") and slips.mask not in ("forgotten", "after"):
        masked = put("masked", head, np.where(allowed, scaled, 0.0 if slips.mask == "zero" else -np.inf))
    powers = {"e": np.exp(masked), "2": 2.0**masked, "none": np.where(np.isneginf(masked), 0.0, masked)}[slips.powers]
    if "powers" in slips.rounded:
        powers = np.round(powers, slips.rounded["powers"])
    total = powers.sum(axis=slips.axis, keepdims=True) if slips.total else 1.0
    with np.errstate(all="ignore"):
        weights = np.where(total == 0.0, 0.0, powers / np.where(total == 0.0, 1.0, total))
    return np.where(allowed, weights, 0.0) if slips.mask == "after" else weights


def make_example(rng):
    """A small attention with round numbers."""
    numbers = np.random.default_rng(rng.randrange(2**31))
    tokens, d_model = rng.randint(2, 5), rng.randint(2, 5)
    heads, width = rng.choice([1, 1, 2]), rng.randint(2, 4)
    width = d_model if rng.random() < 0.5 else width
    halves = rng.random() < 0.5

    def draw(*shape):
        return numbers.integers(-2, 4, shape) / 2 if halves else numbers.integers(-9, 19, shape) / 10

    parameters = {name: draw(heads, d_model, width) for name in PARAMETERS}
    if rng.random() < 0.3:
        parameters |= {f"b_{letter}": draw(heads, width) for letter in rng.sample("QKV", rng.randint(1, 3))}
    return Example(draw(tokens, d_model), parameters, rng.random() < 0.4, rng.choice([2, 3, 4]))


AFTER = {"Q": ("scores", "scaled", "weights", "sum"), "scores": ("scaled", "weights", "sum")}
AFTER |= {"scaled": ("weights", "sum"), "weights": ("sum",)}
LATE = ("weights", "sum")


def slip_kinds(example):
    """Each kind of mistake in the computation: the cause that names it, the steps it shows in, and the slips."""
    root, n = np.sqrt(example.parameters["W_Q"].shape[2]), len(example.X)
    kinds = [
        ("unscaled", ("weights", "sum"), Slips(divisor=1.0)),
        ("wrong divisor", ("scaled", *LATE), Slips(divisor=root**2)),
        ("wrong axis", LATE, Slips(axis=-2)),
        ("wrong axis", LATE, Slips(axis=None)),
        ("no softmax", LATE, Slips(powers="none")),
        ("no softmax", LATE, Slips(total=False)),
        ("parameters exchanged", ("weights", "sum"), Slips(sources={"W_Q": "W_K", "W_K": "W_Q"})),
        ("parameters exchanged", ("scores", "weights", "sum"), Slips(sources={"W_V": "W_K", "W_K": "W_V"})),
        ("parameters exchanged", ("scores", "weights", "sum"), Slips(sources={"W_Q": "W_V", "W_V": "W_Q"})),
        ("rounded early", LATE, Slips(rounded={"all": example.decimals - 1})),
        ("rounded early", ("sum",), Slips(rounded={"weights": max(1, example.decimals - 1)})),
        ("rounded early", LATE, Slips(rounded={"scaled": example.decimals - 1})),
        ("rounded early", ("weights",), Slips(rounded={"powers": example.decimals})),
    ]
    if example.X.shape[1] == example.parameters["W_Q"].shape[2]:
        kinds += [("transposed", ("Q", "scores", *LATE), Slips(transposed="W_Q"))]
        kinds += [("transposed", ("K", "scores", *LATE), Slips(transposed="W_K"))]
        kinds += [("transposed", ("V", "sum"), Slips(transposed="W_V"))]
    if any(name.startswith("b_") for name in example.parameters):
        letter = next(name[2] for name in example.parameters if name.startswith("b_"))
        if sum(name.startswith("b_") for name in example.parameters) == 1:
            kinds += [("left out", (letter, "sum"), Slips(bias=False))]
    if example.causal:
        kinds += [("mask forgotten", LATE, Slips(mask="forgotten")), ("mask turned", LATE, Slips(mask="turned"))]
        kinds += [("mask misplaced", LATE, Slips(mask=mask)) for mask in ("itself", "zero", "after")]
    elif n > 1:
        kinds += [("mask forgotten", LATE, Slips(mask="added"))]
    return kinds


def spoil_number(rng, text):
    """A printed number with one digit, its sign or its decimal place wrong; and the kind of misprint."""
    kind = rng.choice(["digit", "digit", "sign", "place", "swap"])
    digits = [place for place, letter in enumerate(text) if letter.isdigit()]
    decimals = len(text.partition(".")[2])
    if kind == "digit":
        place = rng.choice(digits)
        return text[:place] + rng.choice([d for d in "0123456789" if d != text[place]]) + text[place + 1 :]
    if kind == "sign":
        return text[1:] if text.startswith("-") else f"-{text}"
    if kind == "place":
        return f"{float(text) * rng.choice([10.0, 0.1]):.{decimals}f}"
    one = rng.randrange(len(digits) - 1)
    letters = list(text)
    letters[digits[one]], letters[digits[one + 1]] = letters[digits[one + 1]], letters[digits[one]]
    return "".join(letters)


WHOLE = ("exchanged", "follows")  # mistakes that are seen in a whole matrix only


@dataclass(frozen=True)
class Mutation:
    """A lesson whose last claim is spoilt by the mistake that `cause` names; it claims all of a step, or a part."""

    cause: str
    part: str
    text: str


def make_mutation(rng):
    """A lesson spoilt by one mistake of any kind; None if the mistake does not show."""
    example = make_example(rng)
    head, decimals = rng.randrange(example.heads), example.decimals
    kinds = ["slip"] * 6 + ["misprint"] * 2 + ["follows"] * 2 + ["exchanged", "other", "cut off", "wrong term"]
    kind = rng.choice(kinds)
    if kind == "slip":
        cause, steps, slips = rng.choice(slip_kinds(example))
        step = rng.choice(steps)
        spoilt = attend(example, slips).get((step, head))
        return spoil_figures(rng, example, cause, step, head, spoilt)
    steps = [name for name, owner in example.right if owner == head and name != "masked"]
    step = rng.choice(steps)
    right = example.right[step, head]
    if kind == "misprint":
        return misprint_mutation(rng, example, step, head)
    if kind == "exchanged":
        axis = rng.randrange(2)
        one, two = rng.sample(range(right.shape[axis]), 2)
        order = list(range(right.shape[axis]))
        order[one], order[two] = two, one
        return spoil_figures(rng, example, "exchanged", step, head, np.take(right, order, axis=axis))
    if kind == "cut off":
        cut = np.trunc(right * 10.0**decimals + np.sign(right) * 1e-9) / 10.0**decimals
        return spoil_figures(rng, example, "cut off", step, head, cut)
    if kind == "other":
        return other_place(rng, example, step, head)
    if kind == "wrong term":
        return missing_term(rng, example, head)
    return following(rng, example, head)


def spoil_figures(rng, example, cause, step, head, spoilt):
    """The lesson with spoilt figures of a step: all, a row or one; None if, as they are printed, they are right."""
    right = example.right[step, head]
    if spoilt is None or spoilt.shape != right.shape or not (np.isfinite(spoilt) | np.isneginf(spoilt)).all():
        return None
    printed = np.array([[float(f"{value:.{example.decimals}f}") for value in row] for row in spoilt])
    with np.errstate(invalid="ignore"):
        off = np.abs(printed - right) > 0.5001 * 10.0**-example.decimals
    off |= np.isfinite(printed) != np.isfinite(right)
    if not off.any() or np.abs(printed[np.isfinite(printed)]).max() > 1e9:
        return None
    part = "all" if cause in WHOLE else rng.choice(["all", "all", "row", "row", "number"])
    row, column = rng.choice(np.argwhere(off).tolist())
    place = {"all": "", "row": f"row = {row + 1}", "number": f"row = {row + 1}\ncolumn = {column + 1}"}[part]
    values = {"all": spoilt, "row": spoilt[row], "number": spoilt[row, column]}[part]
    return Mutation(cause, part, example.to_toml([(step, head, to_text(values, example.decimals), place)]))


def misprint_mutation(rng, example, step, head):
    values = example.right[step, head]
    row, column = (rng.randrange(size) for size in values.shape)
    rows = [[to_text(value, example.decimals) for value in line] for line in values]
    if not np.isfinite(values).all() or len(rows[row][column].lstrip("-0.").replace(".", "")) < 3:
        return None
    rows[row][column] = spoil_number(rng, rows[row][column])
    is_right = abs(float(rows[row][column]) - values[row, column]) <= 0.5001 * 10.0**-example.decimals
    if is_right or re.match(r"-?0\d", rows[row][column]):  # TOML has no number like 01.5
        return None
    text = "[" + ", ".join("[" + ", ".join(line) + "]" for line in rows) + "]"
    return Mutation("misprint", "all", example.to_toml([(step, head, text, "")]))


def other_place(rng, example, step, head):
    """The figures of another head, or of another step of the same size."""
    right = example.right
    if example.heads > 1 and rng.random() < 0.7:
        return spoil_figures(rng, example, "wrong head", step, head, right[step, 1 - head])
    others = [name for name, owner in right if owner == head and name != step]
    name = rng.choice([name for name in others if right[name, head].shape == right[step, head].shape] or others)
    return spoil_figures(rng, example, "other step", step, head, right[name, head])


def missing_term(rng, example, head):
    """One score with one product left out, or with the wrong sign."""
    right = example.right
    i, j = rng.randrange(len(example.X)), rng.randrange(len(example.X))
    k = rng.randrange(right["Q", head].shape[1])
    spoilt = right["scores", head].copy()
    spoilt[i, j] -= right["Q", head][i, k] * right["K", head][j, k] * rng.choice([1.0, 2.0])
    return spoil_figures(rng, example, "wrong term", "scores", head, spoilt)


def following(rng, example, head):
    """A wrong figure, and a later one that is right by it."""
    first = rng.choice(list(AFTER))
    step = rng.choice(AFTER[first])
    wrong = np.round(example.right[first, head].copy(), example.decimals)
    row, column = (rng.randrange(size) for size in wrong.shape)
    wrong[row, column] += rng.choice([-1, 1]) * rng.choice([0.1, 0.2, 0.25, 0.5, 1.0])
    spoilt = attend(example, replace(NO_SLIP, printed={(first, head): wrong}))[step, head]
    mutation = spoil_figures(rng, example, "follows", step, head, spoilt)
    if mutation is None:
        return None
    claims = [(first, head, to_text(wrong, example.decimals), ""), (step, head, to_text(spoilt, example.decimals), "")]
    return Mutation("follows", "all", example.to_toml(claims))


def mutations(count, seed):
    """So many spoilt lessons."""
    rng, made = random.Random(seed), 0
    while made < count:
        mutation = make_mutation(rng)
        if mutation is not None:
            made += 1
            yield mutation
