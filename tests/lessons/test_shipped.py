"""The lessons that come along: every claim right, every number recomputed, every one with a case where it fails."""

import math
import re
import tomllib

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from transom.lessons import checked, number, parsed
from transom.lessons.playing import pages
from transom.lessons.reading import PICTURES
from transom.lessons.shelf import paths, shipped
from transom.names import Misfit

NUMBERS = range(1, len(paths()) + 1)
COVERED = {  # what the path must cover
    "three-tokens": "steps",
    "six-words": "arrows",
    "why-scaling": "curves",
    "soft-hash-table": "rows",
    "blue-cute-creature": "vectors",
    "masked": "matrix",
    "cross-attention": "arrows",
    "many-heads": "heads",
    "static-and-contextual": "context",
    "learned-and-computed": "matrix",
    "word-order": "matrix",
    "why-q-k-v-differ": "matrix",
    "layers-together": "context",
    "distance": "curves",
    "low-rank-values": "steps",
    "value-dimension": "steps",
    "other-similarities": "rows",
}


def test_the_path_is_whole():
    assert {path.stem[3:]: shipped(path.stem[3:]).picture for path in paths()} == COVERED
    assert [int(path.stem[:2]) for path in paths()] == list(NUMBERS)
    assert set(COVERED.values()) <= set(PICTURES)


@pytest.mark.parametrize("which", NUMBERS)
def test_every_claim_is_right_and_every_slip_is_one(which):
    findings = checked(shipped(which))
    assert [(one.where, one.first, one.causes) for one in findings if not one.fine] == []
    assert len(findings) >= 4


@pytest.mark.parametrize("which", NUMBERS)
def test_a_lesson_tells_proves_and_shows_where_it_fails(which):
    lesson = shipped(which)
    assert min(len(lesson.about), len(lesson.closing)) > 80
    said = " ".join([*(case.says for case in lesson.cases.values()), *(claim.says for claim in lesson.claims)])
    assert re.search(r"\bfails?\b", said), "a case where the claim fails"
    assert {claim.case for claim in lesson.claims} >= {""}
    assert any(claim.value is not None for claim in lesson.claims)


@pytest.mark.parametrize("which", NUMBERS)
def test_every_head_is_what_torch_computes(which):
    """Weights and sums from Q, K and V once more, by another implementation."""
    seen = 0
    for case in shipped(which).cases.values():
        if case.setup is None or "scores" in case.setup.start:
            continue
        for layer, one in enumerate(case.setup.layers):
            if one.attention.similarity != "dot" or "V" not in case.steps:
                continue
            for head in range(one.attention.heads):
                Q, K, V = (torch.from_numpy(case.steps[name, head, layer].values) for name in "QKV")
                mask = None if one.attention.allowed is None else torch.from_numpy(one.attention.allowed)
                scale = (1 / math.sqrt(Q.shape[1]) if one.attention.scale else 1.0) / one.attention.temperature
                right = scaled_dot_product_attention(Q[None], K[None], V[None], attn_mask=mask, scale=scale)[0]
                assert np.allclose(case.steps["sum", head, layer].values, right.numpy(), rtol=1e-12, atol=1e-14)
                weights = scaled_dot_product_attention(
                    Q[None], K[None], torch.eye(len(K)).double()[None], mask, scale=scale
                )
                assert np.allclose(
                    case.steps["weights", head, layer].values, weights[0].numpy(), rtol=1e-12, atol=1e-14
                )
                seen += 1
    assert seen or which in {3, 14, 17}


