"""Claims: right to their printed digits, each measure by plain arithmetic, and every cause of a wrong one."""

import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transom.lessons import check_lesson, parse_lesson
from transom.lessons.claims import ALONE, BETWEEN, MEASURES, claimed_decimals, rounds_to
from transom.lessons.diagnosis import CAUSES
from transom.names import Misfit

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(numbers, st.integers(0, 9))
def test_a_number_printed_rounded_is_right(value, decimals):
    assert rounds_to(value, float(f"{value:.{decimals}f}"), decimals)


@given(numbers, st.integers(0, 6), st.sampled_from([-1, 1]))
def test_a_number_off_by_one_in_its_last_digit_is_wrong(value, decimals, sign):
    assert not rounds_to(value, float(f"{value:.{decimals}f}") + sign * 1.01 * 10.0**-decimals, decimals)


def test_exactly_between_two_both_are_right():
    assert rounds_to(0.125, 0.12, 2)
    assert rounds_to(0.125, 0.13, 2)


def test_a_whole_number_among_decimals_is_held_to_theirs():
    assert claimed_decimals((Decimal("0.25"), Decimal(1), Decimal("0.5"))) == [2, 2, 1]
    assert claimed_decimals((Decimal(2), Decimal(0))) == [0, 0]


def test_each_measure_by_plain_arithmetic():
    a, b = [0.5, 0.3, 0.2], [0.1, 0.0, 0.9]
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    right = {
        "total": 1.0,
        "entropy": -sum(x * math.log(x) for x in a),
        "length": math.sqrt(sum(x * x for x in a)),
        "largest": 0.5,
        "smallest": 0.2,
        "cosine": dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(x * x for x in b)),
        "distance": math.dist(a, b),
        "difference": 0.7,
    }
    for name, value in right.items():
        result = ALONE[name](np.array(a)) if name in ALONE else BETWEEN[name](np.array(a), np.array(b))
        assert float(result) == pytest.approx(value, rel=1e-12), name
    assert float(ALONE["rank"](np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]]))) == 1.0
    assert set(right) | {"rank", "value"} == set(MEASURES)


LESSON = """title = "x"
tokens = ["a", "b", "c"]
embeddings = [[1, 0, 2], [0, 3, 1], [1, 1, 0]]
{before}
[attention]
mask = "{mask}"
temperature = {temperature}
[parameters]
W_Q = [[1, 2, 0], [0, 1, 0], [1, 0, 1]]
W_K = "identity"
W_V = "identity"
b_V = [0.1, 0.2, 0.3]
[block]
residual = true
[[claim]]
{claim}
"""


HEADS = """title = "x"
tokens = ["a", "b", "c"]
embeddings = [[1, 0, 2, 1], [0, 3, 1, 2], [1, 1, 0, 3]]
[attention]
heads = 2
[parameters]
all = "identity"
[[claim]]
{claim}
"""


def check(claim, mask="none", temperature="1.0", before="", lesson=LESSON):
    """The finding about the last claim."""
    text = lesson.format(claim=claim, mask=mask, temperature=temperature, before=before)
    return check_lesson(parse_lesson(text, "x.toml"))[-1]


ROOT = math.sqrt(3)


def weights_by_numpy(scale=ROOT, transposed=False, mask=None, axis=1):
    """The weights of the lesson in numpy alone."""
    x = np.array([[1, 0, 2], [0, 3, 1], [1, 1, 0]], dtype=float)
    W = np.array([[1, 2, 0], [0, 1, 0], [1, 0, 1]], dtype=float)
    s = x @ (W.T if transposed else W) @ x.T / scale
    s = s if mask is None else np.where(mask, s, -np.inf)
    e = np.exp(s - s.max())
    return e / e.sum(axis=axis, keepdims=True)


def as_toml(matrix, decimals=3):
    return "[" + ", ".join("[" + ", ".join(f"{x:.{decimals}f}" for x in row) + "]" for row in matrix) + "]"


CAUSAL = np.tril(np.ones((3, 3), dtype=bool))
X = np.array([[1, 0, 2], [0, 3, 1], [1, 1, 0]], dtype=float)
V = X + np.array([0.1, 0.2, 0.3])
MISREAD = V + np.array([[0, 0, 0], [2, -1, 3], [0, 0, 0]])
CUT = np.floor(weights_by_numpy() * 1000) / 1000
SUM = weights_by_numpy() @ V
EARLY = np.round(np.round(weights_by_numpy(), 1) @ V, 1)
W_Q = np.array([[1, 2, 0], [0, 1, 0], [1, 0, 1]], dtype=float)
SCALED = X @ W_Q @ X.T / ROOT


