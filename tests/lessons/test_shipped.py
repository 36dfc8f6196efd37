"""The lessons that come along: every claim right, every number recomputed, every one with a case where it fails."""

import math
import re
import tomllib

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from transom.lessons import check_lesson, format_number, parse_lesson
from transom.lessons.lesson_file import PICTURES, load_shipped, shipped_paths
from transom.lessons.lesson_pages import pages
from transom.names import Misfit

NUMBERS = range(1, len(shipped_paths()) + 1)
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


def test_the_path_is_complete():
    assert {path.stem[3:]: load_shipped(path.stem[3:]).picture for path in shipped_paths()} == COVERED
    assert [int(path.stem[:2]) for path in shipped_paths()] == list(NUMBERS)
    assert set(COVERED.values()) <= set(PICTURES)


@pytest.mark.parametrize("which", NUMBERS)
def test_every_claim_is_right_and_every_slip_is_one(which):
    findings = check_lesson(load_shipped(which))
    assert [(finding.where, finding.first, finding.causes) for finding in findings if not finding.fine] == []
    assert len(findings) >= 4


@pytest.mark.parametrize("which", NUMBERS)
def test_a_lesson_explains_proves_and_shows_where_it_fails(which):
    lesson = load_shipped(which)
    assert min(len(lesson.about), len(lesson.closing)) > 80
    text = " ".join([*(case.says for case in lesson.cases.values()), *(claim.says for claim in lesson.claims)])
    assert re.search(r"\bfails?\b", text), "a case where the claim fails"
    assert {claim.case for claim in lesson.claims} >= {""}
    assert any(claim.value is not None for claim in lesson.claims)


@pytest.mark.parametrize("which", NUMBERS)
def test_every_head_is_what_torch_computes(which):
    """Weights and sums from Q, K and V once more, by another implementation."""
    checked = 0
    for case in load_shipped(which).cases.values():
        if case.setup is None or "scores" in case.setup.start:
            continue
        for layer, settings in enumerate(case.setup.layers):
            attention = settings.attention
            if attention.similarity != "dot" or "V" not in case.steps:
                continue
            for head in range(attention.heads):
                Q, K, V = (torch.from_numpy(case.steps[name, head, layer].values) for name in "QKV")
                mask = None if attention.allowed is None else torch.from_numpy(attention.allowed)
                scale = (1 / math.sqrt(Q.shape[1]) if attention.scale else 1.0) / attention.temperature
                right = scaled_dot_product_attention(Q[None], K[None], V[None], attn_mask=mask, scale=scale)[0]
                assert np.allclose(case.steps["sum", head, layer].values, right.numpy(), rtol=1e-12, atol=1e-14)
                weights = scaled_dot_product_attention(
                    Q[None], K[None], torch.eye(len(K)).double()[None], mask, scale=scale
                )
                assert np.allclose(
                    case.steps["weights", head, layer].values, weights[0].numpy(), rtol=1e-12, atol=1e-14
                )
                checked += 1
    assert checked or which in {3, 14, 17}


@pytest.mark.parametrize("which", NUMBERS)
def test_projections_are_the_product_of_what_the_file_says(which):
    """Q, K and V from the numbers in the file, read by tomllib alone."""
    lesson = load_shipped(which)
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
    steps = load_shipped("why-scaling").steps("two scores of a note")
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
    gradient = load_shipped("why-scaling").steps("two scores of a note")["gradient"]
    assert float(taken.grad[0]) == pytest.approx(gradient.values[1, 2], rel=1e-12)
    assert float(raw.grad[0]) == pytest.approx(gradient.values[1, 3], rel=1e-12)


def test_keys_of_another_width_than_the_queries_are_refused():
    text = load_shipped("value-dimension").source.text
    W_K = "W_K = [[1, 0], [0, 1], [1, 0], [0, 1]]"
    assert text.count(W_K) == 1
    with pytest.raises(Misfit) as caught:
        parse_lesson(text.replace(W_K, "W_K = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]"), "x.toml")
    assert re.fullmatch(r"x\.toml, line \d+: W_K must have 2 columns, but it has 3; it is 4 × 3", str(caught.value))


@pytest.mark.parametrize("which", NUMBERS)
def test_vectors_that_point_away_have_a_negative_cosine(which):
    text = load_shipped(which).source.text
    assert not re.search(r"points? away|opposite", text) or re.search(r'measure = "cosine"[^[]*value = -', text)


def test_the_stack_of_two_finds_what_came_next_and_one_layer_cannot():
    lesson = load_shipped("layers-together")
    assert lesson.steps()["weights", 0, 1].values[3, 1] > 0.49
    assert lesson.steps("the second layer alone")["weights"].values[3].tolist() == [0.25] * 4


@pytest.mark.parametrize("which", NUMBERS)
def test_a_lesson_fits_a_terminal(which):
    shown = list(pages(load_shipped(which)))
    assert shown[0].title == load_shipped(which).title
    lines = [page.wrap(100) for page in shown]
    assert max(len(line) for page in lines for line in page) <= 120
    assert max(len(page) for page in lines) <= 40
    assert not [line for page in lines for line in page if "inf" in line.split() or "nan" in line.split()]


def test_every_number_on_a_page_is_the_one_computed():
    lesson = load_shipped("three-tokens")
    page = next(page for page in pages(lesson) if page.title.startswith("weights"))
    rows = [line.split()[1:] for line in page.wrap(100) if line.split()[0] in lesson.steps().tokens]
    assert rows == [[format_number(value) for value in row] for row in lesson.steps()["weights"].values]


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (0, f"there are lessons 1 to {len(NUMBERS)}, but 0 came; transom learn lists them"),
        ("99", f"there are lessons 1 to {len(NUMBERS)}, but 99 came; transom learn lists them"),
        ("maskd", "there is no lesson 'maskd'; did you mean 'masked'?"),
    ],
)
def test_a_lesson_that_does_not_exist(which, message):
    with pytest.raises(Misfit) as caught:
        load_shipped(which)
    assert str(caught.value) == message