@pytest.mark.parametrize("which", NUMBERS)
def test_projections_are_the_product_of_what_the_file_says(which):
    """Q, K and V from the numbers in the file, read by tomllib alone."""
    lesson = shipped(which)
    file = tomllib.loads(lesson.source.text)
    parameters, x = file.get("parameters", {}), file.get("embeddings")
    if x is None or "layer" in file or isinstance(parameters.get("W_Q", [[0]])[0][0], list):
        return
    x = np.array(x, dtype=float)
    for letter in "QKV":
        W = parameters.get(f"W_{letter}", parameters.get("all", "none"))
        if W == "none":
            continue
        source = x if letter == "Q" else np.array(file.get("at_embeddings", x), dtype=float)
        right = source if W == "identity" else source @ np.array(W, dtype=float)
        assert np.allclose(lesson.steps()[letter].values, right, rtol=1e-13), letter


def test_the_scaling_experiment_by_plain_floats():
    steps = shipped("why-scaling").steps("two scores of a note")
    for row, divisor in (("unscaled", 1.0), ("scaled", 2.0)):
        p = math.exp(6 / divisor) / (math.exp(6 / divisor) + math.exp(4 / divisor))
        assert steps["gradient"].values[steps["gradient"].rows.index(row)] == pytest.approx(
            [p, 1 - p, p * (1 - p), p * (1 - p) / divisor], rel=1e-12
        )


def test_both_gradients_are_those_of_autograd():
    raw = torch.tensor([6.0, 4.0], dtype=torch.float64, requires_grad=True)
    taken = raw / 2
    taken.retain_grad()
    torch.softmax(taken, dim=0)[0].backward()
    found = shipped("why-scaling").steps("two scores of a note")["gradient"]
    assert float(taken.grad[0]) == pytest.approx(found.values[1, 2], rel=1e-12)
    assert float(raw.grad[0]) == pytest.approx(found.values[1, 3], rel=1e-12)


def test_keys_of_another_width_than_the_queries_are_refused():
    text = shipped("value-dimension").source.text
    W_K = "W_K = [[1, 0], [0, 1], [1, 0], [0, 1]]"
    assert text.count(W_K) == 1
    with pytest.raises(Misfit) as caught:
        parsed(text.replace(W_K, "W_K = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]"), "x.toml")
    assert re.fullmatch(r"x\.toml, line \d+: W_K must have 2 columns, but it has 3; it is 4 × 3", str(caught.value))


@pytest.mark.parametrize("which", NUMBERS)
def test_what_is_said_to_point_away_has_a_negative_cosine(which):
    said = shipped(which).source.text
    assert not re.search(r"points? away|opposite", said) or re.search(r'measure = "cosine"[^[]*value = -', said)


def test_the_stack_of_two_finds_what_came_next_and_one_layer_cannot():
    lesson = shipped("layers-together")
    assert lesson.steps()["weights", 0, 1].values[3, 1] > 0.49
    assert lesson.steps("the second layer alone")["weights"].values[3].tolist() == [0.25] * 4


@pytest.mark.parametrize("which", NUMBERS)
def test_a_lesson_fits_a_terminal(which):
    shown = list(pages(shipped(which)))
    assert shown[0].title == shipped(which).title
    assert max(len(line) for page in shown for line in page.lines) <= 120
    assert max(len(page.lines) for page in shown) <= 40
    assert not [line for page in shown for line in page.lines if "inf" in line.split() or "nan" in line.split()]


def test_every_number_on_a_page_is_the_one_computed():
    lesson = shipped("three-tokens")
    page = next(page for page in pages(lesson) if page.title.startswith("weights"))
    rows = [line.split()[1:] for line in page.lines if line.split()[0] in lesson.steps().tokens]
    assert rows == [[number(value) for value in row] for row in lesson.steps()["weights"].values]


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (0, f"there are lessons 1 to {len(NUMBERS)}, but 0 came; transom learn lists them"),
        ("99", f"there are lessons 1 to {len(NUMBERS)}, but 99 came; transom learn lists them"),
        ("maskd", "there is no lesson 'maskd'; did you mean 'masked'?"),
    ],
)
def test_a_lesson_that_is_not_there(which, message):
    with pytest.raises(Misfit) as caught:
        shipped(which)
    assert str(caught.value) == message