def weights_of(scores):
    powers = np.exp(scores / ROOT)
    return powers / powers.sum(axis=1, keepdims=True)


WRONG = {
    "cut off": (f'of = "weights"\nvalue = {as_toml(CUT)}', {}, "the digits were cut off, not rounded"),
    "not one": (
        'of = "weights"\nrow = "a"\nvalue = [0.50, 0.30, 0.10]',
        {},
        "the claimed weights of a sum to 0.90, and weights sum to 1",
    ),
    "unscaled": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy(1.0))}',
        {},
        "the scores were not divided by √d_head",
    ),
    "wrong divisor": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy(3.0))}',
        {},
        "the scores were divided by d_head instead of √d_head",
    ),
    "wrong axis": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy(axis=0))}',
        {},
        "the softmax went down the columns, over the queries; it goes along each row, over the keys",
    ),
    "mask forgotten": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy())}',
        {"mask": "causal"},
        "the mask was forgotten",
    ),
    "mask turned": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy(mask=CAUSAL.T))}',
        {"mask": "causal"},
        "the mask was turned the wrong way round",
    ),
    "transposed": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy(transposed=True))}',
        {},
        "W_Q was taken transposed",
    ),
    "left out": (f'of = "sum"\nvalue = {as_toml(weights_by_numpy() @ X)}', {}, "the bias b_V was left out"),
    "other step": (
        f'of = "scores"\nvalue = {as_toml(weights_by_numpy())}',
        {},
        "these are the numbers of weights, not of scores",
    ),
    "swapped": (f'of = "weights"\nvalue = {as_toml(weights_by_numpy().T)}', {}, "rows and columns were swapped"),
    "value vector": (
        f'of = "sum"\nrow = "a"\nvalue = {as_toml([weights_by_numpy()[0] @ MISREAD], 4)[1:-1]}',
        {},
        "the value of b was taken as [2.1 2.2 4.3] instead of [0.1 3.2 1.3]",
    ),
    "follows": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy(-ROOT))}\n[[claim]]\nof = "sum"\n'
        f"value = {as_toml(np.round(weights_by_numpy(-ROOT), 3) @ V)}",
        {},
        "it follows from weights in line 17, which is wrong; by that figure this is right",
    ),
    "rest of one": (
        'of = "weights"\nrow = "b"\nvalue = [0.01675, 0.95341, 0.02984]',
        {},
        "it is what the other printed weights leave of 1, and they are rounded",
    ),
    "no softmax": (
        f'of = "weights"\nvalue = {as_toml(SCALED / SCALED.sum(axis=1, keepdims=True))}',
        {},
        "the scores were divided by their sum, without e^score",
    ),
    "mask misplaced": (
        f'of = "weights"\nvalue = {as_toml(np.where(CAUSAL, weights_by_numpy(), 0.0))}',
        {"mask": "causal"},
        "the mask came after the softmax, so that the rows do not sum to 1",
    ),
    "parameters exchanged": (
        f'of = "weights"\nvalue = {as_toml(weights_of(X @ (X @ W_Q).T))}',
        {},
        "W_Q and W_K were exchanged",
    ),
    "wrong head": (
        'of = "scores"\nhead = 0\nvalue = [[5, 4, 3], [4, 5, 6], [3, 6, 9]]',
        {"lesson": HEADS},
        "these are the numbers of head 1, not of head 0",
    ),
    "other case": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy(2 * ROOT))}',
        {"before": '[[case]]\nname = "warmer"\nattention = { temperature = 2.0 }'},
        "these are the numbers of the case “warmer”",
    ),
    "exchanged": (
        f'of = "weights"\nvalue = {as_toml(weights_by_numpy()[[1, 0, 2]])}',
        {},
        "the rows a and b were exchanged",
    ),
    "misprint": (
        'of = "scores"\nrow = "b"\ncolumn = "b"\nvalue = 100.0',
        {},
        "the decimal point is one place too far right: 100.0 is printed for 10.0",
    ),
    "wrong term": (
        f'of = "scores"\nvalue = {as_toml(X @ W_Q @ X.T - np.outer([0, 1, 0], [0, 9, 0]))}',
        {},
        "the term 3·3 was left out",
    ),
    "factor": (
        f'of = "scores"\nvalue = {as_toml(7 * X @ W_Q @ X.T)}',
        {},
        "every number is 7 times too large",
    ),
    "rounded early": (
        f'of = "sum"\nvalue = {as_toml(EARLY, 1)}',
        {},
        "each step was rounded to 1 decimal before the next",
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_every_cause_is_found(name):
    claim, changes, words = WRONG[name]
    finding = check(f'{claim}\nslip = "{name}"', **changes)
    assert finding.verdict == "slip"
    assert words in finding.causes[name]


@pytest.mark.parametrize("name", ["cut off", "transposed"])
def test_a_wrong_claim_is_wrong_and_a_slip_is_held_to_its_cause(name):
    claim, changes, words = WRONG[name]
    finding = check(claim, **changes)
    assert finding.verdict == "wrong"
    assert words in finding.causes[name]
    assert check(f'{claim}\nslip = "mask turned"', **changes).verdict == "no slip"


def test_a_slip_that_is_right_is_no_slip():
    assert check(f'of = "weights"\nvalue = {as_toml(weights_by_numpy())}\nslip = true').verdict == "no slip"
    assert check('of = "weights"\nrow = "a"\nvalue = [0.9, 0.05, 0.05]\nslip = true').verdict == "slip"


@pytest.mark.parametrize(
    ("claim", "changes", "words"),
    [
        (
            f'of = "weights"\nvalue = {as_toml(weights_by_numpy())}',
            {"temperature": "2.0"},
            "the temperature was left out",
        ),
        (
            f'of = "weights"\nvalue = {as_toml(weights_by_numpy(mask=CAUSAL))}',
            {},
            "a causal mask was applied, which this lesson does not",
        ),
        (f'of = "weights"\nrow = "a"\nvalue = {as_toml(weights_by_numpy()[1:2])[1:-1]}', {}, "this is the row of b"),
        (
            f'of = "weights"\nrow = "b"\nvalue = {as_toml(weights_by_numpy().T[1:2])[1:-1]}',
            {},
            "a column was taken for a row",
        ),
    ],
)
def test_other_words_of_a_cause(claim, changes, words):
    assert any(words in text for text in check(claim, **changes).causes.values())


def test_the_residual_and_positions_may_be_left_out():
    right = check('of = "residual"\nrow = "a"\nvalue = [0, 0, 0]').computed.values
    assert right == pytest.approx(X[0] + SUM[0])
    before = 'positions = "sinusoidal"'
    text = f'of = "scores"\nvalue = {as_toml(X @ np.array([[1, 2, 0], [0, 1, 0], [1, 0, 1]]) @ X.T)}'
    assert "the positions were left out" in check(text, before=before).causes["left out"]


def test_a_wrong_number_that_nothing_explains_has_no_cause():
    finding = check('of = "weights"\nrow = "a"\ncolumn = "b"\nvalue = 0.98765')
    assert (finding.verdict, finding.causes) == ("wrong", {})


def test_the_first_wrong_entry():
    matrix = weights_by_numpy().round(3)
    matrix[1, 2] += 0.25
    finding = check(f'of = "weights"\nvalue = {as_toml(matrix)}')
    assert finding.first == ("row b, column c", f"{matrix[1, 2]:.3f}", f"{weights_by_numpy()[1, 2]:.3f}")
    assert finding.where == "x.toml, line 17"


def test_above_and_below():
    assert check('of = "weights"\nrow = "a"\nmeasure = "largest"\nabove = 0.5').verdict == "right"
    finding = check('of = "weights"\nrow = "a"\nmeasure = "largest"\nbelow = 0.5')
    assert (finding.verdict, finding.first[1], finding.causes) == ("wrong", "below 0.5", {})
    assert check('of = "weights"\nrow = "a"\nmeasure = "total"\nabove = 0.5\nbelow = 1.5').verdict == "right"


def test_a_masked_score_is_claimed_as_masked():
    finding = check('of = "masked"\nrow = "a"\nvalue = [0.0, "masked", "masked"]', mask="causal")
    assert finding.first[0] == "column a"
    right = f"{finding.computed.values[0]:.4f}"
    assert check(f'of = "masked"\nrow = "a"\nvalue = [{right}, "masked", "masked"]', mask="causal").verdict == "right"
    assert check(f'of = "masked"\nrow = "a"\nvalue = [{right}, 0.0, "masked"]', mask="causal").first == (
        "column b",
        "0.0",
        "masked",
    )
    assert finding.to_dict()["computed"][1:] == [None, None]


def test_float32_printed_at_full_length_is_no_error():
    torch.manual_seed(7)
    x, W = torch.randn(5, 6), torch.randn(3, 6, 6)
    Q, K, V = (x @ W[index] for index in range(3))
    weights = torch.softmax(Q @ K.T / math.sqrt(6), dim=-1)
    rows = {"X": x, "W_Q": W[0], "W_K": W[1], "W_V": W[2], "scores": Q @ K.T, "weights": weights, "sum": weights @ V}
    texts = {name: [[str(number) for number in row] for row in values.numpy()] for name, values in rows.items()}
    written = {name: str(rows).replace("'", "") for name, rows in texts.items()}
    text = f'title = "x"\ntokens = ["a", "b", "c", "d", "e"]\nembeddings = {written["X"]}\n[parameters]\n'
    text += "\n".join(f"{name} = {written[name]}" for name in ("W_Q", "W_K", "W_V")) + "\n"
    for name in ("scores", "weights", "sum"):
        text += f'[[claim]]\nof = "{name}"\nvalue = {written[name]}\n'
    findings = check_lesson(parse_lesson(text, "x.toml"))
    assert [finding.verdict for finding in findings] == ["right"] * 3
    assert not claim_is_exact(findings[2])


def claim_is_exact(finding):
    """Whether every figure of a claim is right to its last digit."""
    figures = [float(text) for text in finding.claimed_texts]
    decimals = claimed_decimals(finding.claim.value)
    return all(map(rounds_to, finding.computed.values.ravel(), figures, decimals))


@pytest.mark.parametrize("value", ["0.9534042", "0.95340425", "0.953"])
def test_a_number_that_is_right_as_float32_or_rounded(value):
    assert check(f'of = "weights"\nrow = "b"\ncolumn = "b"\nvalue = {value}').verdict == "right"


@pytest.mark.parametrize("value", ["0.9534142", "0.95341", "0.95340499", "0.954"])
def test_a_number_that_float32_does_not_excuse(value):
    assert check(f'of = "weights"\nrow = "b"\ncolumn = "b"\nvalue = {value}').verdict == "wrong"


@pytest.mark.parametrize(
    ("word", "step"),
    [
        ("context", "sum"),
        ("Context vector", "sum"),
        ("attention_weights", "weights"),
        ("query", "Q"),
        ("score", "scores"),
    ],
)
def test_words_of_the_glossary_name_steps(word, step):
    assert check(f'of = "{word}"\nrow = "a"\nvalue = [0, 0, 0]').claim.of == step


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("contxt", "did you mean 'context'?"),
        ("wieghts", "did you mean 'weights'?"),
        ("attention scores", "before the softmax they are scores, after it weights"),
        ("output", "with one head and no W_O the output is 'sum'"),
        ("zzz", "there are embedding, Q, K, V, scores, scaled, weights, sum, residual"),
    ],
)
def test_an_unknown_word_gets_the_nearest_one(word, advice):
    with pytest.raises(Misfit) as caught:
        check(f'of = "{word}"\nvalue = 1')
    assert str(caught.value) == f"x.toml, line 15: there is no step {word!r}; {advice}"


def test_a_matrix_that_is_transposed_is_named_as_such():
    with pytest.raises(Misfit) as caught:
        check('of = "scores"\nhead = 0\nvalue = [[1, 2], [3, 4]]', lesson=HEADS)
    assert str(caught.value) == "x.toml, line 11: value must be 3 × 3, but it is 2 × 2; claim all of it, or a part"
    with pytest.raises(Misfit) as caught:
        check('of = "Q"\nhead = 0\nvalue = [[1, 2, 3], [3, 4, 5]]', lesson=HEADS)
    assert str(caught.value) == "x.toml, line 11: value must be 3 × 2, but it is 2 × 3; transposed it would fit"
